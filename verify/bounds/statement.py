"""Statement: what a bound says about every element of an output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Booleans = NDArray[np.bool_]

# The four stages into which a bound splits, in the order of the computation.
STAGES = ("scores", "row sum", "P and PV", "output rounding")

# Those of a gradient: where its error comes from.
GRADIENT_STAGES = ("P", "dP and D", "dS and sums", "last rounding")

# Range conditions.  Where one holds, the declared arithmetic itself permits overflow or underflow,
# and the bound promises nothing.
FLAGS = {
    "O1": "a partial sum of Q K^T may exceed its accumulator",
    "O2": "a scaled score, or its multiple by log2 e, may exceed its format",
    "O3": "a score may exceed the format in which it is stored",
    "O4": "an exponential may overflow: no shift, or an fma exponent whose m c rounds that far",
    "O5": "the row sum may overflow",
    "O6": "every exponential of the row may underflow",
    "O7": "a partial sum of P V may exceed its accumulator",
    "O8": "P may exceed its format",
    "O9": "the output may exceed its format",
    "G1": "dP or D may exceed its accumulator or format, or P formed from the log-sum-exp overflow",
    "G2": "dS may exceed the format in which it is stored",
    "G3": "a partial sum of a gradient may exceed its accumulator",
    "G4": "a gradient may exceed its format",
    "undefined": "a NaN or an infinity among the inputs reaches this element",
    "undecomposed": "the oracle does not know the probabilities of this row well enough",
}


@dataclass(frozen=True)
class Bound:
    """
    What the arithmetic of a model permits, element by element.

    Shapes      total, probable, flagged, every array of parts and flag_reasons: the output's shape;
                lse, lse_flagged: (batch, heads, n_q), or None where the operation has none.
                others: the bounds of further outputs by name (dk, dv, dbias, dsinks).
    Guarantee   |output - truth| <= total where not flagged; the same for lse.
                probable <= total is exceeded with the stated probability at most, under the
                assumptions of Theorem 2: an estimate, never a reason to refute.
                parts sum to total (up to the final inflation), and say which stage dominates.
    Special     total is +inf where flagged; 0 for rows without keys.
    """

    total: Array
    probable: Array
    flagged: Booleans
    flag_reasons: Mapping[str, Booleans] = field(default_factory=dict)
    parts: Mapping[str, Array] = field(default_factory=dict)
    lse: Array | None = None
    lse_flagged: Booleans | None = None
    others: Mapping[str, Bound] = field(default_factory=dict)

    @property
    def dominating(self) -> str:
        """The stage with the largest median part among elements that are not flagged."""
        kept = ~self.flagged
        if not kept.any():
            return ""
        return max(self.parts, key=lambda name: float(np.median(self.parts[name][kept])))


def largest(bounds: Sequence[Bound]) -> Bound:
    """The maximum over variants: what a kernel may do that follows any one of them."""
    first, *rest = bounds
    for other in rest:
        first = _larger(first, other)
    return first


def _larger(a: Bound, b: Bound) -> Bound:
    second = b.total > a.total
    reasons = dict(a.flag_reasons)
    for name, where in b.flag_reasons.items():
        reasons[name] = reasons[name] | where if name in reasons else where
    return Bound(
        total=np.maximum(a.total, b.total),
        probable=np.maximum(a.probable, b.probable),
        flagged=a.flagged | b.flagged,
        flag_reasons=reasons,
        parts={name: np.where(second, b.parts[name], a.parts[name]) for name in a.parts},
        lse=None if a.lse is None or b.lse is None else np.maximum(a.lse, b.lse),
        lse_flagged=(
            None
            if a.lse_flagged is None or b.lse_flagged is None
            else a.lse_flagged | b.lse_flagged
        ),
        others={name: _larger(a.others[name], b.others[name]) for name in a.others},
    )


def joined(bounds: Sequence[Bound]) -> Bound:
    """One bound out of those of consecutive ranges of queries (axis 2)."""

    def along(arrays: Sequence[Array | Booleans]) -> Array:
        return np.concatenate(list(arrays), axis=2)

    reasons = sorted({name for b in bounds for name in b.flag_reasons})
    return Bound(
        total=along([b.total for b in bounds]),
        probable=along([b.probable for b in bounds]),
        flagged=np.asarray(along([b.flagged for b in bounds]), np.bool_),
        flag_reasons={
            name: np.asarray(
                along([b.flag_reasons.get(name, np.zeros_like(b.flagged)) for b in bounds]),
                np.bool_,
            )
            for name in reasons
        },
        parts={name: along([b.parts[name] for b in bounds]) for name in bounds[0].parts},
        lse=along([b.lse for b in bounds if b.lse is not None]),
        lse_flagged=np.asarray(
            along([b.lse_flagged for b in bounds if b.lse_flagged is not None]), np.bool_
        ),
    )
