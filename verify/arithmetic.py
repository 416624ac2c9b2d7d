"""Arithmetic models: what a kernel declares about its arithmetic, step by step.

A bound is derived from a model and from nothing else, so a FAIL reads "this output contradicts the
declared arithmetic".  Named ones are in `verify.presets`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from verify.errors import UsageError
from verify.formats import FORMATS, Mode

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

    promote     after so many products the accumulator is added to a binary32 sum (0: never).

    Source      Fasi, Higham, Mikaitis, Pranesh, PeerJ CS 7:e330, 2021; arXiv 2511.10909.
    """

    products: int
    fraction_bits: int
    format: str = "fp32"
    mode: Mode = "RZ"
    promote: int = 0


Accumulator = Chain | TensorCore
A100 = TensorCore(8, 24)
H100 = TensorCore(16, 25)
A100_TF32 = TensorCore(4, 24)
H100_FP8 = TensorCore(32, 13, "e8m13")
B200_FP8 = TensorCore(32, 25)


@dataclass(frozen=True)
class ArithmeticModel:
    """The arithmetic of one attention or softmax kernel (defaults: a flash kernel on bf16).

    input, output        formats of the tensors that go in and out
    convert              operands of both products rounded first: (format, mode), for example tf32
    qk, pv               accumulators of Q K^T and P V
    scale_format         format in which the scale is applied to the scores
    scale_position       'scores' after Q K^T; 'query' q scaled and rounded first; 'both' operands
                         scaled by sqrt(scale) and rounded; 'exponent' only in the constant of the
                         fma exponential (as 'scores' where a softcap or a bias forbids it)
    scaled_operands      format to which 'query' and 'both' round (None: `input`).  'both' with fp32
                         allows every error that 'scores', 'query' and 'exponent' can make
    stored_scores        format in which the scores are written before the softmax (None: not)
    stores               'last' the finished score is written once; 'each' the result of every step
                         (product, scale, softcap, bias) is rounded to `stored_scores`
    softmax_format       format of shift, exponential and division
    shift                False: exp(s) without subtracting a maximum
    exponential          'difference' exp(s - m); 'fma' exp2(fma(s, c, -m c)) with c = scale log2 e,
                         which allows every error that 'difference' can make
    exp_ulps             error of exp in ulp of softmax_format; exp_relative replaces it
    flush_to_zero        subnormals of softmax_format become zero, as results and accumulators, and
                         as operands of both products
    flush_exp            only the exponential gives zero below the smallest normal number
    exp_zero_below       the exponential gives zero where its value is below this number (None: no;
                         it may lie above the smallest normal number, as oneDNN's does)
    flush_p              subnormals of P in p_format become zero
    row_sum              accumulator of the row sum; row_sum_order its order
    row_sum_of           whether it adds P before or after rounding to p_format
    stored_row_sum       format in which the finished row sum is kept (None: that of row_sum)
    p_format             format of P when it enters P V; p_normalised: P = e / l is formed before
    p_offset             P is scaled by 2^p_offset before rounding (FP8)
    block                fewest keys per online block (None: one block)
    splits               most parts of split-KV
    lazy                 largest log2 threshold below which a rescale is put off
    max_offset           the shift may differ from the row maximum by this much (natural log units)
    order                order of the additions in qk and pv: 'any', or 'sequential' where declared
    log_ulps, tanh_ulps  error of log and of tanh (softcap), in ulp of softmax_format
    tanh_absolute        absolute error of tanh beside that: formed from exponentials, it cancels
                         near 0
    log_format           format in which the logarithm is kept (None: softmax_format)
    lse_format           format in which the log-sum-exp is returned
    log_softmax          'shifted' (x - m) - ln l; 'lse' x - (m + ln l), which allows every error
                         that 'shifted' can make

    The backward pass (dP = dO V^T, D = sum_c dO O, dS = P (dP - D)); the fields above hold there
    too, for scores and exponentials that are formed again:

    backward_p           'lse' P = exp(s - LSE) with the stored log-sum-exp; 'kept' P of the forward
                         pass, kept or formed again from maximum and row sum; 'apart' its e and l,
                         where e / l is differentiated step by step, which allows every error of
                         'kept'
    backward_p_format    format to which P is rounded before it enters dS (None: not rounded);
                         in dV it is rounded to p_format
    delta                D from 'output', the stored O, or from 'probabilities', sum_j P_j dP_j
    delta_format         format of O where it enters D (None: `output`)
    gradients            accumulators of dP, dQ, dK and dV
    dp_format            format in which dP is kept (None: not rounded)
    ds_format            format of dS where it enters dQ and dK (None: that of p_format)
    ds_roundings         how often dS is rounded to it on the way (scale, softcap)
    ds_form              'difference' P (dP - D); 'products' P dP - P D, which allows every error of
                         'difference'
    gradient_scale       the scale multiplies the finished gradient ('last'), or dS, or the
                         'operands' (as sqrt(scale) or whole), which allows every error of 'last'
    gradient_block       (queries, keys): the running dK and dV are rounded to `output` after so
                         many queries, dQ after so many keys (None: they stay in the accumulator)
    group_format         format to which each head's dK and dV are rounded before those of a kv head
                         are added in it, which allows every error of None: added in the accumulator
    bias_format          format to which dS is rounded, and in which it is added, for dbias (None:
                         ds_format, and that of the softmax)
    more_roundings       further roundings that every term of dP, D and dS passes, such as the
                         divisions by the row sum in automatic differentiation
    """

    name: str = ""
    input: str = "bf16"
    output: str = "bf16"
    convert: tuple[str, Mode] | None = None
    qk: Accumulator = field(default_factory=Chain)
    pv: Accumulator = field(default_factory=Chain)
    scale_format: str = "fp32"
    scale_position: Literal["scores", "query", "both", "exponent"] = "scores"
    scaled_operands: str | None = None
    stored_scores: str | None = None
    stores: Literal["last", "each"] = "last"
    softmax_format: str = "fp32"
    shift: bool = True
    exponential: Literal["difference", "fma"] = "difference"
    exp_ulps: float = 2.0
    exp_relative: float | None = None
    flush_to_zero: bool = False
    flush_exp: bool = False
    exp_zero_below: float | None = None
    flush_p: bool = False
    row_sum: Chain = field(default_factory=Chain)
    row_sum_order: Order = "any"
    row_sum_of: Literal["unrounded", "rounded"] = "unrounded"
    stored_row_sum: str | None = None
    p_format: str = "bf16"
    p_normalised: bool = False
    p_offset: int = 0
    block: int | None = 16
    splits: int = 1
    lazy: float = 0.0
    max_offset: float = 0.0
    order: Order = "any"
    log_ulps: float = 2.0
    tanh_ulps: float = 6.0
    tanh_absolute: float = 0.0
    log_format: str | None = None
    lse_format: str = "fp32"
    log_softmax: Literal["shifted", "lse"] = "shifted"
    backward_p: Literal["lse", "kept", "apart"] = "lse"
    backward_p_format: str | None = None
    delta: Literal["output", "probabilities"] = "output"
    delta_format: str | None = None
    gradients: Accumulator = field(default_factory=Chain)
    dp_format: str | None = None
    ds_format: str | None = None
    ds_roundings: int = 1
    ds_form: Literal["difference", "products"] = "difference"
    gradient_scale: Literal["last", "operands"] = "last"
    gradient_block: tuple[int, int] | None = None
    group_format: str | None = None
    bias_format: str | None = None
    more_roundings: int = 0

    def __post_init__(self) -> None:
        named = (
            self.scaled_operands, self.stored_scores, self.stored_row_sum, self.log_format,
            self.backward_p_format, self.delta_format, self.dp_format, self.ds_format,
            self.group_format, self.bias_format,
        )  # fmt: skip
        chains = (self.qk.format, self.pv.format, self.row_sum.format, self.gradients.format)
        for name in (
            self.input,
            self.output,
            self.scale_format,
            self.softmax_format,
            self.p_format,
            self.lse_format,
            self.convert and self.convert[0],
            *chains,
            *named,
        ):
            if name is not None and name not in FORMATS:
                raise UsageError(f"unknown format {name!r} in an arithmetic model")
        self._check_tensor_cores()

    def _check_tensor_cores(self) -> None:
        wide = self.convert is None
        for what, core, operands in (
            ("qk", self.qk, (self.operands,)),
            ("pv", self.pv, (self.p_format, self.input)),
            ("gradients", self.gradients, (self.ds_format or self.p_format, self.input)),
        ):
            if isinstance(core, TensorCore) and wide and any(FORMATS[x].p > 11 for x in operands):
                raise UsageError(
                    f"{what} is a tensor core, but its operands are {' and '.join(operands)}: "
                    "declare `convert`, or formats of at most 11 bits"
                )

    @property
    def operands(self) -> str:
        """Format of the operands of Q K^T (before `convert`)."""
        moved = self.scale_position in ("query", "both")
        return (self.scaled_operands or self.input) if moved else self.input

    @property
    def exp_error(self) -> float:
        """Relative error of one exponential: at most 2 u per ulp."""
        if self.exp_relative is not None:
            return self.exp_relative
        return 2 * self.exp_ulps * FORMATS[self.softmax_format].u

    @property
    def rounds_p(self) -> bool:
        """Whether P loses bits when it is stored: not where it stays in the softmax's format."""
        return self.p_format != self.softmax_format

    @property
    def sums_rounded_p(self) -> bool:
        """Whether the rounding of P is common to the row sum and to P V."""
        return self.rounds_p and self.row_sum_of == "rounded" and not self.p_normalised

    @property
    def flushes_output(self) -> bool:
        """Whether flush_to_zero reaches the output: where its range is that of the softmax."""
        same = FORMATS[self.output].emin == FORMATS[self.softmax_format].emin
        return self.flush_to_zero and same

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
        for key in ("qk", "pv", "row_sum", "gradients"):
            if isinstance(values.get(key), dict):
                parts = values[key]
                values[key] = TensorCore(**parts) if "products" in parts else Chain(**parts)
        for key in ("convert", "gradient_block"):
            if values.get(key) is not None:
                values[key] = tuple(values[key])
        return cls(**values)


_BACKWARD_FIELDS = (
    "backward_p", "backward_p_format", "delta", "delta_format", "gradients", "dp_format",
    "ds_format", "ds_roundings", "ds_form", "gradient_scale", "gradient_block", "group_format",
    "bias_format", "more_roundings",
)  # fmt: skip


def forward_fields(model: ArithmeticModel) -> ArithmeticModel:
    """The model with the defaults of everything that only its backward pass has: models that agree
    in this have the same forward pass."""
    plain = ArithmeticModel()
    return replace(model, **{name: getattr(plain, name) for name in _BACKWARD_FIELDS})
