"""The backward pass of attention as a row of small steps; a negative control overrides one of them.

P is formed again from the log-sum-exp, D = rowsum(dO O), tile by tile of keys and of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from verify.declaration import declare
from verify.kernels._attention import INFINITY, Attention, Call
from verify.kernels._attention_tiled import Online, Split
from verify.kernels._precision import matrix_product, rounded

Gradients = dict[str, Tensor]
Totals = tuple[Tensor, Tensor, Tensor, Tensor]  # dq, dk, dv of all heads, and ds, while they grow


@dataclass(frozen=True)
class Saved:
    """What the forward pass left: the stored output, the log-sum-exp, and D; all binary32.

    out         (batch, heads, n_q, d_v); lse, delta (batch, heads, n_q, 1)
    """

    do: Tensor
    out: Tensor
    lse: Tensor
    delta: Tensor


@dataclass(frozen=True)
class FlashBackward:
    """Flash attention's backward pass.

    queries     queries per tile (dK and dV are accumulated tile by tile)
    block       keys per tile (dQ is accumulated tile by tile)
    order       'forward' or 'reverse': which tile of keys comes first
    """

    queries: int = 16
    block: int = 16
    order: str = "forward"
    steps: Attention = field(default_factory=Online)

    # the steps

    def forward(self, call: Call) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp."""
        return self.steps.attend(call)

    def tiles(self, n: int, length: int) -> Iterator[slice]:
        starts = range(0, n, length)
        for start in starts if self.order == "forward" else reversed(starts):
            yield slice(start, min(start + length, n))

    def delta(self, do: Tensor, out: Tensor) -> Tensor:
        """D, (batch, heads, n_q, 1)."""
        return (do * out).sum(dim=-1, keepdim=True)

    def probabilities(self, s: Tensor, saved: Saved) -> Tensor:
        """exp(s - LSE), and 0 in a row without keys."""
        return torch.exp(s - torch.where(saved.lse == -INFINITY, 0.0, saved.lse))

    def score_gradient(self, p: Tensor, dp: Tensor, saved: Saved) -> Tensor:
        return p * (dp - saved.delta)

    def slope(self, call: Call, keys: slice) -> Tensor | float:
        """The derivative of the softcap at every score."""
        if call.softcap is None:
            return 1.0
        return 1 - torch.tanh(self.steps.scaled(call, keys) / call.softcap) ** 2

    def stored(self, x: Tensor, call: Call) -> Tensor:
        return rounded(x, call.format)

    def accumulated(self, total: Tensor, more: Tensor, call: Call) -> Tensor:
        """A running gradient with one more tile."""
        return total + more

    def scores(self, call: Call, keys: slice) -> Tensor:
        return self.steps.live_scores(call, keys)

    def grouped(self, x: Tensor, kv_heads: int) -> Tensor:
        """dK or dV of all heads, added for each kv head."""
        batch, heads, n, columns = x.shape
        return x.reshape(batch, kv_heads, heads // kv_heads, n, columns).sum(dim=2)

    def reduced(self, ds: Tensor, shape: torch.Size) -> Tensor:
        """dbias: dS summed over the axes along which the bias was broadcast."""
        return ds.sum_to_size(shape)

    def query_scale(self, call: Call) -> float:
        return call.scale

    def key_scale(self, call: Call) -> float:
        return call.scale

    # the order of the steps

    def gradients(self, call: Call, do: Tensor, dtype: torch.dtype) -> Gradients:
        """dq, dk, dv of all heads, ds (batch, heads, n_q, n_k) and the sink's, in binary32."""
        o, lse = self.forward(call)
        out = o.to(dtype).float()
        saved = Saved(do.float(), out, lse, self.delta(do.float(), out))
        dq, dk, dv = (torch.zeros_like(x) for x in (call.q, call.k, call.v))
        ds = torch.zeros(*call.q.shape[:-1], call.n_k, device=call.q.device)
        self.visit(call, saved, (dq, dk, dv, ds))
        found = {"dq": dq * self.query_scale(call), "dk": dk * self.key_scale(call), "dv": dv}
        found["ds"] = ds
        if call.sinks is not None:
            sink = self.probabilities(call.sinks.expand(call.row_shape), saved)
            found["dsinks"] = self.score_gradient(sink, torch.zeros_like(sink), saved)
        return found

    def visit(self, call: Call, saved: Saved, totals: Totals) -> None:
        """Add what all keys contribute, tile by tile."""
        for keys in self.tiles(call.n_k, self.block):
            self.tile(call, saved, keys, totals)

    def tile(self, call: Call, saved: Saved, keys: slice, totals: Totals) -> None:
        """Add what some keys contribute."""
        dq, dk, dv, ds = totals
        p = self.probabilities(self.scores(call, keys), saved)
        k, v = call.k[..., keys, :], call.v[..., keys, :]
        dp = matrix_product(saved.do, v.transpose(-2, -1))
        dp = torch.where(call.visible[..., keys], dp, 0.0)  # a removed value may be huge
        gradient = self.score_gradient(p, dp, saved)
        ds[..., keys] = gradient
        low = self.stored(gradient * self.slope(call, keys), call)
        low_p = self.stored(p, call)
        dq.copy_(self.accumulated(dq, matrix_product(low, k), call))
        for rows in self.tiles(call.q.shape[-2], self.queries):
            self.add(dk[..., keys, :], low, call.q, rows, call)
            self.add(dv[..., keys, :], low_p, saved.do, rows, call)

    def add(self, total: Tensor, left: Tensor, right: Tensor, rows: slice, call: Call) -> None:
        """total += left[rows]^T right[rows]."""
        more = matrix_product(left[..., rows, :].transpose(-2, -1), right[..., rows, :])
        total.copy_(self.accumulated(total, more, call))

    # the kernel

    def kernel(self, **declared: Any) -> Callable[..., tuple[Tensor, ...]]:
        """The backward pass as a plain function of tensors, with its declaration."""

        def attention_backward(
            q: Tensor,
            k: Tensor,
            v: Tensor,
            do: Tensor,
            *,
            scale: float | None = None,
            causal: bool = False,
            window: tuple[int, int] | None = None,
            mask: Tensor | None = None,
            bias: Tensor | None = None,
            softcap: float | None = None,
            sinks: Tensor | None = None,
        ) -> tuple[Tensor, ...]:
            steps = self.steps
            call = steps.prepared(q, k, v, scale, causal, window, mask, bias, softcap, sinks)
            found = self.gradients(call, do, q.dtype)
            kv_heads = k.shape[1]
            outputs = [
                found["dq"],
                self.grouped(found["dk"], kv_heads),
                self.grouped(found["dv"], kv_heads),
            ]
            if bias is not None:
                outputs.append(self.reduced(found["ds"], bias.shape))
            if sinks is not None:
                outputs.append(found["dsinks"].sum(dim=(0, 2, 3)))
            return tuple(x.to(q.dtype) for x in outputs)

        attention_backward.__doc__ = type(self).__doc__
        declared.setdefault("model", self.models())
        return declare(operation="attention_backward", **declared)(attention_backward)

    def models(self) -> dict[str, dict[str, Any]]:
        """The arithmetic model per input format, as plain data."""
        return {name: self.model(name) for name in ("fp16", "bf16", "fp32")}

    def model(self, name: str) -> dict[str, Any]:
        return self.steps.model(name) | {
            "name": "textbook-backward",
            "backward_p": "lse",
            "delta": "output",
            "delta_format": None,
            "dp_format": None,
            "ds_format": name,
            "ds_form": "difference",
            "gradient_scale": "last",
            "group_format": None,
            "more_roundings": 0,
        }


@dataclass(frozen=True)
class SplitBackward(FlashBackward):
    """Split-KV's backward pass: each part of the keys has a dQ of its own, added at the end."""

    steps: Split = field(default_factory=Split)

    def visit(self, call: Call, saved: Saved, totals: Totals) -> None:
        dq, dk, dv, ds = totals
        for part in self.steps.parts(call):
            own = torch.zeros_like(dq)
            for start in range(part.start, part.stop, self.block):
                keys = slice(start, min(start + self.block, part.stop))
                self.tile(call, saved, keys, (own, dk, dv, ds))
            dq += own
