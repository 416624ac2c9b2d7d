"""The radius of the fast tiers never lies: random inputs over full exponent ranges, against Arb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from references import arb, fast
from references.enclosure import ARB, Array, AttentionTruth, Enclosure
from references.fast import heads, scores
from references.fast.prepared import prepare_values
from references.fast.weights import differences, maxima

EXTRA_BITS = 1100  # Arb at 1200 bits
BFLOAT = ("bfloat16", -133, 127)
FORMATS = (("float16", -24, 15), BFLOAT, ("float32", -149, 127), ("e4m3", -9, 8), ("e5m2", -16, 15))


def rounded(x: Array, name: str) -> Array:
    """Toward zero to a format's significand; the exponent range is the caller's business."""
    if name in ("float16", "float32"):
        with np.errstate(over="ignore"):
            narrow: Array = x.astype(name).astype(np.float64)
        narrow[np.isinf(narrow)] = 65504.0
        return narrow
    kept = {"bfloat16": 8, "e4m3": 4, "e5m2": 3}[name]
    fraction, e = np.frexp(x)
    return np.asarray(np.ldexp(np.trunc(fraction * 2**kept), e - kept))


def normal(r: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Array:
    return np.asarray(r.standard_normal(shape) * 2.0 ** r.uniform(max(low, -8), min(high, 6)))


def log_normal(r: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Array:
    e = r.normal(r.uniform(max(low, -12), min(high, 6)), r.exponential(8.0), shape)
    return np.asarray(np.sign(r.standard_normal(shape)) * np.exp2(np.clip(e, low, high)))


def log_uniform(r: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Array:
    return np.asarray(np.sign(r.standard_normal(shape)) * np.exp2(r.uniform(low, high, shape)))


def integers(r: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Array:
    """Zeros and ties."""
    return np.asarray(r.integers(-3, 4, shape) * 2.0 ** r.integers(max(low, -10), min(high, 6)))


def outliers(r: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Array:
    wide = np.where(r.random(shape) < 0.1, r.uniform(0, min(high, 8)), r.uniform(-12, 0, shape))
    return np.asarray(r.standard_normal(shape) * np.exp2(wide))


def near_ties(r: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Array:
    row = r.standard_normal((1, shape[1])) * 2.0 ** r.uniform(-3, min(high, 5))
    return np.asarray(row * (1 + r.integers(-2, 3, shape) * 2.0 ** -float(r.integers(4, 12))))


def extremes(r: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Array:
    """The largest and the smallest numbers of the format, and zeros."""
    values = np.array([1.99 * 2.0**high, 2.0**low, 3 * 2.0**low, 0.0, 1.0, -1.0, -(2.0**high)])
    return np.asarray(r.choice(values, shape, p=[0.1, 0.2, 0.1, 0.2, 0.2, 0.1, 0.1]))


def gaps(r: np.random.Generator, shape: tuple[int, int], low: int, high: int) -> Array:
    """Scores far apart: one large number in each row."""
    x = r.standard_normal(shape)
    x[:, 0] *= 2.0 ** r.uniform(0, min(high - 2, 15))
    return x


KINDS = (normal, log_normal, log_uniform, integers, outliers, near_ties, extremes, gaps)


@dataclass(frozen=True)
class Case:
    q: Array
    k: Array
    v: Array
    options: dict[str, Any] = field(default_factory=dict)

    def by(self, attention: Callable[..., AttentionTruth], **more: Any) -> AttentionTruth:
        return attention(self.q, self.k, self.v, **self.options, **more)


def tensor(r: np.random.Generator, shape: tuple[int, ...]) -> Array:
    name, low, high = FORMATS[r.integers(len(FORMATS))]
    flat = (int(np.prod(shape[:-1])), shape[-1])
    x = rounded(KINDS[r.integers(len(KINDS))](r, flat, low, high), name)
    limit = 65504.0 if name == "float16" else float(np.float32(3.3e38))
    return np.asarray(np.clip(x, -limit, limit).reshape(shape))


def options(r: np.random.Generator, shape: tuple[int, int, int, int], d: int) -> dict[str, Any]:
    """Each option with a chance of its own; none in about a third of the cases."""
    heads, n_k = shape[1], shape[3]
    chosen: dict[str, Any] = {}
    scale = r.integers(5)
    if scale:
        exact = (float(np.float32(d**-0.5)), 2.0 ** -float(r.integers(6)), -r.random(), 0.0)
        chosen["scale"] = exact[scale - 1]
    if r.random() < 0.2:
        chosen["mask"] = r.random((shape[2], n_k)) < r.uniform(0.05, 1.0)
    if r.random() < 0.2:
        chosen["causal"] = True
        chosen["corner"] = ("bottom-right", "top-left")[r.integers(2)]
    if r.random() < 0.1:
        chosen["window"] = (int(r.integers(-1, n_k + 2)), int(r.integers(-1, n_k + 2)))
    if r.random() < 0.15:
        chosen["softcap"] = float(2.0 ** r.uniform(-3, 12))
    if r.random() < 0.15:
        bias = r.standard_normal(shape[2:]) * 2.0 ** r.uniform(-10, 12)
        chosen["bias"] = np.where(r.random(shape[2:]) < 0.1, -np.inf, rounded(bias, "float32"))
    if r.random() < 0.15:
        chosen["sinks"] = rounded(r.standard_normal(heads) * 2.0 ** r.uniform(-3, 7), "float32")
    return chosen


def random_case(r: np.random.Generator) -> Case:
    kv_heads, group, d = int(r.integers(1, 3)), int(r.integers(1, 3)), int(r.integers(1, 70))
    n_q, n_k, d_v = int(r.integers(1, 9)), int(r.integers(1, 200)), int(r.integers(1, 10))
    shape = r.random()
    if shape < 0.1:
        n_q, n_k = int(r.integers(60, 70)), int(r.integers(1, 40))
    elif shape < 0.15:  # several panels of keys
        n_q, n_k = int(r.integers(1, 4)), int(r.integers(250, 800))
    elif shape < 0.2:
        n_q, d = int(r.integers(1, 4)), int(r.integers(70, 300))
    heads = kv_heads * group
    return Case(
        tensor(r, (1, heads, n_q, d)), tensor(r, (1, kv_heads, n_k, d)),
        tensor(r, (1, kv_heads, n_k, d_v)), options(r, (1, heads, n_q, n_k), d),
    )  # fmt: skip


@dataclass
class Tally:
    """What a run of cases found."""

    rows: int = 0
    by_arb: int = 0
    misses: int = 0
    worst: float = 0.0
    divisor: float = 1.0  # of every radius, to see the run fail

    def add(self, found: Enclosure, truth: Enclosure) -> None:
        """Counts rows of the fast tiers; a miss is a point of theirs that the truth excludes."""
        quick = found.tier != ARB
        self.rows += int(quick.sum())
        self.by_arb += int((~quick).sum())
        for place in zip(*np.nonzero(np.isfinite(found.radius)), strict=True):
            if quick[place[: quick.ndim]] and found.classes[place] == 1:
                self._compare(found, truth, place)

    def _compare(self, found: Enclosure, truth: Enclosure, place: tuple[Any, ...]) -> None:
        mine, other = (Fraction(e.hi[place]) + Fraction(e.lo[place]) for e in (found, truth))
        radius = Fraction(found.radius[place]) / Fraction(self.divisor)
        distance = abs(mine - other) - Fraction(truth.radius[place])
        if distance > radius:
            self.misses += 1
        if distance > 0 and radius > 0:
            self.worst = max(self.worst, float(distance / radius))


def tally(seed: int, rows: int, divisor: float = 1.0) -> Tally:
    """Random cases until this many rows of the fast tiers were compared."""
    r, found = np.random.default_rng(seed), Tally(divisor=divisor)
    while found.rows < rows:
        case = random_case(r)
        mine, truth = case.by(fast.attention), case.by(arb.attention, extra_bits=EXTRA_BITS)
        assert np.array_equal(mine.output.classes, truth.output.classes)
        assert np.array_equal(mine.lse.classes, truth.lse.classes)
        found.add(mine.output, truth.output)
        lse = Tally(divisor=divisor)
        lse.add(mine.lse, truth.lse)
        found.misses += lse.misses
        found.worst = max(found.worst, lse.worst)
    return found


def test_a_thousand_random_rows_lie_inside_their_radius() -> None:
    """No miss, and the radius is not so wide that a hundredth of it would do."""
    found = tally(seed=1, rows=1000)
    assert found.misses == 0
    assert found.worst > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_a_hundred_thousand_random_rows_lie_inside_their_radius(seed: int) -> None:
    """40 seeds of 2500 rows of the fast tiers."""
    found = tally(seed, rows=2500)
    assert found.misses == 0
    assert found.worst > 0.01


@pytest.mark.parametrize("divisor", [100.0, 1e6])
def test_a_radius_that_is_too_small_is_found(divisor: float) -> None:
    """The same rows with every radius divided: the run reports misses."""
    assert tally(seed=1, rows=300, divisor=divisor).misses > 0


# --- four holes of earlier versions, made again on purpose ---------------------------------------


def wide_keys() -> Case:
    """Scores of about 10 from binary32 numbers whose lower bits matter."""
    r = np.random.default_rng(5)
    q, k, v = (rounded(r.standard_normal((70, d)), "float32")[None, None] for d in (40, 40, 3))
    return Case(q, k, v)


def near_equal_keys() -> Case:
    """Scores of about 4e4 that differ in their lower bits, values of one sign."""
    r = np.random.default_rng(6)
    row = r.standard_normal((1, 64)) * 2.0**8
    q = row * (1 + 2.0**-20 * r.integers(-3, 4, (64, 64)))
    k = row * (1 + 2.0**-21 * r.integers(-3, 4, (128, 64)))
    v = 1 + r.random((128, 3))
    q, k, v = (rounded(x, "float32")[None, None] for x in (q, k, v))
    return Case(q, k, v, {"scale": 0.125})


def misses(case: Case) -> int:
    found, truth = Tally(), case.by(arb.attention, extra_bits=EXTRA_BITS)
    found.add(case.by(fast.attention).output, truth.output)
    assert found.rows > 0
    return found.misses


@pytest.mark.parametrize("make", [wide_keys, near_equal_keys])
def test_cases_of_the_holes_lie_inside_without_them(make: Callable[[], Case]) -> None:
    """The reference for the next two tests."""
    assert misses(make()) == 0


def test_hole_one_an_uncounted_rounding_of_a_correction_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error terms of the corrections to the first slice are thrown away."""

    def without_error_terms(*arguments: Any) -> None:
        differences(*arguments)
        arguments[-1][:] = 0.0

    monkeypatch.setattr(scores, "differences", without_error_terms)
    assert misses(wide_keys()) > 0


def test_hole_two_a_shift_below_the_row_maximum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is 20 below the row maximum, so p exceeds 1 and slices their bits."""

    def too_low(*arguments: Any) -> None:
        maxima(*arguments)
        arguments[-2][:] -= 160.0

    monkeypatch.setattr(scores, "maxima", too_low)
    assert misses(near_equal_keys()) > 0


def test_hole_three_a_negative_radius_is_never_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative error bound, as an overflow in it once gave: every row goes to Arb."""

    def negative(queries: scores.Slices, keys: Any) -> tuple[Array, Array]:
        return -1e30 * queries.size, np.zeros_like(queries.size)

    monkeypatch.setattr(scores, "absolute_errors", negative)
    found = wide_keys().by(fast.attention)
    assert (found.output.tier == ARB).all()
    assert (found.output.radius >= 0).all()


def test_hole_four_infinity_is_not_within_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Magnitude and radius infinite: inf <= request inf must not pass."""

    def infinite(v: Array) -> Any:
        values = prepare_values(v)
        values.size[:] = np.inf
        return values

    monkeypatch.setattr(heads, "prepare_values", infinite)
    found = wide_keys().by(fast.attention)
    assert (found.output.tier == ARB).all()
    assert np.isfinite(found.output.radius).all()
