"""Models under test: single ways to compute, each one that a kernel may declare."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from verify.arithmetic import A100, H100, H100_FP8, ArithmeticModel, Chain, TensorCore

H100_TF32 = TensorCore(8, 25)


def of(fmt: str, **changes: Any) -> ArithmeticModel:
    """A flash kernel in a format: binary32 inside, P in the format, correctly rounded exp."""
    base = ArithmeticModel(input=fmt, output=fmt, p_format=fmt, block=64, exp_ulps=0.5)
    return replace(base, **changes)


EAGER: dict[str, Any] = {"p_normalised": True, "block": None}
FUSED: dict[str, Any] = {"exponential": "fma", "scale_position": "exponent", "exp_ulps": 2.0}


def _half(fmt: str) -> ArithmeticModel:
    chain = Chain(fmt)
    return of(
        fmt, qk=chain, pv=chain, row_sum=chain, scale_format=fmt, softmax_format=fmt,
        lse_format=fmt, **EAGER,
    )  # fmt: skip


# name -> (model, median bound / error on normal data, n = 512 and d = 128: any order, declared
# order, probable with either), as measured before on an independent simulator; None: not known.
CONTRACTS: dict[str, tuple[ArithmeticModel, tuple[float, ...] | None]] = {
    "fp32_all": (of("fp32", block=None), (3440, 291, 389, 34)),
    "fp32_flash": (of("fp32"), (3320, 314, 391, 57)),
    "tf32": (
        of("fp32", convert=("tf32", "RZ"), qk=H100_TF32, pv=H100_TF32),
        (229, 228, 229, 228),
    ),
    "bf16_flash": (of("bf16"), (38, 37, 23, 23)),
    "bf16_h100": (of("bf16", qk=H100, pv=H100, **FUSED), (37, 37, 23, 23)),
    "bf16_h100_lazy": (
        of("bf16", qk=H100, pv=H100, lazy=8.0, exp_relative=2.0**-13.4, **FUSED),
        (42, 41, 29, 29),
    ),
    "bf16_eager": (of("bf16", **EAGER), (34, 33, 20, 20)),
    "bf16_rounded_sum": (of("bf16", row_sum_of="rounded"), None),
    "bf16_split": (of("bf16", splits=4), (38, 37, 23, 23)),
    "fp16_flash": (of("fp16"), (37, 32, 20, 20)),
    "fp16_a100": (
        of("fp16", qk=A100, pv=A100, flush_to_zero=True, **FUSED),
        (38, 32, 25, 19),
    ),
    "fp16_stored": (of("fp16", stored_scores="fp16", **EAGER), (41, 38, 23, 23)),
    "bf16_stored": (of("bf16", stored_scores="bf16", **EAGER), None),
    "fp16_all": (_half("fp16"), (7720, 758)),
    "bf16_all": (_half("bf16"), (11600, 7800)),
    "fp32_unshifted": (of("fp32", block=None, shift=False), None),
    "bf16_pairwise": (of("bf16", row_sum_order="pairwise", **EAGER), None),
    "fp8_h100": (
        of("e4m3", qk=H100_FP8, pv=H100_FP8, p_offset=8, output="bf16", **FUSED),
        (215, 60, 215, 47),
    ),
}

# Fields that no contract above sets.
FIELDS: dict[str, ArithmeticModel] = {
    "log_bf16": of("bf16", log_format="bf16"),
    "stored_sum": of("fp16", stored_row_sum="fp16"),
    "query_bf16": of("bf16", scale_position="query"),
    "both_fp32": of("bf16", scale_position="both", scaled_operands="fp32"),
    "both_fp16": of("fp16", scale_position="both"),
    "exponent": of("fp32", **FUSED),
    "fma": of("fp32", exponential="fma", exp_ulps=2.0, block=16),
    "lazy": of("fp16", lazy=8.0, block=16),
    "offset": of("fp16", max_offset=2.08),
    "flush_p": of("fp16", flush_p=True),
    "flush": of("fp32", flush_to_zero=True, block=16),
    "flush_exp": of("fp32", flush_exp=True, exp_ulps=2.0),
    "exp_zero_below": of("fp32", flush_exp=True, exp_zero_below=2.0**-120, exp_ulps=2.0),
    "tanh_absolute": of("fp32", tanh_absolute=2.0**-10),
    "stores_each": of("fp16", stored_scores="fp16", stores="each", **EAGER),
    "stores_each_bf16": of("bf16", stored_scores="bf16", stores="each", **EAGER),
    "split_fma": of("fp32", splits=32, block=16, exponential="fma", exp_ulps=2.0),
    "split_half": of("fp16", splits=5, row_sum=Chain("fp16")),
    "rounded_fp16": of("fp16", row_sum_of="rounded", block=16),
    "truncating_sum": of("bf16", row_sum=Chain("fp32", "RZ"), block=16),
    "truncating_pv": of("bf16", pv=Chain("fp32", "RZ"), qk=Chain("fp32", "RZ")),
    "pv_fp16": of("fp16", pv=Chain("fp16")),
    "qk_fp16": of("fp16", qk=Chain("fp16")),
    "sum_bf16": of("bf16", row_sum=Chain("bf16"), block=64),
    "sum_bf16_rounded": of("bf16", row_sum=Chain("bf16"), row_sum_of="rounded"),
    "promoted": of(
        "e4m3", qk=replace(H100_FP8, promote=64), pv=replace(H100_FP8, promote=64), p_offset=8,
        output="bf16", **FUSED,
    ),
    "fp8_blocks": of("e4m3", qk=H100_FP8, pv=H100_FP8, output="bf16", block=32, **FUSED),
    "sequential": of("fp32", order="sequential", row_sum_order="sequential"),
    "sequential_h100": of(
        "bf16", qk=H100, pv=H100, order="sequential", row_sum_order="sequential"
    ),
    "unshifted_flash": of("bf16", shift=False),
    "unshifted_normalised": of("fp16", shift=False, **EAGER),
    "bf16_products": of("fp32", convert=("bf16", "RN")),
    "pairwise_blocks": of("bf16", row_sum=Chain("bf16"), row_sum_order="pairwise", block=16),
}  # fmt: skip
