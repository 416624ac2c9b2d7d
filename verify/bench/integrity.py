"""Integrity: times that cannot be true."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# The measured roofline is less than the hardware can do, and far less where other work disturbed
# its measurement: only twice its speed is called impossible, or twenty times on a busy machine.
FLOOR_SHARE, BUSY_FLOOR_SHARE = 0.5, 0.05
# A conversation may take this many times as long as the reference's longest, and this much more.
CONVERSATION_FACTOR, CONVERSATION_SECONDS = 3.0, 2e-3
# CUDA events have a resolution of half a microsecond, and a launch a latency of its own.
DEVICE_SHARE, DEVICE_SECONDS = 0.2, 100e-6
# A kernel that remembers its inputs saves more than this share of a call (KernelBench's rule).
REMEMBERED_SHARE = 0.1


@dataclass(frozen=True)
class Clocks:
    """What three clocks say of the same rounds, in seconds.

    inside   the worker's clock around the call
    outside  the parent's clock around the conversation
    device   CUDA events around the call; empty on a CPU
    """

    inside: tuple[float, ...]
    outside: tuple[float, ...]
    device: tuple[float, ...] = ()

    @property
    def around(self) -> tuple[float, ...]:
        """Times of the conversations without the call."""
        pairs = zip(self.outside, self.inside, strict=True)
        return tuple(out - within for out, within in pairs)


def problems(
    clocks: Clocks, least_seconds: float, conversation: float | None, quiet: bool = True
) -> tuple[str, ...]:
    """Why the times of a kernel cannot be true; nothing where they can.

    Other work may delay any round, so a kernel is accused only of what holds in every one.

    least_seconds   time of the operation at the machine's roofline
    conversation    longest time around the reference's calls of the same shape, if there is one
    quiet           whether the roofline was measured on a quiet machine
    """
    found = (
        _below_floor(clocks.inside, least_seconds, quiet),
        _parent_disagrees(clocks, conversation),
        _device_disagrees(clocks),
    )
    return tuple(text for text in found if text)


def remembers(repeats: Sequence[tuple[float, float]]) -> bool:
    """Whether, in every pair (fresh, repeated), the repeated inputs took 10 % less time.

    Ask twice before accusing: where other work makes times scatter, all of a few pairs agree by
    chance once in some hundred times.
    """
    return bool(repeats) and all(b < (1 - REMEMBERED_SHARE) * a for a, b in repeats)


def remembered(repeats: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    """The accusation of a kernel that answers inputs seen before without computing."""
    if not remembers(repeats):
        return ()
    ratio = statistics.median(a / b for a, b in repeats)
    text = f"the same inputs again take {ratio:.3g} times less time than fresh ones"
    return (f"{text}, in each of {len(repeats)} pairs: the kernel remembers answers",)


def _below_floor(inside: Sequence[float], least_seconds: float, quiet: bool) -> str:
    """A single round is enough: nothing makes a call faster than it can be."""
    share = FLOOR_SHARE if quiet else BUSY_FLOOR_SHARE
    floor, least = share * least_seconds, min(inside)
    if least >= floor:
        return ""
    return (
        f"a call of {least:.3g} s is below the physical floor of {floor:.3g} s "
        f"({share:g} of the time of the roofline measured here)"
    )


def _parent_disagrees(clocks: Clocks, conversation: float | None) -> str:
    """The worker's clock is a part of the parent's, and what is left over is conversation."""
    for inside, outside in zip(clocks.inside, clocks.outside, strict=True):
        if not 0 <= inside <= outside:
            return f"the worker tells of {inside:.3g} s, of which the parent saw {outside:.3g} s"
    if conversation is None:
        return ""
    allowed = CONVERSATION_FACTOR * conversation + CONVERSATION_SECONDS
    told = statistics.median(clocks.inside)
    unexplained = min(clocks.around) - allowed
    if unexplained <= max(told, allowed):
        return ""
    return (
        f"the worker tells of {told:.3g} s; in every round the parent's clock leaves "
        f"{unexplained:.3g} s more than any conversation takes"
    )


def _device_disagrees(clocks: Clocks) -> str:
    if not clocks.device:
        return ""
    pairs = list(zip(clocks.inside, clocks.device, strict=True))
    if any(abs(a - b) <= DEVICE_SHARE * max(a, b) + DEVICE_SECONDS for a, b in pairs):
        return ""
    told, measured = pairs[0]
    return f"CUDA events tell of {measured:.3g} s, the synchronised wall clock of {told:.3g} s"
