"""Bench: how fast a kernel is, on a machine that is measured in the same run.

    shape -> fresh inputs -> kernel's worker    -> seconds, output --> sampled rows judged
                        \\--> reference's worker -> seconds             |
    roofline (a matrix product, a copy) ------> floor ----------------+--> timing

What is trusted.  The seconds of a call are taken inside the kernel's process, around the call,
synchronised with the device: the conversation between the processes takes longer than a short call.
The parent's clock, which no kernel can reach, runs around that conversation.  Three checks tie the
two together (`verify.bench.integrity`); each that fails is an integrity failure, exit status 3:

    floor    no call is faster than the arithmetic and the traffic of the operation
    parent   the parent's clock leaves no call time unexplained
    device   CUDA events and the wall clock tell the same

Inputs are fresh in every round, from a seed that did not exist when the kernel was loaded, and the
outputs of rounds that are chosen at random afterwards are judged on rows chosen at random.
A kernel that lies about calls shorter than a millisecond within the limits of the floor is not
caught: timing is trusted less than numerics.
"""

from __future__ import annotations

from verify.errors import UsageError


def require_pytest_benchmark() -> None:
    """Raises UsageError with the remedy where pytest or pytest-benchmark is missing."""
    from importlib.util import find_spec

    missing = [name for name in ("pytest", "pytest_benchmark") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"timing needs pytest-benchmark ({missing[0]} is missing): pip install attncert[pytest]"
        )
