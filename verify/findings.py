"""Findings: a judgement in words and numbers that a reader can check by hand."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.enclosure import FINITE, Enclosure
from verify.bounds import Bound
from verify.certificate import Finding
from verify.judge import Judgement, Verdict
from verify.parts import Part
from verify.worker import Output

Array = NDArray[np.float64]
SMALL_OUTPUT = 16  # elements: up to here a record keeps all of them


def find(part: Part, upper: Array, judgement: Judgement) -> Finding | None:
    """The deciding element, in decimal, hex and bits."""
    if judgement.index is None:
        return None
    out, truth = part.output, part.truth
    at = np.unravel_index(judgement.index, out.shape)
    value, hi, lo = float(out.values[at]), float(truth.hi[at]), float(truth.lo[at])
    finite = bool(truth.classes[at] & FINITE)
    ulp = float(out.format.ulp(np.asarray(hi), np.asarray(lo))) if finite else None
    error = float(upper[at])
    return Finding(
        output=part.name,
        index=tuple(int(i) for i in at),
        value=repr(value),
        value_bits=out.format.hex(int(out.bits[at])),
        value_hex=value.hex(),
        truth=decimal(hi, lo),
        truth_hi=hi.hex(),
        truth_lo=lo.hex(),
        truth_radius=float(truth.radius[at]) if finite else None,
        error=error if np.isfinite(value) and finite else None,
        bound=float(part.limits.bound[at]),
        ulps=error / ulp if ulp and np.isfinite(error) else None,
        stage=_dominant(part.bound, at) if part.bound else None,
    )


def sample(out: Output, truth: Enclosure) -> tuple[tuple[str, str], ...]:
    """(value, truth) of every element of a small output, in order."""
    if out.bits.size > SMALL_OUTPUT:
        return ()
    rows = zip(out.values.flat, truth.hi.flat, truth.lo.flat, strict=True)
    return tuple((repr(float(v)), decimal(float(hi), float(lo))) for v, hi, lo in rows)


def decimal(hi: float, lo: float) -> str:
    """hi + lo to 30 significant digits."""
    if not np.isfinite(hi):
        return repr(hi)
    with localcontext() as context:
        context.prec = 400
        total = Decimal(hi) + Decimal(lo)
        context.prec = 30
        return str(+total)


def _dominant(limit: Bound, at: Any) -> str | None:
    values = {name: float(part[at]) for name, part in limit.parts.items()}
    return max(values, key=lambda name: values[name]) if values else None


def stages_of(limit: Bound, judgement: Judgement) -> dict[str, float]:
    """The share of each stage in the bound of the deciding element."""
    if judgement.index is None:
        return {}
    values = {name: float(p.flat[judgement.index]) for name, p in limit.parts.items()}
    total = sum(values.values())
    if not total > 0 or not np.isfinite(total):
        return {}
    return {name: value / total for name, value in values.items()}


def reason_of(verdict: Verdict, judgement: Judgement, output: str) -> str:
    """Why a case has its verdict, in a sentence."""
    counts = judgement.counts
    if verdict is Verdict.FAIL and judgement.check == "bound":
        return f"{output}: {counts['failed']} of {counts['elements']} elements beyond the bound"
    if verdict is Verdict.FAIL and judgement.check == "finite":
        return f"{output}: not finite where the truth is finite"
    if verdict is Verdict.FAIL:
        return f"{output}: NaN or infinity missing, or of the wrong kind, where the truth has it"
    if verdict is Verdict.INCONCLUSIVE:
        return f"{output}: the enclosure of {counts['inconclusive']} elements contains the bound"
    if verdict is Verdict.OUT_OF_SCOPE:
        return out_of_scope(judgement)
    return ""


def out_of_scope(judgement: Judgement) -> str:
    """Why nothing of a case was judged."""
    if judgement.vacuous:
        return "vacuous: the bound exceeds the signal"
    if judgement.counts["unspecified"] == judgement.counts["flagged"]:
        return "the kernel declares nothing about these rows: anything is accepted"
    return "overflow permitted"
