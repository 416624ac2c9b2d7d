"""Arithmetic models: what a kernel declares about its arithmetic, and the named presets.

A bound is derived from a model and from nothing else, so a FAIL reads "this output contradicts the
declared arithmetic".  A preset may stand for several models at once (its variants): where a kernel
does not say which of them it follows, the bound is the maximum over the variants.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from verify.errors import UsageError
from verify.formats import FORMATS, Format, Mode

Order = Literal["any", "sequential", "pairwise"]


@dataclass(frozen=True)
class Chain:
    """Scalar additions, each rounded to `format`, in any order unless the model says which."""

    format: str = "fp32"
    mode: Mode = "RN"


@dataclass(frozen=True)
class TensorCore:
    """Block FMA: `products` exact products and the accumulator are aligned to the largest exponent,
    cut to `fraction_bits` bits, added exactly and rounded once to `format`.

    Source      Fasi, Higham, Mikaitis, Pranesh, PeerJ CS 7:e330, 2021; arXiv 2511.10909.
    """

    products: int
    fraction_bits: int
    format: str = "fp32"
    mode: Mode = "RZ"


Accumulator = Chain | TensorCore
A100 = TensorCore(8, 24)
H100 = TensorCore(16, 25)
H100_FP8 = TensorCore(32, 13, "e8m13")


@dataclass(frozen=True)
class ArithmeticModel:
    """The arithmetic of one attention or softmax kernel (defaults: a flash kernel on bf16).

    input, output        formats of the tensors that go in and out
    convert              operands of both products rounded first: (format, mode), for example tf32
    qk, pv               accumulators of Q K^T and P V
    scale_format         format in which the scale is applied to the scores
    scale_position       'scores' after Q K^T; 'query' q scaled and rounded to `input` first; 'both'
                         operands by sqrt(scale); a power-of-two scale commutes with all of them
    stored_scores        format in which the scores are written before the softmax (None: not)
    softmax_format       format of shift, exponential and division
    shift                False: exp(s) without subtracting a maximum
    exponential          'difference' exp(s - m); 'fma' exp2(fma(s, c, -m c)) with c = scale log2 e
    exp_ulps             error of exp in ulp of softmax_format; exp_relative replaces it
    flush_to_zero        subnormals of softmax_format (and accumulators) become zero
    flush_p              subnormals of P in p_format become zero
    row_sum              accumulator of the row sum; row_sum_order its order
    row_sum_of           whether it adds P before or after rounding to p_format
    p_format             format of P when it enters P V; p_normalised: P = e / l is formed before
    p_offset             P is scaled by 2^p_offset before rounding (FP8)
    block                keys per online block (None: one block); splits: parts of split-KV
    lazy                 log2 threshold below which a rescale is put off
    max_offset           the shift may differ from the row maximum by this much (natural log units)
    order                order of the additions in qk and pv: 'any', or 'sequential' where declared
    log_ulps             error of log, in ulp of softmax_format
    lse_format           format in which the log-sum-exp is returned
    backward             reserved fields of the backward pass stand in `GradientModel` (later)
    """

    name: str = ""
    input: str = "bf16"
    output: str = "bf16"
    convert: tuple[str, Mode] | None = None
    qk: Accumulator = field(default_factory=Chain)
    pv: Accumulator = field(default_factory=Chain)
    scale_format: str = "fp32"
    scale_position: Literal["scores", "query", "both"] = "scores"
    stored_scores: str | None = None
    softmax_format: str = "fp32"
    shift: bool = True
    exponential: Literal["difference", "fma"] = "difference"
    exp_ulps: float = 2.0
    exp_relative: float | None = None
    flush_to_zero: bool = False
    flush_p: bool = False
    row_sum: Chain = field(default_factory=Chain)
    row_sum_order: Order = "any"
    row_sum_of: Literal["unrounded", "rounded"] = "unrounded"
    p_format: str = "bf16"
    p_normalised: bool = False
    p_offset: int = 0
    block: int | None = 16
    splits: int = 1
    lazy: float = 0.0
    max_offset: float = 0.0
    order: Order = "any"
    log_ulps: float = 2.0
    lse_format: str = "fp32"

    def __post_init__(self) -> None:
        for name in (
            self.input,
            self.output,
            self.scale_format,
            self.softmax_format,
            self.p_format,
        ):
            if name not in FORMATS:
                raise UsageError(f"unknown format {name!r} in an arithmetic model")

    @property
    def exp_error(self) -> float:
        """Relative error of one exponential: at most 2 u per ulp."""
        if self.exp_relative is not None:
            return self.exp_relative
        return 2 * self.exp_ulps * FORMATS[self.softmax_format].u

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ArithmeticModel:
        known = {f.name for f in fields(cls)}
        unknown = set(data) - known
        if unknown:
            raise UsageError(
                f"an arithmetic model has no field {sorted(unknown)[0]!r}; fields: "
                f"{', '.join(sorted(known))}"
            )
        values = dict(data)
        for key in ("qk", "pv", "row_sum"):
            if isinstance(values.get(key), dict):
                parts = values[key]
                values[key] = TensorCore(**parts) if "products" in parts else Chain(**parts)
        if values.get("convert") is not None:
            values["convert"] = tuple(values["convert"])
        return cls(**values)


@dataclass(frozen=True)
class Preset:
    """A named set of models in one input format; the bound is the maximum over the variants."""

    name: str
    variants: tuple[ArithmeticModel, ...]
    meaning: str

    @property
    def format(self) -> str:
        return self.variants[0].input


def _variants(base: ArithmeticModel) -> tuple[ArithmeticModel, ...]:
    """The freedoms of an undeclared kernel: how P is formed and summed, and how exp is fed."""
    forms = (
        {"p_normalised": False, "row_sum_of": "unrounded"},
        {"p_normalised": False, "row_sum_of": "rounded"},
        {"p_normalised": True, "row_sum_of": "unrounded"},
    )
    exponentials: tuple[Literal["difference", "fma"], ...] = ("difference", "fma")
    return tuple(
        replace(base, exponential=e, **form)  # type: ignore[arg-type]
        for e in exponentials
        for form in forms
    )


def _flash(fmt: str, **changes: Any) -> tuple[ArithmeticModel, ...]:
    base = ArithmeticModel(
        name="flash", input=fmt, output=fmt, p_format=fmt, block=16, splits=32, lazy=8.0, **changes
    )
    return _variants(base)


def _single(fmt: str) -> tuple[ArithmeticModel, ...]:
    base = ArithmeticModel(
        name="single", input=fmt, output=fmt, p_format="fp32", block=16, splits=32, lazy=8.0
    )
    return _variants(base)


def _tf32(fmt: str) -> tuple[ArithmeticModel, ...]:
    core = TensorCore(4, 24)
    return tuple(
        replace(m, name="tf32", convert=("tf32", "RZ"), qk=core, pv=core) for m in _single(fmt)
    )


def _eager(fmt: str) -> tuple[ArithmeticModel, ...]:
    base = ArithmeticModel(
        name="eager", input=fmt, output=fmt, p_format=fmt, p_normalised=True, block=None
    )
    return (replace(base, stored_scores=fmt),)


def _half(fmt: str) -> tuple[ArithmeticModel, ...]:
    chain = Chain(fmt)
    return (
        ArithmeticModel(
            name="half",
            input=fmt,
            output=fmt,
            qk=chain,
            pv=chain,
            row_sum=chain,
            scale_format=fmt,
            stored_scores=fmt,
            softmax_format=fmt,
            p_format=fmt,
            p_normalised=True,
            block=None,
            lse_format=fmt,
        ),
    )


_PRESETS: dict[str, tuple[Any, str]] = {
    "single": (_single, "binary32 everywhere between the input and one rounding of the output"),
    "flash": (_flash, "binary32 scores, row sum and accumulators; P rounded to the input format"),
    "flash-a100": (
        lambda fmt: tuple(replace(m, name="flash-a100", qk=A100, pv=A100) for m in _flash(fmt)),
        "flash on A100 tensor cores (truncating block FMA)",
    ),
    "flash-h100": (
        lambda fmt: tuple(replace(m, name="flash-h100", qk=H100, pv=H100) for m in _flash(fmt)),
        "flash on H100 tensor cores (truncating block FMA)",
    ),
    "flash-fp8": (
        lambda fmt: tuple(
            replace(
                m, name="flash-fp8", qk=H100_FP8, pv=H100_FP8, output="bf16", p_offset=8, lazy=0
            )
            for m in _flash(fmt)
            if m.exponential == "fma" and not m.p_normalised
        ),
        "FP8 input on Hopper: 13-bit alignment, P scaled by 2^8, bf16 output",
    ),
    "eager": (_eager, "scores and normalised P stored in the input format, binary32 accumulators"),
    "half": (_half, "every operation in the input format"),
    "tf32": (_tf32, "both products on operands cut to TF32"),
}

PRESET_NAMES = tuple(_PRESETS)


def preset(name: str, fmt: Format) -> Preset:
    """The preset in an input format. Raises UsageError with the list of names."""
    if name not in _PRESETS:
        raise UsageError(f"unknown arithmetic model {name!r}; known: {', '.join(PRESET_NAMES)}")
    make, meaning = _PRESETS[name]
    return Preset(name, make(fmt.name), meaning)


def default_preset(fmt: Format) -> Preset:
    """What an undeclared kernel is held to: `single` for binary32, `flash` for 16-bit formats."""
    if fmt.name == "fp32":
        return preset("single", fmt)
    return preset("flash-fp8" if fmt.width == 8 else "flash", fmt)
