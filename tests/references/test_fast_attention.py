"""The fast tier as a whole: options and special values as Arb has them, tiers, threads, errors."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from references import arb, fast
from references.enclosure import (
    ARB,
    FAST,
    FAST_PLUS,
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    Array,
    AttentionTruth,
    Enclosure,
)

INF = np.inf


def draw(seed: int, shape: tuple[int, ...], dtype: str = "float32") -> Array:
    x = np.random.default_rng(seed).standard_normal(shape)
    return np.asarray(x.astype(dtype), np.float64)


def require_agreement(mine: Enclosure, other: Enclosure) -> None:
    """The same classes; finite enclosures have a point in common; no radius is unknown."""
    assert np.array_equal(mine.classes, other.classes)
    finite = (mine.classes & FINITE) != 0
    assert np.isfinite(mine.radius).all()
    assert np.array_equal(mine.hi[~finite], other.hi[~finite], equal_nan=True)
    assert not mine.radius[~finite].any()
    for place in zip(*np.nonzero(finite), strict=True):
        a, b = (Fraction(e.hi[place]) + Fraction(e.lo[place]) for e in (mine, other))
        assert abs(a - b) <= Fraction(mine.radius[place]) + Fraction(other.radius[place])


def require_same_truth(mine: AttentionTruth, other: AttentionTruth) -> None:
    require_agreement(mine.output, other.output)
    require_agreement(mine.lse, other.lse)
    assert np.allclose(mine.magnitude, other.magnitude, rtol=2.0**-20, atol=0, equal_nan=True)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": -0.37},
    "scale 0": {"scale": 0.0},
    "causal": {"causal": True},
    "causal top-left": {"causal": True, "corner": "top-left"},
    "window": {"window": (9, 4)},
    "causal window": {"causal": True, "window": (0, 0)},
    "left window": {"window": (-1, 3), "corner": "top-left"},
    "mask": {"mask": np.random.default_rng(1).random((2, 1, 70, 90)) < 0.3},
    "row of mask": {"mask": np.random.default_rng(2).random(90) < 0.5},
    "bias": {"bias": draw(3, (4, 70, 90))},
    "bias with removed keys": {"bias": np.where(draw(4, (70, 90)) < 0, -INF, 2.0)},
    "softcap": {"softcap": 3.0},
    "large softcap": {"softcap": 2000.0},
    "sinks": {"sinks": np.array([0.0, -3.0, 40.0, 1e4])},
    "infinite sinks": {"sinks": np.array([INF, -INF, np.nan, 1.0])},
    "all": {
        "scale": 0.5,
        "causal": True,
        "window": (30, -1),
        "mask": np.random.default_rng(5).random((70, 90)) < 0.6,
        "bias": draw(6, (2, 1, 1, 90)),
        "softcap": 20.0,
        "sinks": np.array([0.5, 1.0, -1.0, 2.0]),
    },
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_option_agrees_with_arb(name: str, dtype: str) -> None:
    """2 batches, 4 heads on 2 kv heads, 70 queries, 90 keys, d = 9, d_v = 3."""
    q, k, v = draw(7, (2, 4, 70, 9), dtype), draw(8, (2, 2, 90, 9), dtype), draw(9, (2, 2, 90, 3))
    mine = fast.attention(q, k, v, **OPTIONS[name])
    require_same_truth(mine, arb.attention(q, k, v, **OPTIONS[name]))
    if name not in ("sinks", "infinite sinks"):
        assert (mine.output.tier == ARB).mean() < 0.05


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (3, 0, 4, 2), (0, 5, 4, 2), (5, 65, 1, 1), (2, 3, 4, 0)]
)
def test_small_and_empty_shapes_agree_with_arb(shape: tuple[int, int, int, int]) -> None:
    """n_q, n_k, d, d_v down to one or none."""
    n_q, n_k, d, d_v = shape
    q, k, v = draw(1, (1, 1, n_q, d)), draw(2, (1, 1, n_k, d)), draw(3, (1, 1, n_k, d_v))
    require_same_truth(fast.attention(q, k, v), arb.attention(q, k, v))


@pytest.mark.parametrize("seed", range(40))
def test_random_special_values_agree_with_arb(seed: int) -> None:
    """NaN, infinities and zeros strewn over q, k, v and bias, with and without masks."""
    r = np.random.default_rng(seed)
    q, k, v = (
        draw(seed + i, shape) for i, shape in enumerate(((1, 2, 6, 3), (1, 1, 9, 3), (1, 1, 9, 4)))
    )
    odd = np.array([np.nan, INF, -INF, 0.0])
    options: dict[str, Any] = {"mask": r.random((6, 9)) < 0.5} if seed % 2 else {}
    if seed % 3 == 0:
        options["bias"] = np.zeros((6, 9))
    if seed % 5 == 0:
        options["softcap"] = 2.0
    for x in (q, k, v, options.get("bias", np.zeros(1))):
        hit = r.random(x.shape) < r.choice([0.0, 0.03, 0.3])
        x[hit] = r.choice(odd, hit.sum())
    require_same_truth(fast.attention(q, k, v, **options), arb.attention(q, k, v, **options))


@pytest.mark.parametrize("factor", [1.0, 100.0, 1e4, 1e8])
def test_large_scores_keep_the_radius_that_was_asked_for(factor: float) -> None:
    """Scores up to 1e9 and beyond: radius <= 2^-80 A in every element, and the truth inside."""
    q, k, v = (
        factor * draw(1, (1, 1, 20, 64), "float16"),
        draw(2, (1, 1, 300, 64)),
        draw(3, (1, 1, 300, 5)),
    )
    q = np.asarray(q.astype(np.float32), np.float64)
    mine = fast.attention(q, k, v)
    assert (mine.output.radius <= 2.0**-80 * mine.magnitude).all()
    assert (mine.lse.radius <= 2.0**-80 * np.maximum(1, np.abs(mine.lse.hi))).all()
    require_same_truth(mine, arb.attention(q, k, v))


def test_rows_climb_from_fast_to_one_more_slice_to_arb() -> None:
    """Values alike are fast; a winner with a small value needs one more slice; with 0, Arb."""
    tiers = []
    for gap, winner in ((14.0, 1.0), (14.0, 2.0**-10), (200.0, 0.0)):
        q, k, v = (
            np.ones((1, 1, 1, 1)),
            np.zeros((1, 1, 200, 1)),
            draw(3, (1, 1, 200, 1), "float16"),
        )
        k[..., 0, 0], v[..., 0, 0] = gap, winner
        found = fast.attention(q, k, v)
        tiers.append(int(found.output.tier[0, 0, 0]))
        require_same_truth(found, arb.attention(q, k, v))
    assert tiers == [FAST, FAST_PLUS, ARB]


def test_a_narrower_radius_is_reached_by_higher_tiers() -> None:
    """2^-85, 2^-89 and 2^-100 of A: fast, fast+1, Arb; each meets what it was asked for."""
    q, k, v = draw(1, (1, 1, 64, 16)), draw(2, (1, 1, 64, 16)), draw(3, (1, 1, 64, 4))
    tiers = []
    for radius in (2.0**-78, 2.0**-88, 2.0**-100):
        found = fast.attention(q, k, v, radius=radius)
        assert (found.output.radius <= radius * found.magnitude).all()
        tiers.append({int(tier) for tier in np.unique(found.output.tier)})
    assert tiers == [{FAST}, {FAST_PLUS}, {ARB}]


def test_a_radius_out_of_reach_is_infinite_and_never_a_lie() -> None:
    """Two float64 words hold O up to 2^-105: a request of 2^-120 A gives inf, not a number."""
    q, k, v = draw(1, (1, 1, 3, 4)), draw(2, (1, 1, 5, 4)), draw(3, (1, 1, 5, 2))
    radius = fast.attention(q, k, v, radius=2.0**-120).output.radius
    assert (np.isinf(radius) | (radius <= 2.0**-115)).all()
    assert np.isinf(radius).any()


def test_threads_and_blas_threads_do_not_change_a_bit() -> None:
    """1, 2 and 3 threads, and BLAS at 1 or 2 threads outside, give equal arrays."""
    q, k, v = draw(1, (1, 4, 150, 32)), draw(2, (1, 2, 300, 32)), draw(3, (1, 2, 300, 16))
    first = fast.attention(q, k, v, causal=True)
    for threads, outside in ((2, 1), (3, 2)):
        with threadpool_limits(outside, "blas"):
            other = fast.attention(q, k, v, causal=True, threads=threads)
        for name in ("hi", "lo", "radius", "tier"):
            assert np.array_equal(getattr(first.output, name), getattr(other.output, name))
            assert np.array_equal(getattr(first.lse, name), getattr(other.lse, name))


@pytest.mark.parametrize("few", [range(64), range(64, 150)], ids=["first block", "others"])
def test_tiers_do_not_depend_on_threads(few: range) -> None:
    """Nor does what the first block's rows decide: whether three slices are tried for the others.

    Rows whose weight lies on a key with a small value need four.
    """
    q, k, v = np.zeros((1, 1, 150, 1)), np.zeros((1, 1, 200, 1)), draw(3, (1, 1, 200, 1), "float16")
    q[0, 0, few], k[..., 0, 0], v[..., 0, 0] = 14.0, 1.0, 2.0**-10
    first = fast.attention(q, k, v)
    assert set(first.output.tier[0, 0, few]) == {FAST_PLUS}
    assert set(np.delete(first.output.tier[0, 0], few)) == {FAST_PLUS if few[0] == 0 else FAST}
    for threads in (2, 3):
        other = fast.attention(q, k, v, threads=threads)
        for name in ("hi", "lo", "radius", "tier"):
            assert np.array_equal(getattr(first.output, name), getattr(other.output, name))


def test_blas_threads_are_what_they_were_after_a_call() -> None:
    """Also after a call that raises."""
    q = draw(1, (1, 1, 4, 4))
    with threadpool_limits(2, "blas"):
        before = [(x["filepath"], x["num_threads"]) for x in threadpool_info()]
        fast.attention(q, q, q)
        with pytest.raises(ValueError, match="shapes differ"):
            fast.attention(q, q[..., :2], q)
        assert [(x["filepath"], x["num_threads"]) for x in threadpool_info()] == before


def test_a_row_does_not_depend_on_the_others() -> None:
    """The same bits where the other rows of the block are masked."""
    q, k, v = draw(1, (1, 1, 64, 8)), draw(2, (1, 1, 40, 8)), draw(3, (1, 1, 40, 8))
    whole, mask = fast.attention(q, k, v), np.ones((64, 40), np.bool_)
    mask[5:] = False
    part = fast.attention(q, k, v, mask=mask)
    assert np.array_equal(whole.output.hi[0, 0, :5], part.output.hi[0, 0, :5])


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 1e3, 1e9])
def test_functions_of_rows_agree_with_arb(function: str, spread: float) -> None:
    """300 elements, gaps up to 1e9 and ties; all by the fast tier."""
    x = np.asarray((draw(1, (4, 300)) * spread).astype(np.float32), np.float64)
    mine = getattr(fast, function)(x)
    require_agreement(mine, getattr(arb, function)(x))
    assert (mine.tier == FAST).all()


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "logsumexp"])
def test_functions_of_rows_agree_with_arb_on_special_values(function: str) -> None:
    """NaN, infinities, all -inf, one element, no element."""
    rows = [[0.0, np.nan, 1.0], [INF, 1.0, INF], [-INF, 2.0, 3.0], [-INF] * 3, [5.0, 5.0, 5.0]]
    for x in (np.array(rows), np.array([[3.0], [INF]]), np.zeros((2, 0))):
        require_agreement(getattr(fast, function)(x), getattr(arb, function)(x))


@pytest.mark.parametrize("function", ["softmax", "log_softmax", "logsumexp"])
def test_functions_of_rows_meet_a_narrower_radius_by_arb(function: str) -> None:
    """2^-95 is beyond the fast tier."""
    found = getattr(fast, function)(draw(1, (2, 50)), radius=2.0**-95)
    assert (found.tier == ARB).all()
    assert np.isfinite(found.radius).all()


def test_a_value_that_binary32_lacks_is_named() -> None:
    """The message has the value in decimal and hexadecimal, and the way out."""
    q = np.zeros((1, 1, 1, 1))
    with pytest.raises(ValueError, match=r"v holds 0\.1 \(0x1\.9.*use references\.exact"):
        fast.attention(q, q, q + 0.1)


WRONG: list[dict[str, Any]] = [
    {"corner": "left"},
    {"window": (-2, 0)},
    {"scale": INF},
    {"softcap": 0.0},
    {"sinks": np.zeros(2)},
    {"radius": 0.5},
]


@pytest.mark.parametrize("options", WRONG)
def test_a_wrong_argument_raises(options: dict[str, Any]) -> None:
    """Before anything is computed."""
    q = np.zeros((1, 1, 1, 1))
    with pytest.raises(ValueError, match=next(iter(options))):
        fast.attention(q, q, q, **options)


def test_empty_rows_are_zero_and_minus_infinity() -> None:
    """A masked row, and rows before the first key: O = 0, LSE = -inf, magnitude 0, radius 0."""
    q = draw(1, (1, 1, 8, 4))
    found = fast.attention(q, q[:, :, :3], q[:, :, :3], causal=True)
    assert not found.output.hi[0, 0, :5].any()
    assert not found.magnitude[0, 0, :5].any()
    assert not found.output.radius[0, 0, :5].any()
    assert (found.lse.classes[0, 0, :5] == NEGATIVE_INFINITY).all()
    assert (found.output.classes == FINITE).all()


def test_a_nan_in_one_query_touches_that_row_only() -> None:
    """The other rows have the bits that they have without it."""
    q, k, v = draw(1, (1, 1, 10, 4)), draw(2, (1, 1, 10, 4)), draw(3, (1, 1, 10, 4))
    clean = fast.attention(q, k, v)
    q[0, 0, 3, 1] = np.nan
    found = fast.attention(q, k, v)
    assert (found.output.classes[0, 0, 3] == NAN).all()
    others = np.arange(10) != 3
    assert np.allclose(found.output.hi[0, 0, others], clean.output.hi[0, 0, others], rtol=2.0**-50)


def test_importing_loads_neither_numba_nor_flint() -> None:
    """Nor does the command's start."""
    modules = "import sys, references.fast, verify.cli"
    code = f"{modules}; print({{'numba', 'flint', 'torch'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_missing_arithmetic_is_named_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where FMA fails, the call raises and says what to use instead."""
    from references.fast import assumptions

    monkeypatch.setattr(assumptions, "arithmetic_failures", lambda probe: 1)
    assert assumptions.arithmetic() == "float64 arithmetic lacks a fused multiply-add"
    with pytest.raises(RuntimeError, match=r"fused multiply-add; use references\.arb"):
        fast.softmax(np.zeros((1, 1)))


def test_products_that_lose_a_bit_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix product that rounds to 52 bits is not exact on the known integers."""
    from references.fast import assumptions

    assert assumptions.products() is None
    draws = np.random.default_rng

    class Odd:
        def __init__(self, seed: int) -> None:
            self.generator = draws(seed)

        def integers(self, *arguments: Any) -> Any:
            return 8 * self.generator.integers(*arguments) + 1  # sums leave 2^53

    monkeypatch.setattr(np.random, "default_rng", Odd)
    assert "is not exact" in str(assumptions.products())


def test_memory_grows_with_the_block_and_not_with_the_square() -> None:
    """n = 16384, d = 128, 128 queries: below 600 MiB above the inputs (all scores: 2 GiB)."""
    code = """
import resource, numpy as np
from references import fast
r = np.random.default_rng(0)
k = r.standard_normal((1, 1, 16384, 128)).astype(np.float32).astype(float)
fast.attention(k[:, :, :2], k[:, :, :64], k[:, :, :64])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fast.attention(k[:, :, :128], k, k)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 600 * 1024


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_head_of_16384_keys_runs_under_2_gib(dtype: str) -> None:
    """n_q = n_k = 16384, d = 128: peak memory of the whole process, inputs and truth included."""
    code = f"""
import resource, numpy as np
from references import fast
r = np.random.default_rng(0)
q, k, v = (r.standard_normal((1, 1, 16384, 128)).astype("{dtype}").astype(float) for _ in range(3))
found = fast.attention(q, k, v, threads=2)
assert (found.output.radius <= 2.0**-80 * found.magnitude).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2 * 1024**2
