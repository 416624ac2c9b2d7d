"""Presets: arithmetic models by name.

A preset may stand for several models at once (its variants): where a kernel does not say which of
them it follows, the bound is the maximum over the variants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from verify.arithmetic import (
    A100,
    A100_TF32,
    B200_FP8,
    H100,
    H100_FP8,
    ArithmeticModel,
    Chain,
    TensorCore,
)
from verify.errors import UsageError
from verify.formats import Format


@dataclass(frozen=True)
class Preset:
    """A named set of models in one input format; the bound is the maximum over the variants.

    backward    the variants of the backward pass, where they are not those of the forward pass
    """

    name: str
    variants: tuple[ArithmeticModel, ...]
    meaning: str
    backward: tuple[ArithmeticModel, ...] = ()

    @property
    def format(self) -> str:
        return self.variants[0].input


# What an undeclared kernel may do.  The bound of 'fma' covers 'difference', and that of 'both' in
# binary32 covers every place of the scale (docs/theory/bounds.md, "Domination"), so that only the
# three ways to form P and its sum are variants.
_FREE: dict[str, Any] = {
    "scale_position": "both",
    "scaled_operands": "fp32",
    "exponential": "fma",
    "exp_ulps": 2.0,
    "flush_exp": True,
    "block": 16,
    "splits": 32,
    "lazy": 8.0,
    "log_softmax": "lse",
}
_FORMS: tuple[dict[str, Any], ...] = (
    {"p_normalised": False, "row_sum_of": "unrounded"},
    {"p_normalised": False, "row_sum_of": "rounded"},
    {"p_normalised": True, "row_sum_of": "unrounded"},
)


def _free(name: str, fmt: str, **fixed: Any) -> tuple[ArithmeticModel, ...]:
    base = ArithmeticModel(name=name, input=fmt, output=fmt, p_format=fmt, **_FREE)
    base = replace(base, **fixed)
    # rounded and unrounded P are the same where P stays in the format of the softmax
    forms = _FORMS if base.rounds_p else (_FORMS[0], _FORMS[2])
    return tuple(replace(base, **form) for form in forms)


def _single(fmt: str) -> tuple[ArithmeticModel, ...]:
    return _free("single", fmt, p_format="fp32")


def _flash(fmt: str) -> tuple[ArithmeticModel, ...]:
    return _free("flash", fmt)


def _on_tensor_cores(name: str, core: TensorCore) -> Callable[[str], tuple[ArithmeticModel, ...]]:
    def make(fmt: str) -> tuple[ArithmeticModel, ...]:
        # operands of a tensor core have 16 bits: the scale can only come after the product
        return _free(name, fmt, qk=core, pv=core, scale_position="scores", scaled_operands=None)

    return make


def _fp8(name: str, core: TensorCore) -> Callable[[str], tuple[ArithmeticModel, ...]]:
    def make(fmt: str) -> tuple[ArithmeticModel, ...]:
        models = _free(
            name, fmt, qk=core, pv=core, scale_position="scores", scaled_operands=None,
            output="bf16", p_offset=8, lazy=0.0,
        )  # fmt: skip
        return tuple(m for m in models if not m.p_normalised)

    return make


def _tf32(fmt: str) -> tuple[ArithmeticModel, ...]:
    return _free("tf32", fmt, p_format="fp32", convert=("tf32", "RZ"), qk=A100_TF32, pv=A100_TF32)


def _bf16_products(fmt: str) -> tuple[ArithmeticModel, ...]:
    return _free("bf16-products", fmt, p_format="fp32", convert=("bf16", "RN"))


def _eager(fmt: str) -> tuple[ArithmeticModel, ...]:
    return (
        ArithmeticModel(
            name="eager", input=fmt, output=fmt, p_format=fmt, p_normalised=True, block=None,
            stored_scores=fmt, stores="each", log_softmax="lse",
        ),
    )  # fmt: skip


def _half(fmt: str) -> tuple[ArithmeticModel, ...]:
    chain = Chain(fmt)
    return (
        ArithmeticModel(
            name="half", input=fmt, output=fmt, qk=chain, pv=chain, row_sum=chain, scale_format=fmt,
            stored_scores=fmt, stores="each", softmax_format=fmt, p_format=fmt, p_normalised=True,
            block=None, lse_format=fmt, log_softmax="lse",
        ),
    )  # fmt: skip


_PRESETS: dict[str, tuple[Callable[[str], tuple[ArithmeticModel, ...]], str]] = {
    "single": (_single, "binary32 everywhere between the input and one rounding of the output"),
    "flash": (_flash, "binary32 scores, row sum and accumulators; P rounded to the input format"),
    "flash-a100": (
        _on_tensor_cores("flash-a100", A100),
        "flash on A100 tensor cores (truncating block FMA)",
    ),
    "flash-h100": (
        _on_tensor_cores("flash-h100", H100),
        "flash on H100 tensor cores (truncating block FMA)",
    ),
    "flash-fp8": (
        _fp8("flash-fp8", H100_FP8),
        "FP8 input on Hopper: 13-bit alignment, P scaled by 2^8, bf16 output",
    ),
    "flash-fp8-b200": (
        _fp8("flash-fp8-b200", B200_FP8),
        "FP8 input on Blackwell: 25-bit alignment, P scaled by 2^8, bf16 output",
    ),
    "eager": (_eager, "scores and normalised P stored in the input format, binary32 accumulators"),
    "half": (_half, "every operation in the input format"),
    "tf32": (_tf32, "both products on operands cut to TF32"),
    "bf16-products": (_bf16_products, "both products on operands rounded to bf16"),
}

PRESET_NAMES = tuple(_PRESETS)
FLUSHING = "+ftz"  # what follows the name of a preset whose units flush subnormals to zero


def preset(name: str, fmt: Format) -> Preset:
    """The preset in an input format, `NAME+ftz` with flush_to_zero.

    Raises      UsageError with the list of names.
    """
    plain = name.removesuffix(FLUSHING)
    if plain not in _PRESETS:
        names = ", ".join(PRESET_NAMES)
        raise UsageError(
            f"unknown arithmetic model {name!r}; known: {names}, "
            f"and each with {FLUSHING} where the hardware flushes subnormals to zero"
        )
    make, meaning = _PRESETS[plain]
    variants = make(fmt.name)
    if plain != name:
        variants = tuple(replace(model, flush_to_zero=True) for model in variants)
        meaning = f"{meaning}; subnormals read and written as zero"
    return Preset(name, variants, meaning, _backward(variants))


def _backward(variants: tuple[ArithmeticModel, ...]) -> tuple[ArithmeticModel, ...]:
    """What a kernel may do in the backward pass that follows one of these in the forward pass.

    A kernel that stores scores (`eager`, `half`) is differentiated step by step, each stored; any
    other may form P again from the log-sum-exp or keep it, and take D from O or from P dP.
    """
    found: dict[ArithmeticModel, None] = {}
    for model in variants:
        if model.stored_scores is not None:
            stored = model.stored_scores
            found[
                replace(
                    model, backward_p="kept", backward_p_format=model.p_format, dp_format=stored,
                    delta="probabilities", ds_format=stored, ds_roundings=2, ds_form="products",
                    gradients=model.pv, gradient_scale="operands", group_format=model.output,
                    more_roundings=2,
                )
            ] = None  # fmt: skip
            continue
        free = replace(
            model, gradients=model.qk, ds_form="products", gradient_scale="operands",
            group_format=model.output, more_roundings=4,
        )  # fmt: skip
        kept = replace(free, backward_p="kept", dp_format=model.p_format)
        found |= dict.fromkeys((free, replace(free, delta="probabilities"), kept))
        if model.p_normalised:
            found[replace(kept, delta="probabilities", backward_p="apart")] = None
    return tuple(found)


def default_preset(fmt: Format) -> Preset:
    """What an undeclared kernel is held to: `single` for binary32, `flash` for 16-bit formats."""
    if fmt.name == "fp32":
        return preset("single", fmt)
    return preset("flash-fp8" if fmt.width == 8 else "flash", fmt)
