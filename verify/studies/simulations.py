"""Simulations: arithmetic that papers describe and that no kernel of this project has.

They imitate where numbers are rounded, in binary32 on a CPU; they are not the papers' kernels, and
tables that use them say "simulation".  Axes as everywhere: (batch, heads, n, d).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from verify.integers import Draws
from verify.kernels._attention import Call
from verify.kernels._attention_tiled import Online
from verify.kernels._precision import rounded

E4M3_LARGEST = 448.0
P_OFFSET = 256.0  # FlashAttention-3 multiplies P by 2^8 before it is stored in e4m3


def e4m3(x: Tensor, scale: Tensor) -> Tensor:
    """x rounded to e4m3 in units of `scale`, back in binary32."""
    return scale * (x / scale).to(torch.float8_e4m3fn).float()


def int8(x: Tensor, scale: Tensor) -> Tensor:
    """x rounded to -127 ... 127 in units of `scale`, back in binary32."""
    return torch.round(x / scale).clamp(-127, 127) * scale


def largest(x: Tensor, top: float, block: int | None = None) -> Tensor:
    """The scale that maps the largest magnitude to `top`: of the tensor, or of each block of rows.

    Shapes      x (..., n, d), block dividing n; returns a scale that broadcasts against x.
    """
    if block is None:
        return (x.abs().amax() / top).clamp_min(1e-30)
    n, d = x.shape[-2:]
    parts = x.abs().reshape(*x.shape[:-2], n // block, block * d).amax(dim=-1) / top
    return parts.repeat_interleave(block, dim=-1).unsqueeze(-1).clamp_min(1e-30)


def rotation(d: int, draws: Draws) -> Tensor:
    """A Hadamard matrix with random signs over sqrt(d): orthogonal, (d, d); d a power of two."""
    h = torch.ones(1, 1)
    while h.shape[0] < d:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    signs = torch.from_numpy(draws.signs((1, d))).float()
    return torch.mul(h, signs / d**0.5)


def quantised(tensors: tuple[Tensor, ...], block: int | None) -> tuple[Tensor, ...]:
    """Tensors in e4m3 with one scale per tensor, or one per block of rows, back in binary32."""
    return tuple(e4m3(x, largest(x, E4M3_LARGEST, block)) for x in tensors)


def fp8_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Flash attention on quantised operands: P in e4m3, binary32 accumulators, fp16 output."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    e = torch.exp(s - s.amax(dim=-1, keepdim=True))
    p = (e * P_OFFSET).to(torch.float8_e4m3fn).float() / P_OFFSET
    return ((p @ v) / e.sum(dim=-1, keepdim=True)).half()


def fp8_eager(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention without tiles on quantised operands: P normalised, in fp16."""
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return (torch.softmax(s, dim=-1).half().float() @ v).half()


def sage_attention(q: Tensor, k: Tensor, v: Tensor, block: int, *, int8_pv: bool) -> Tensor:
    """SageAttention: K minus its mean key, Q and K in int8 with one scale per block of rows; P V in
    fp16 with binary32 accumulators, or in int8 (P times 127, V one scale per column)."""
    k = k - k.mean(dim=-2, keepdim=True)
    q, k = (int8(x, largest(x, 127.0, block)) for x in (q, k))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    e = torch.exp(s - s.amax(dim=-1, keepdim=True))
    if int8_pv:
        v = int8(v, (v.abs().amax(dim=-2, keepdim=True) / 127).clamp_min(1e-30))
        p = int8(e, torch.tensor(1 / 127))
    else:
        p, v = rounded(e, "fp16"), rounded(v, "fp16")
    return ((p @ v) / e.sum(dim=-1, keepdim=True)).half()


@dataclass(frozen=True)
class LowState(Online):
    """Flash attention that keeps row sum and output in `state` between tiles."""

    state: str = "bf16"

    def added(self, l: Tensor, e: Tensor, call: Call) -> Tensor:  # noqa: E741
        return rounded(rounded(l, self.state) + e.sum(dim=-1, keepdim=True), self.state)

    def accumulated(
        self, o: Tensor, factor: Tensor, p: Tensor, call: Call, keys: slice, s: Tensor
    ) -> Tensor:
        more = rounded(self.weighted(p, call.v[..., keys, :], s != -torch.inf), self.state)
        return rounded(rounded(o * factor, self.state) + more, self.state)

    def correction(self, m: Tensor, new: Tensor) -> Tensor:
        return rounded(super().correction(m, new), self.state)


@dataclass(frozen=True)
class ShiftedTies(LowState):
    """The remedy of arXiv 2510.04212: where several keys are within 1e-3 of the tile's maximum,
    subtract twice the maximum if it is positive, and 0 if it is negative."""

    def new_maximum(self, m: Tensor, s: Tensor) -> Tensor:
        top = s.amax(dim=-1, keepdim=True)
        tied = (s >= top - 1e-3).sum(dim=-1, keepdim=True) > 1
        return torch.maximum(m, torch.where(tied, torch.where(top > 0, 2 * top, 0.0 * top), top))


def division_free_softmax(x: Tensor) -> Tensor:
    """exp(x - ln sum exp x), every step rounded to the format of x."""
    return torch.exp(x - torch.log(torch.exp(x).sum(dim=-1, keepdim=True)))


def basic_logsumexp(x: Tensor) -> Tensor:
    """ln sum exp x, every step rounded to the format of x."""
    return torch.log(torch.exp(x).sum(dim=-1))


def shifted_division_free_softmax(x: Tensor) -> Tensor:
    """exp((x - m) - ln sum exp(x - m)), every step rounded to the format of x."""
    y = x - x.amax(dim=-1, keepdim=True)
    return torch.exp(y - torch.log(torch.exp(y).sum(dim=-1, keepdim=True)))
