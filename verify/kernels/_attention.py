"""Attention kernels as a row of small steps, so that two kernels differ exactly where they differ.

`Attention` holds the steps that every algorithm shares; an algorithm says in `attend` how the steps
follow one another.  A negative control overrides one step and nothing else.

Axes: q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar

import torch
from torch import Tensor

from verify.declaration import declare
from verify.errors import UsageError
from verify.kernels._precision import DTYPES, NAMES, dtype_of, matrix_product, rounded, row_total

INFINITY = float("inf")
Kernel = Callable[..., Any]


@dataclass(frozen=True)
class Call:
    """One call with its options resolved; operands in binary32, kv heads repeated.

    visible     (..., n_q, n_k), True where the query sees the key; bias likewise, or None.
    sinks       (1, heads, 1, 1) or None.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    format: str
    scale: float
    visible: Tensor
    bias: Tensor | None
    softcap: float | None
    sinks: Tensor | None

    @property
    def n_k(self) -> int:
        return self.k.shape[-2]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """(batch, heads, n_q, 1)"""
        return (*self.q.shape[:-1], 1)


@dataclass(frozen=True)
class Attention:
    """The steps, with the format of each.

    block       keys per tile (algorithms without tiles ignore it)
    scores      format in which the scores are stored before the softmax (None: binary32)
    p           format of P when it enters P V (None: that of the input)
    qk, pv, sum accumulators of Q K^T, P V and the row sum
    corner      the diagonal of causal and window
    """

    block: int = 16
    scores: str | None = None
    p: str | None = None
    qk: str = "fp32"
    pv: str = "fp32"
    sum: str = "fp32"
    corner: str = "bottom-right"
    differentiable: ClassVar[bool] = True  # whether a model covers its automatic differentiation

    def __post_init__(self) -> None:
        for name in (self.scores, self.p, self.qk, self.pv, self.sum):
            if name is not None:
                dtype_of(name)
        if self.block < 1:
            raise UsageError(f"a block holds at least one key, not {self.block}")

    # What the algorithm is made of

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        """(output (batch, heads, n_q, d_v), log-sum-exp (batch, heads, n_q, 1)) in binary32."""
        raise NotImplementedError

    def kv_head(self, head: int, heads: int, kv_heads: int) -> int:
        """The kv head that a head reads."""
        return head // (heads // kv_heads)

    def diagonal(self, n_q: int, n_k: int) -> int:
        """The place of query 0 on the diagonal of causal and window."""
        return n_k - n_q if self.corner == "bottom-right" else 0

    def product(self, q: Tensor, k: Tensor) -> Tensor:
        """q k^T, (batch, heads, n_q, keys)."""
        return matrix_product(q, k.transpose(-2, -1), self.qk)

    def scaled(self, call: Call, keys: slice) -> Tensor:
        return self.product(call.q, call.k[..., keys, :]) * call.scale

    def capped(self, t: Tensor, softcap: float | None) -> Tensor:
        return t if softcap is None else softcap * torch.tanh(t / softcap)

    def biased(self, t: Tensor, call: Call, keys: slice) -> Tensor:
        return t if call.bias is None else t + call.bias[..., keys]

    def stored(self, s: Tensor) -> Tensor:
        return s if self.scores is None else rounded(s, self.scores)

    def masked(self, s: Tensor, call: Call, keys: slice) -> Tensor:
        """The scores, -inf where the key is removed."""
        return torch.where(call.visible[..., keys], s, -INFINITY)

    def live_scores(self, call: Call, keys: slice) -> Tensor:
        """Scores of some keys, (batch, heads, n_q, keys): scale, softcap, bias, storage, mask."""
        t = self.capped(self.scaled(call, keys), call.softcap)
        return self.masked(self.stored(self.biased(t, call, keys)), call, keys)

    def exponential(self, x: Tensor) -> Tensor:
        return torch.exp(x)

    def shifted(self, s: Tensor, m: Tensor) -> Tensor:
        """exp(s - m), and 0 where the row has no key yet (m = -inf)."""
        return self.exponential(s - torch.where(m == -INFINITY, 0.0, m))

    def row_sum(self, e: Tensor) -> Tensor:
        return row_total(e, self.sum)

    def stored_p(self, p: Tensor, call: Call) -> Tensor:
        return rounded(p, self.p or call.format)

    def weighted(self, p: Tensor, v: Tensor, live: Tensor) -> Tensor:
        """P V, where a value that is not finite shows only in the rows that see its key.

        Shapes      p and live (batch, heads, n_q, keys), v (batch, heads, keys, d_v).
        """
        p = torch.where(live, p, 0.0)  # 0 already; its gradient may be infinite times 0
        finite = torch.isfinite(v)
        if bool(finite.all()):
            return matrix_product(p, v, self.pv)
        total = matrix_product(p, torch.where(finite, v, 0.0), self.pv)
        seen = live.to(p.dtype)
        for special in (float("nan"), INFINITY, -INFINITY):
            there = torch.isnan(v) if special != special else v == special
            total = total + torch.where(seen @ there.to(p.dtype) > 0, special, 0.0)
        return total

    def divided(self, o: Tensor, l: Tensor) -> Tensor:  # noqa: E741
        """o / l, and 0 for a row without keys."""
        return torch.where(l == 0, 0.0, o / torch.where(l == 0, 1.0, l))

    def log_sum_exp(self, m: Tensor, l: Tensor) -> Tensor:  # noqa: E741
        """m + ln l, -inf for a row without keys."""
        return torch.where(l == 0, -INFINITY, m + torch.log(l))

    # What every kernel shares

    def prepared(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scale: float | None,
        causal: bool,
        window: tuple[int, int] | None,
        mask: Tensor | None,
        bias: Tensor | None,
        softcap: float | None,
        sinks: Tensor | None,
    ) -> Call:
        heads, kv_heads = q.shape[1], k.shape[1]
        places = [self.kv_head(h, heads, kv_heads) for h in range(heads)]
        return Call(
            q=q.float(),
            k=k[:, places].float(),
            v=v[:, places].float(),
            format=NAMES[q.dtype],
            scale=1 / math.sqrt(q.shape[-1]) if scale is None else scale,
            visible=self.visible(q, k, causal, window, mask, bias),
            bias=None if bias is None else bias.float().expand(*bias.shape[:-1], k.shape[-2]),
            softcap=softcap,
            sinks=None if sinks is None else sinks.float().reshape(1, -1, 1, 1),
        )

    def visible(
        self,
        q: Tensor,
        k: Tensor,
        causal: bool,
        window: tuple[int, int] | None,
        mask: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        """True where a query sees a key, (..., n_q, n_k)."""
        n_q, n_k = q.shape[-2], k.shape[-2]
        i = torch.arange(n_q, device=q.device).unsqueeze(-1) + self.diagonal(n_q, n_k)
        j = torch.arange(n_k, device=q.device)
        keep = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device)
        if causal:
            keep = keep & (j <= i)
        if window is not None:
            left, right = window
            keep = keep if left < 0 else keep & (j >= i - left)
            keep = keep if right < 0 else keep & (j <= i + right)
        if mask is not None:
            keep = keep & mask
        return keep if bias is None else keep & (bias != -INFINITY)

    def kernel(self, **declared: Any) -> Kernel:
        """The kernel as a plain function of tensors, with its declaration.

        Keywords named in `without` are taken out of the signature, which is what claims them.
        """

        def attention(
            q: Tensor,
            k: Tensor,
            v: Tensor,
            *,
            scale: float | None = None,
            causal: bool = False,
            window: tuple[int, int] | None = None,
            mask: Tensor | None = None,
            bias: Tensor | None = None,
            softcap: float | None = None,
            sinks: Tensor | None = None,
            return_lse: bool = False,
        ) -> Tensor | tuple[Tensor, Tensor]:
            call = self.prepared(q, k, v, scale, causal, window, mask, bias, softcap, sinks)
            o, lse = self.attend(call)
            out = self.stored_output(o, q.dtype)
            return (out, lse.squeeze(-1)) if return_lse else out

        attention.__doc__ = type(self).__doc__
        declared.setdefault("model", self.models())
        if {self.qk, self.pv, self.sum} != {"fp32"} or not self.differentiable:
            declared["without"] = (*declared.get("without", ()), "backward")
        without = declared.get("without", ())
        whole = signature(attention)
        kept = [p for name, p in whole.parameters.items() if name not in without]
        attention.__signature__ = whole.replace(parameters=kept)  # type: ignore[attr-defined]
        declared["without"] = tuple(f for f in without if f not in whole.parameters)
        return declare(operation="attention", **declared)(attention)

    def stored_output(self, o: Tensor, dtype: torch.dtype) -> Tensor:
        return o.to(dtype)

    def models(self) -> dict[str, dict[str, Any]]:
        """The arithmetic model per input format, as plain data."""
        return {name: self.model(name) for name in DTYPES}

    def model(self, name: str) -> dict[str, Any]:
        return {
            "name": "textbook",
            "input": name,
            "output": name,
            "qk": {"format": self.qk, "mode": "RN"},
            "pv": {"format": self.pv, "mode": "RN"},
            "row_sum": {"format": self.sum, "mode": "RN"},
            "stored_scores": self.scores,
            "p_format": self.p or name,
            "block": None,
            **self.differentiated(name),
        }

    def differentiated(self, name: str) -> dict[str, Any]:
        """What automatic differentiation makes of the steps: P is kept, D comes from the output
        before it is rounded, a rounding of P rounds dP, and kv heads add up in the input format."""
        return {
            "backward_p": "kept",
            "delta_format": "fp32",
            "dp_format": self.p or name,
            "ds_format": self.scores or "fp32",
            "ds_form": "products",
            "gradient_scale": "operands",
            "group_format": name,
            "more_roundings": 4,
        }


@dataclass(frozen=True)
class Naive(Attention):
    """exp(s) without a shift: overflows where a score exceeds 88.72; P normalised, then rounded."""

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        s = self.live_scores(call, slice(None))
        e = self.exponential(s)
        l = self.row_sum(e)  # noqa: E741
        if call.sinks is not None:
            l = l + self.exponential(call.sinks)  # noqa: E741
        p = self.stored_p(self.divided(e, l), call)
        return self.weighted(p, call.v, s != -INFINITY), torch.log(l)

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {
            "shift": False, "p_normalised": True, "delta": "probabilities"
        }  # fmt: skip


@dataclass(frozen=True)
class Shifted(Attention):
    """All scores at once: O = (exp(s - m) V) / l, P rounded before P V."""

    def maximum(self, s: Tensor, call: Call) -> Tensor:
        """The row maximum, with the sink, (batch, heads, n_q, 1); -inf for a row without keys."""
        none = torch.full(call.row_shape, -INFINITY, device=s.device)
        m = s.amax(dim=-1, keepdim=True) if s.shape[-1] else none
        # the shift cancels: its gradient is exactly 0, and is not left to rounding
        return (m if call.sinks is None else torch.maximum(m, call.sinks)).detach()

    def sums(self, e: Tensor, m: Tensor, call: Call) -> Tensor:
        """The row sum, with the sink."""
        l = self.row_sum(e)  # noqa: E741
        return l if call.sinks is None else l + self.shifted(call.sinks, m)

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        s = self.live_scores(call, slice(None))
        m = self.maximum(s, call)
        e = self.shifted(s, m)
        l = self.sums(e, m, call)  # noqa: E741
        o = self.weighted(self.stored_p(e, call), call.v, s != -INFINITY)
        return self.divided(o, l), self.log_sum_exp(m, l)


@dataclass(frozen=True)
class TwoPass(Shifted):
    """Maximum and sum first; then P = exp(s - m) / l, rounded, times V."""

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        s = self.live_scores(call, slice(None))
        m = self.maximum(s, call)
        e = self.shifted(s, m)
        l = self.sums(e, m, call)  # noqa: E741
        p = self.stored_p(self.divided(e, l), call)
        return self.weighted(p, call.v, s != -INFINITY), self.log_sum_exp(m, l)

    def model(self, name: str) -> dict[str, Any]:
        return super().model(name) | {"p_normalised": True, "delta": "probabilities"}
