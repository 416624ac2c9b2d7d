"""The grid of the scaling study: head dimensions, growths, with and without 1/sqrt(d).

Inputs.  Keys, values and the gradient dO of the output are normal numbers; queries are normal
numbers times the growth, as if the entries of W_Q had grown that many times.  All are rounded to
bf16 first, so that fp16, bf16 and fp32 kernels are given the same numbers.  The same draws serve
all growths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

import references
from references.enclosure import AttentionGradients, Enclosure
from verify.integers import Draws
from verify.studies.running import Array, rows, stored

FORMATS = ("fp16", "bf16", "fp32")
SATURATED = 0.99  # a row is saturated when one key has more of the probability than this
UNIT = 2.0**-17  # draws are multiples of it
MANY = 512  # queries and keys behind a variance


@dataclass(frozen=True)
class Shape:
    """Sizes of the study; the default is the whole one."""

    dimensions: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    growths: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    n_q: int = 32
    n_k: int = 128
    d_v: int = 64


SMALL = Shape(dimensions=(16, 64), growths=(1, 64), n_q=6, n_k=16, d_v=4)


@dataclass(frozen=True)
class Norms:
    """Row norms of a gradient: the median row, and the root mean square over rows."""

    median: float
    rms: float


@dataclass(frozen=True)
class InFormat:
    """What kernels make of a point in one format.

    zeros       share of the entries of the gradient of the scores that are 0, though the truth is
                not; small_zeros the same for dO times 2^-10, as under a mean over 1024 tokens
    errors      |kernel - truth| / |truth| (Frobenius) for the gradients of scores, q and k
    lost        share of rows in which softmax without the shift is not finite
    kept_lost   the same with the shift
    """

    zeros: float
    small_zeros: float
    errors: Mapping[str, float]
    lost: float
    kept_lost: float


@dataclass(frozen=True)
class Point:
    """One head dimension, growth and choice of scale; exact but for `formats`."""

    d: int
    growth: int
    scaled: bool
    entropy: float
    largest: float
    saturated: float
    gradients: Mapping[str, Norms]
    formats: Mapping[str, InFormat]


@dataclass(frozen=True)
class Grid:
    """All points, by (d, growth, scaled), and variances of scores by (d, scaled) at growth 1."""

    shape: Shape
    points: Mapping[tuple[int, int, bool], Point]
    variances: Mapping[tuple[int, bool], float] = field(default_factory=dict)

    @cached_property
    def widest(self) -> int:
        return max(self.shape.dimensions)

    @cached_property
    def middle(self) -> int:
        """The head dimension of pictures over the growth: 64 where it is there."""
        return 64 if 64 in self.shape.dimensions else self.widest

    def over_d(self, growth: int, scaled: bool) -> Sequence[Point]:
        return [self.points[d, growth, scaled] for d in self.shape.dimensions]

    def over_growth(self, d: int, scaled: bool) -> Sequence[Point]:
        return [self.points[d, g, scaled] for g in self.shape.growths]


@dataclass(frozen=True)
class Inputs:
    """q (growth 1), k, v and dO of one head, (1, 1, n, d or d_v)."""

    q: Array
    k: Array
    v: Array
    do: Array


def draw(d: int, shape: Shape) -> Inputs:
    """The inputs of all points with this d."""
    draws = Draws(f"study scaling {d}")
    sizes = ((shape.n_q, d), (shape.n_k, d), (shape.n_k, shape.d_v), (shape.n_q, shape.d_v))
    made = [stored(draws.normal((1, 1, *size)), "bf16") for size in sizes]
    return Inputs(*made)


def measure(shape: Shape) -> Grid:
    """The whole grid."""
    points = {}
    for d in shape.dimensions:
        inputs = draw(d, shape)
        for growth in shape.growths:
            for scaled in (True, False):
                points[d, growth, scaled] = point(inputs, growth, scaled)
    return Grid(shape, points, variances(shape.dimensions))


def variances(dimensions: Sequence[int]) -> dict[tuple[int, bool], float]:
    """Variance of MANY x MANY scores at growth 1, exact up to one last rounding."""
    found = {}
    for d in dimensions:
        draws = Draws(f"study scaling variance {d}")
        q, k = (stored(draws.normal((MANY, d)), "bf16") for _ in range(2))
        exact = variance(q, k)
        found[d, False] = float(exact)
        found[d, True] = float(exact / d)
    return found


def variance(q: Array, k: Array) -> Fraction:
    """The exact variance of all dot products of rows of q and of k.

    Requires    entries that are multiples of UNIT below 8 in magnitude, and d <= 512.
    Source      integers throughout: entries below 2^20, products below 2^40, sums below 2^49.
    """
    a, b = (np.rint(x / UNIT).astype(np.int64) for x in (q, k))
    y = [int(v) for v in (a @ b.T).ravel()]
    n, total, squares = len(y), sum(y), sum(v * v for v in y)
    unit = Fraction(UNIT) ** 2
    return (Fraction(squares, n) - Fraction(total, n) ** 2) * unit**2


def point(inputs: Inputs, growth: int, scaled: bool) -> Point:
    """Truth and kernels at one point."""
    q, scale = inputs.q * growth, None if scaled else 1.0
    p = probabilities(q, inputs.k, scale)
    n_q, n_k, d = q.shape[-2], p.shape[-1], q.shape[-1]
    nothing = np.zeros((1, 1, n_q, n_k))  # its gradient is that of the scores
    truth = references.attention_gradients(
        q, inputs.k, inputs.v, inputs.do, scale=scale, bias=nothing
    )
    top = p.max(axis=-1)
    return Point(
        d=d,
        growth=growth,
        scaled=scaled,
        entropy=float(np.mean(entropy(p))),
        largest=float(np.mean(top)),
        saturated=float(np.mean(top > SATURATED)),
        gradients={name: norms(e.hi[0, 0]) for name, e in named(truth).items()},
        formats={fmt: in_format(q, inputs, scaled, truth, fmt) for fmt in FORMATS},
    )


def probabilities(q: Array, k: Array, scale: float | None) -> Array:
    """The exact attention rows (n_q, n_k): attention whose values are unit vectors."""
    truth = references.attention(q, k, np.eye(k.shape[-2])[None, None], scale=scale)
    return np.asarray(truth.output.hi[0, 0])


def entropy(p: Array) -> Array:
    """- sum p ln p of each row, in nats."""
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    return np.asarray(-np.sum(p * logs, axis=-1))


def named(truth: AttentionGradients) -> dict[str, Enclosure]:
    """The gradients by the names of this study; that of a bias is that of the scores."""
    assert truth.dbias is not None
    return {"scores": truth.dbias, "q": truth.dq, "k": truth.dk}


def norms(gradient: Array) -> Norms:
    """Norms of the rows of a gradient (rows, columns)."""
    each = np.sqrt(np.sum(gradient**2, axis=-1))
    return Norms(float(np.median(each)), float(np.sqrt(np.mean(each**2))))


def in_format(
    q: Array, inputs: Inputs, scaled: bool, truth: AttentionGradients, fmt: str
) -> InFormat:
    """What eager attention and softmax with and without the shift make of a point."""
    from verify.studies.scaling._eager import gradients, scores

    d = q.shape[-1]
    scale = d**-0.5 if scaled else 1.0
    exact = named(truth)
    made = gradients(q, inputs.k, inputs.v, inputs.do, scale, fmt)
    small = gradients(q, inputs.k, inputs.v, inputs.do * 2.0**-10, scale, fmt)
    s = scores(q, inputs.k, scale, fmt)
    return InFormat(
        zeros=vanished(made["scores"], exact["scores"]),
        small_zeros=vanished(small["scores"], exact["scores"]),
        errors={name: relative(made[name], exact[name].hi) for name in exact},
        lost=not_finite(rows("textbook-softmax-naive", s, fmt)),
        kept_lost=not_finite(rows(f"textbook-softmax-shifted[format={fmt}]", s, fmt)),
    )


def vanished(values: Array, truth: Enclosure) -> float:
    """Share of entries that are 0 although the truth is not known to be 0."""
    zero = (truth.hi == 0) & (truth.radius == 0)
    return float(np.mean((values == 0) & ~zero))


def relative(values: Array, truth: Array) -> float:
    """|values - truth| / |truth|; infinite where a value is not finite, NaN for a truth of 0."""
    size = float(np.sqrt(np.sum(truth**2)))
    if size == 0:
        return np.nan
    if not np.isfinite(values).all():
        return np.inf
    return float(np.sqrt(np.sum((values - truth) ** 2))) / size


def not_finite(p: Array) -> float:
    """Share of rows that hold NaN or an infinity, or no probability at all."""
    return float(np.mean(~np.isfinite(p).all(axis=-1) | (p.max(axis=-1) == 0)))
