"""Error measures of one output against its truth.

The truth is that of the stored inputs.  Where it is finite the error is an interval; averages and
published figures (RMSE, cosine) use its middle, and are for comparison only, never for a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from references.enclosure import FINITE, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, Enclosure
from verify.formats import Format

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Edges of the histogram of signed errors, in ulp; the first and last bin are open.
HISTOGRAM_EDGES = (
    -64.0,
    -16.0,
    -4.0,
    -2.0,
    -1.0,
    -0.5,
    -0.25,
    0.0,
    0.25,
    0.5,
    1.0,
    2.0,
    4.0,
    16.0,
    64.0,
)


@dataclass(frozen=True)
class ErrorInterval:
    """|output - truth| lies in [lower, upper], elementwise; `signed` is its middle with sign.

    Shapes      all of the output's shape.
    Special     elements whose truth or output is not finite: lower 0, upper +inf, signed NaN.
    """

    lower: Array
    upper: Array
    signed: Array
    comparable: Mask


def output_classes(values: Array) -> NDArray[np.uint8]:
    """The class bit of each output element (see `references.enclosure`)."""
    classes = np.full(values.shape, FINITE, np.uint8)
    classes[np.isposinf(values)] = POSITIVE_INFINITY
    classes[np.isneginf(values)] = NEGATIVE_INFINITY
    classes[np.isnan(values)] = NAN
    return classes


def error_interval(values: Array, truth: Enclosure) -> ErrorInterval:
    """The error of output values as an interval.

    Guarantee   lower <= |values - r| <= upper for every r in the enclosure.
    Source      values - hi = s + e exactly (TwoSum); t = fl(e - lo) and s + t round once each,
                together at most 2^-52 (|t| + |s + t|), which widens both ends.
    """
    comparable = np.isfinite(values) & ((truth.classes & FINITE) != 0) & np.isfinite(truth.radius)
    with np.errstate(invalid="ignore", over="ignore"):
        v = np.where(comparable, values, 0.0)
        h = np.where(comparable, truth.hi, 0.0)
        s = v - h
        b = s - v
        e = (v - (s - b)) + (-h - b)
        t = e - np.where(comparable, truth.lo, 0.0)
        middle = s + t
        slack = 2.0**-52 * (np.abs(t) + np.abs(middle)) + np.where(comparable, truth.radius, 0.0)
        lower = np.maximum(np.abs(middle) - slack * (1 + 2.0**-50), 0.0)
        upper = (np.abs(middle) + slack) * (1 + 2.0**-50)
    return ErrorInterval(
        np.where(comparable, lower, 0.0),
        np.where(comparable, upper, np.inf),
        np.where(comparable, middle, np.nan),
        comparable,
    )


def measure(
    values: Array, truth: Enclosure, error: ErrorInterval, fmt: Format, magnitude: Array | None
) -> dict[str, Any]:
    """All measures of one output, worst case first; plain numbers, None where there is nothing.

    max_ulp         largest |error| / ulp(truth)
    max_scaled      largest |error| / (u sum P|v|)   (attention; for softmax: over u |truth|)
    over_rounding   largest |error| over that of correct rounding (1: the format's best)
    max_relative, max_absolute, rmse, rmse_over_rounding, cosine
    mean_ulp, z     mean signed error in ulp, and its z-score over row means
    histogram       counts of signed ulp errors between HISTOGRAM_EDGES
    """
    use = error.comparable & truth.finite
    if not use.any():
        return {"compared": 0}
    size = np.abs(error.signed[use])
    exact = truth.hi[use]
    ulp = fmt.ulp(exact, truth.lo[use])
    rounded = np.abs((fmt.round(exact) - exact) - truth.lo[use])
    scale = fmt.u * (np.abs(exact) if magnitude is None else magnitude[use])
    got = values[use]
    return {
        "compared": int(use.sum()),
        "max_ulp": _largest(size / ulp),
        "max_scaled": _largest(_ratio(size, scale)),
        "over_rounding": _over(size.max(), rounded.max()),
        "max_relative": _largest(_ratio(size, np.abs(exact))),
        "max_absolute": float(size.max()),
        "rmse": float(np.sqrt(np.mean(size**2))),
        "rmse_over_rounding": _over(np.sqrt(np.mean(size**2)), np.sqrt(np.mean(rounded**2))),
        "cosine": _cosine(got, exact),
        **_bias(error.signed, truth, fmt, use),
        "histogram": _histogram(error.signed[use] / ulp),
    }


def _ratio(a: Array, b: Array) -> Array:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _largest(x: Array) -> float:
    return float(np.max(x))


def _over(a: Any, b: Any) -> float | None:
    return float(a / b) if b > 0 else (1.0 if a == 0 else None)


def _cosine(a: Array, b: Array) -> float | None:
    scale = max(float(np.abs(a).max()), float(np.abs(b).max()))
    if scale == 0:
        return None
    a, b = a / scale, b / scale
    norm = float(np.sqrt(np.sum(a * a) * np.sum(b * b)))
    return float(np.sum(a * b)) / norm if norm > 0 else None


def _bias(signed: Array, truth: Enclosure, fmt: Format, use: Mask) -> dict[str, float | None]:
    """Mean signed error in ulp, and z over the means of rows (rows are the sample: elements of one
    row share the errors of their scores)."""
    ulps = np.where(use, signed / fmt.ulp(truth.hi, truth.lo), 0.0)
    counts = use.sum(axis=-1) if use.ndim > 1 else use.astype(np.int64)
    sums = ulps.sum(axis=-1) if use.ndim > 1 else ulps
    rows = counts > 0
    means = sums[rows] / counts[rows]
    spread = float(means.std(ddof=1)) if means.size > 1 else 0.0
    mean = float(means.mean())
    return {"mean_ulp": mean, "z": mean * np.sqrt(means.size) / spread if spread > 0 else None}


def _histogram(ulps: Array) -> list[int]:
    edges = np.array((-np.inf, *HISTOGRAM_EDGES, np.inf))
    counts, _ = np.histogram(np.clip(ulps, -1e300, 1e300), edges)
    return [int(c) for c in counts]


def detectable(bound: Array, error: ErrorInterval, truth: Enclosure, use: Mask) -> float | None:
    """The smallest relative error that a run would have shown, had every output been off by it.

    Shapes      all of the output's shape; `use`: elements that the bound is about.
    Guarantee   an error of eps |truth| added to the output, for any eps above the result, exceeds
                the bound in some element (apart from rounding what was added to the format).
    Special     None where no element has a finite truth other than 0 and a finite bound.
    """
    usable = use & truth.finite & error.comparable & (truth.hi != 0) & np.isfinite(bound)
    if not usable.any():
        return None
    with np.errstate(over="ignore"):
        sizes = (bound[usable] + error.upper[usable]) / np.abs(truth.hi[usable])
    return float(sizes.min()) * (1 + 2.0**-40)


def row_sum_defect(values: Array) -> float | None:
    """Largest |sum_j P_j - 1| over finite rows of a softmax output (rows, n)."""
    finite = np.isfinite(values).all(axis=-1)
    if values.shape[-1] == 0 or not finite.any():
        return None
    return float(np.abs(values[finite].sum(axis=-1) - 1.0).max())
