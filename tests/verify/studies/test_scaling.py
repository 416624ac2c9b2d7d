"""The scaling study: complete, exact where it says so, and each verdict flips where it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape

from verify import studies
from verify.studies.document import FALSE, HOLDS, LIMITED, NOT_MEASURED, Document, read
from verify.studies.running import Array, stored
from verify.studies.scaling import (
    libraries,
    low_precision,
    modules,
    saturation,
    seed_scores,
    shift_exact,
    shift_floating,
    unit_variance,
    vanishing_gradients,
)
from verify.studies.scaling._eager import gradients
from verify.studies.scaling._grid import (
    FORMATS,
    Grid,
    InFormat,
    Norms,
    Point,
    Shape,
    draw,
    entropy,
    probabilities,
    variance,
)


@pytest.fixture(scope="module")
def document() -> Document:
    return studies.run("scaling", small=True)


def test_scaling_every_claim_has_a_figure_and_a_verdict(document: Document) -> None:
    """Each module is a part, each part judges a claim with numbers in its figure."""
    assert [p.name for p in document.parts] == modules()
    assert len(modules()) == 8
    for part in document.parts:
        assert part.claims
        for claim in part.claims:
            assert any(c.isdigit() for c in claim.judgement.figure)


def test_scaling_files_are_complete_and_pictures_hold_lines(
    document: Document, tmp_path: Path
) -> None:
    """Every chart becomes a picture with all its lines; JSON reads back as the same study."""
    paths = studies.write(document, tmp_path)
    assert [p.name for p in paths] == ["scaling.study.json", "scaling.md", "scaling.html"]
    assert read(paths[0]).to_json() == document.to_json()
    page = paths[2].read_text()
    charts = [chart for part in document.parts for chart in part.charts]
    assert page.count("<svg") == len(charts) == 12
    assert page.count('<g data-series="') == sum(len(chart.lines) for chart in charts)
    for chart in charts:
        assert str(escape(chart.title)) in page
        assert any(y is not None for line in chart.lines for y in line.y), chart.title


def plain_point(scaled: bool, d: int, **changes: object) -> Point:
    """A point as the text expects it: saturated and without gradients unless scaled."""
    size = 1.0 if scaled else 1e-3
    lost = 0.0 if scaled else 1.0
    in_format = InFormat(0.0, 0.0, dict.fromkeys(("scores", "q", "k"), 0.1), lost, 0.0)
    zeros = 0.0 if scaled else 0.9
    made = Point(
        d=d,
        growth=1,
        scaled=scaled,
        entropy=4.0 if scaled else 0.1,
        largest=0.1 if scaled else 0.99,
        saturated=0.0 if scaled else 0.9,
        gradients=dict.fromkeys(("scores", "q", "k"), Norms(size, size)),
        formats={"fp16": replace(in_format, zeros=zeros), "bf16": in_format, "fp32": in_format},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def grid_of(change: Callable[[Point], Point] = lambda p: p) -> Grid:
    """A grid of points as the text expects them, changed."""
    shape = Shape(dimensions=(16, 64), growths=(1,), n_q=2, n_k=4, d_v=1)
    points = {
        (d, 1, scaled): change(plain_point(scaled, d))
        for d in shape.dimensions
        for scaled in (True, False)
    }
    return Grid(shape, points)


def test_unit_variance_flips_where_the_scale_is_wrong() -> None:
    """Variance 1 with the scale and d without holds; d to the power 3/2, or no growth, does not."""
    right = {(d, scaled): 1.0 if scaled else float(d) for d in (16, 64) for scaled in (True, False)}
    assert unit_variance.judge(right, []).verdict == HOLDS
    assert unit_variance.judge(right, [0.9, 1.5]).verdict == HOLDS
    assert unit_variance.judge(right, [0.9, 40.0]).verdict == LIMITED
    by_d = {key: v / key[0] if key[1] else v for key, v in right.items()}  # divided by d instead
    assert unit_variance.judge(by_d, []).verdict == FALSE
    flat = dict.fromkeys(right, 1.0)
    assert unit_variance.judge(flat, []).verdict == FALSE


def test_inputs_are_the_same_numbers_in_every_format() -> None:
    """Every input of every growth is held exactly by fp16, bf16 and fp32."""
    shape = Shape(n_q=16, n_k=16, d_v=4)
    for d in (16, 512):
        inputs = draw(d, shape)
        grown = [inputs.q * growth for growth in shape.growths]
        for x in (*grown, inputs.k, inputs.v, inputs.do):
            for fmt in FORMATS:
                assert np.array_equal(stored(x, fmt), x)


def test_variance_is_exact() -> None:
    """Against rational arithmetic on every dot product."""
    q, k = np.array([[1.5, -2.0], [0.25, 3.0]]), np.array([[1.0, 0.5], [-1.25, 2.0]])
    dots = [sum(Fraction(a) * Fraction(b) for a, b in zip(i, j, strict=True)) for i in q for j in k]
    mean = sum(dots, Fraction(0)) / 4
    assert variance(q, k) == sum((y - mean) ** 2 for y in dots) / 4


def test_saturation_flips_where_rows_stay_soft() -> None:
    """No saturation without the scale, or as much with it, does not hold."""
    assert saturation.judge(grid_of()).verdict == HOLDS
    soft = grid_of(lambda p: replace(p, saturated=0.0))
    assert saturation.judge(soft).verdict == FALSE
    both = grid_of(lambda p: replace(p, saturated=0.9))
    assert saturation.judge(both).verdict == FALSE
    wide = grid_of(lambda p: replace(p, saturated=p.saturated if p.d == 64 else 0.0))
    assert saturation.judge(wide).verdict == LIMITED


def test_vanishing_gradients_flips_where_they_stay() -> None:
    """Equal gradients do not hold; a large mean beside a small median holds with limits."""
    assert vanishing_gradients.judge(grid_of()).verdict == HOLDS
    names = ("scores", "q", "k")
    equal = grid_of(lambda p: replace(p, gradients=dict.fromkeys(names, Norms(1.0, 1.0))))
    assert vanishing_gradients.judge(equal).verdict == FALSE
    few = grid_of(
        lambda p: replace(
            p, gradients=dict.fromkeys(names, Norms(p.gradients["scores"].median, 1.0))
        )
    )
    assert vanishing_gradients.judge(few).verdict == LIMITED


def test_low_precision_flips_where_fp16_keeps_all() -> None:
    """No zeros in fp16, or as many in bf16, does not hold."""
    assert low_precision.judge(grid_of()).verdict == LIMITED
    kept = grid_of(lambda p: replace(p, formats=dict.fromkeys(p.formats, p.formats["bf16"])))
    assert low_precision.judge(kept).verdict == FALSE
    all_lost = grid_of(lambda p: replace(p, formats=dict.fromkeys(p.formats, p.formats["fp16"])))
    assert low_precision.judge(all_lost).verdict == FALSE


def test_eager_gradients_are_those_of_the_definition() -> None:
    """In binary32, against the formula in float64."""
    draws = np.random.default_rng(0)
    q, k, v, do = (np.round(draws.normal(size=(1, 1, n, 4)), 2) for n in (3, 5, 5, 3))
    q, k, v, do = (x.astype(np.float32).astype(np.float64) for x in (q, k, v, do))
    made = gradients(q, k, v, do, 0.5, "fp32")
    s = 0.5 * q @ k.swapaxes(-1, -2)
    p = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
    dp = do @ v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    expected = {"scores": ds, "q": 0.5 * ds @ k, "k": 0.5 * ds.swapaxes(-1, -2) @ q}
    for name, value in expected.items():
        assert np.abs(made[name] - value).max() < 1e-5, name


def test_probabilities_and_entropy_of_equal_scores() -> None:
    """Zero queries give uniform rows, whose entropy is ln n."""
    p = probabilities(np.zeros((1, 1, 2, 4)), np.ones((1, 1, 8, 4)), None)
    assert np.abs(p - 0.125).max() < 1e-15
    assert entropy(p) == pytest.approx(np.log(8))


def by_blocks(x: shift_exact.Row) -> shift_exact.Row:
    """A broken shift: each half of the row loses its own maximum."""
    half = len(x) // 2
    return [*shift_exact.by_maximum(x[:half]), *shift_exact.by_maximum(x[half:])]


def by_minimum(x: shift_exact.Row) -> shift_exact.Row:
    """Another constant: as exact as the maximum."""
    return [v - min(x) for v in x]


def test_shift_exact_holds_for_any_constant_and_no_other_shift() -> None:
    """The maximum and the minimum change nothing; two maxima in one row change every entry."""
    for shift in (shift_exact.by_maximum, by_minimum):
        wrong, found = shift_exact.measure(4, 8, shift)
        assert shift_exact.judge(wrong, 32, found).verdict == HOLDS
    wrong, found = shift_exact.measure(4, 8, by_blocks)
    assert wrong > 0
    assert not any(d.contains_zero for d in found.values())
    assert shift_exact.judge(wrong, 32, found).verdict == FALSE


def test_shift_floating_flips_where_both_survive_or_the_shift_fails() -> None:
    """Without a single lost row, or with rows lost after the shift, the claim does not hold."""
    mild = {fmt: shift_floating.Mild(1.0, 1.0) for fmt in ("fp16", "bf16", "fp32")}
    assert shift_floating.judge(grid_of(), mild).verdict == LIMITED
    worse = dict.fromkeys(mild, shift_floating.Mild(9.0, 1.0))
    assert shift_floating.judge(grid_of(), worse).verdict == HOLDS

    def losing(p: Point, lost: float, kept_lost: float) -> Point:
        changed = {n: replace(f, lost=lost, kept_lost=kept_lost) for n, f in p.formats.items()}
        return replace(p, formats=changed)

    survives = grid_of(lambda p: losing(p, 0.0, 0.0))
    assert shift_floating.judge(survives, mild).verdict == FALSE
    fails = grid_of(lambda p: losing(p, 1.0, 0.1))
    assert shift_floating.judge(fails, mild).verdict == FALSE


def test_seed_scores_flips_with_kernels_swapped() -> None:
    """A kernel without the shift in place of the stable one, or the reverse, is noticed."""
    assert seed_scores.judge(seed_scores.measure()).verdict == LIMITED  # bf16 cannot hold 1001
    naive, shifted = seed_scores.NAIVE, seed_scores.SHIFTED
    assert seed_scores.judge(seed_scores.measure(shifted=naive)).verdict == FALSE
    assert seed_scores.judge(seed_scores.measure(naive=shifted)).verdict == FALSE
    only = {"fp32": seed_scores.measure()["fp32"]}
    assert seed_scores.judge(only).verdict == HOLDS


def test_libraries_flips_with_a_softmax_without_shift() -> None:
    """torch passes; exp(x) / sum exp(x) does not; a missing library is said to be missing."""

    def naive(x: Array, fmt: str) -> Array:
        with np.errstate(all="ignore"):
            e = np.exp(x)
            return np.asarray(e / e.sum(axis=-1, keepdims=True))

    torch = {"fp32": libraries.stability(libraries.torch_softmax, "fp32")}
    assert libraries.judge({"torch": torch}).verdict == HOLDS
    assert libraries.judge({"torch": torch, "jax": None}).verdict == LIMITED
    assert libraries.judge({"jax": None}).verdict == NOT_MEASURED
    broken = {"fp32": libraries.stability(naive, "fp32")}
    assert libraries.judge({"torch": broken}).verdict == FALSE
