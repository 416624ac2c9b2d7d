"""Attention kernels that visit the keys tile by tile, with a running maximum; axes as there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from verify.errors import UsageError
from verify.kernels._attention import INFINITY, Attention, Call
from verify.kernels._precision import rounded

State = tuple[Tensor, Tensor, Tensor]  # row maximum, row sum, output so far


@dataclass(frozen=True)
class Online(Attention):
    """Flash attention: tiles of `block` keys, running row maximum and row sum, O rescaled.

    order       'forward' or 'reverse': which tile is visited first
    """

    order: str = "forward"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ("forward", "reverse"):
            raise UsageError(f"tiles are visited 'forward' or 'reverse', not {self.order!r}")

    def tiles(self, call: Call) -> Iterator[slice]:
        starts = range(0, call.n_k, self.block)
        for start in starts if self.order == "forward" else reversed(starts):
            yield slice(start, min(start + self.block, call.n_k))

    def start(self, call: Call) -> State:
        """The state before the first tile; a sink is a score that has been seen already."""
        m = torch.full(call.row_shape, -INFINITY, device=call.q.device)
        o = torch.zeros(*call.row_shape[:-1], call.v.shape[-1], device=call.q.device)
        if call.sinks is not None:
            m = call.sinks.expand(call.row_shape)
        shift = m.detach()
        # exp(m - shift): 1, with the gradient that a sink has
        return shift, torch.where(shift == -INFINITY, 0.0, 1 + (m - shift)), o

    def new_maximum(self, m: Tensor, s: Tensor) -> Tensor:
        return torch.maximum(m, s.amax(dim=-1, keepdim=True)).detach()

    def correction(self, m: Tensor, new: Tensor) -> Tensor:
        """exp(m - new): what brings row sum and output to the new maximum."""
        return self.shifted(m, new)

    def tile(self, state: State, call: Call, keys: slice) -> State:
        """The state after one more tile."""
        m, l, o = state  # noqa: E741
        s = self.live_scores(call, keys)
        new = self.new_maximum(m, s)
        e = self.shifted(s, new)
        factor = self.correction(m, new)
        l = self.added(rounded(l * factor, self.sum), e, call)  # noqa: E741
        return new, l, self.accumulated(o, factor, self.stored_p(e, call), call, keys, s)

    def added(self, l: Tensor, e: Tensor, call: Call) -> Tensor:  # noqa: E741
        """The row sum after one more tile."""
        return rounded(l + self.row_sum(e), self.sum)

    def accumulated(
        self, o: Tensor, factor: Tensor, p: Tensor, call: Call, keys: slice, s: Tensor
    ) -> Tensor:
        more = self.weighted(p, call.v[..., keys, :], s != -INFINITY)
        return rounded(rounded(o * factor, self.pv) + more, self.pv)

    def finish(self, state: State, call: Call) -> tuple[Tensor, Tensor]:
        m, l, o = state  # noqa: E741
        return self.divided(o, l), self.log_sum_exp(m, l)

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        state = self.start(call)
        for keys in self.tiles(call):
            state = self.tile(state, call, keys)
        return self.finish(state, call)

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"block": self.block}


@dataclass(frozen=True)
class Split(Online):
    """Split-KV: each part of the keys by itself, then merged by their log-sum-exps."""

    splits: int = 4
    differentiable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.splits < 1:
            raise UsageError(f"at least one split is needed, not {self.splits}")

    def parts(self, call: Call) -> list[slice]:
        """The keys of each split; with more splits than keys some are empty."""
        size = -(-call.n_k // self.splits)
        cuts = [min(i * size, call.n_k) for i in range(self.splits + 1)]
        return [slice(a, b) for a, b in pairwise(cuts)]

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        done = [self.part(call, keys) for keys in self.parts(call)]
        return self.merged(done, call)

    def part(self, call: Call, keys: slice) -> tuple[Tensor, Tensor]:
        """(output, log-sum-exp) of one split, without the sink."""
        alone = _without_sinks(call)
        state = self.start(alone)
        for start in range(keys.start, keys.stop, self.block):
            state = self.tile(state, alone, slice(start, min(start + self.block, keys.stop)))
        return self.finish(state, alone)

    def merged(self, parts: list[tuple[Tensor, Tensor]], call: Call) -> tuple[Tensor, Tensor]:
        """O = sum exp(LSE_i - m) O_i / sum exp(LSE_i - m); empty splits weigh nothing."""
        each = [lse for _, lse in parts]
        if call.sinks is not None:
            each.append(call.sinks.expand(call.row_shape))
        lse = torch.cat(each, dim=-1)
        m = lse.amax(dim=-1, keepdim=True)
        weights = self.shifted(lse, m)
        l = weights.sum(dim=-1, keepdim=True)  # noqa: E741
        o = torch.zeros_like(parts[0][0])
        for i, (part, _) in enumerate(parts):
            w = weights[..., i : i + 1]
            o = o + torch.where(w == 0, 0.0, w * part)
        return self.divided(o, l), self.log_sum_exp(m, l)

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"splits": self.splits}


def _without_sinks(call: Call) -> Call:
    values = {f.name: getattr(call, f.name) for f in fields(call)}
    return Call(**values | {"sinks": None})
