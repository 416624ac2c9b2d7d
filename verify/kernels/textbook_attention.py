"""Textbook attention in PyTorch: naive, shifted, online (flash), two-pass and split-KV.

The arithmetic, unless an option changes it: operands cast to binary32, products and sums in
binary32 in any order, the scale applied to the scores, exp(s - m) within 2 ulp, P rounded to the
input format before P V, the output rounded once.  `accumulator=fp16` stands for qk, pv and sum.
"""

from __future__ import annotations

from typing import Any

from verify.kernels import kernel
from verify.kernels._attention import Attention, Kernel, Naive, Shifted, TwoPass
from verify.kernels._attention_tiled import Online, Split


def _made(algorithm: type[Attention], accumulator: str | None, options: dict[str, Any]) -> Kernel:
    if accumulator is not None:
        options = {"qk": accumulator, "pv": accumulator, "sum": accumulator} | options
    made = algorithm(**options)
    exact = algorithm is not Naive and made.pv == "fp32" and made.p is None
    return made.kernel(deterministic=True, rounding="nearest", one_key_exact=exact)


@kernel(
    name="textbook-attention-naive",
    operation="attention",
    summary="exp(s) without a shift, P normalised",
    factory=True,
    expected="fail",
)
def naive(accumulator: str | None = None, **options: Any) -> Kernel:
    """exp(s) without a shift; options: scores, p, qk, pv, sum, accumulator."""
    return _made(Naive, accumulator, options)


@kernel(
    name="textbook-attention-shifted",
    operation="attention",
    summary="all scores at once, shifted by the row maximum",
    factory=True,
)
def shifted(accumulator: str | None = None, **options: Any) -> Kernel:
    """(exp(s - m) V) / l; options: scores, p, qk, pv, sum, accumulator."""
    return _made(Shifted, accumulator, options)


@kernel(
    name="textbook-attention-two-pass",
    operation="attention",
    summary="maximum and sum first, then normalised P",
    factory=True,
)
def two_pass(accumulator: str | None = None, **options: Any) -> Kernel:
    """(exp(s - m) / l) V; options: scores, p, qk, pv, sum, accumulator."""
    return _made(TwoPass, accumulator, options)


@kernel(
    name="textbook-attention-online",
    operation="attention",
    summary="flash: tiles with a running maximum and sum",
    factory=True,
)
def online(accumulator: str | None = None, **options: Any) -> Kernel:
    """Flash attention; options: block, order, scores, p, qk, pv, sum, accumulator."""
    return _made(Online, accumulator, options)


@kernel(
    name="textbook-attention-split",
    operation="attention",
    summary="split-KV, merged by log-sum-exp",
    factory=True,
)
def split(accumulator: str | None = None, **options: Any) -> Kernel:
    """Split-KV; options: splits, block, scores, p, qk, pv, sum, accumulator."""
    return _made(Split, accumulator, options)
