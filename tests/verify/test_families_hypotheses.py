"""Families do to a wrong kernel what they say: the fault shows, simulated step by step."""

from __future__ import annotations

import numpy as np
import pytest

from verify import families
from verify.case import Array, Axes, Case, Inputs, Plan
from verify.families._values import signs
from verify.formats import BFLOAT16, BINARY16, BINARY32, FORMATS, TF32, Format

SIXTEEN = [BINARY16, BFLOAT16]


def _names(fmt: Format) -> str:
    return fmt.name


def _inputs(family: str, fmt: Format, name: str = "") -> tuple[Case, Inputs]:
    """The first case of a family whose name contains `name`."""
    for case in families.family(family).cases(Plan("attention", fmt)):
        if name in case.name:
            return case, case.build()
    raise AssertionError(f"no case of {family} contains {name!r}")


def _first(inputs: Inputs) -> tuple[Array, Array, Array]:
    q, k, v = (inputs[name].values for name in "qkv")
    return q[0, 0], k[0, 0], v[0, 0]


def _running(values: Array, fmt: Format) -> Array:
    """The sum along the first axis, every addition rounded to the format."""
    total: Array = np.zeros_like(values[0])
    for value in values:
        total = fmt.round(total + value)
    return total


def _softmax(s: Array) -> Array:
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True), np.float64)


@pytest.mark.parametrize("fmt", SIXTEEN, ids=_names)
def test_row_sum_stagnation_stops_a_short_row_sum_at_2_to_the_p(fmt: Format) -> None:
    _, inputs = _inputs("row_sum_stagnation", fmt, "4096")
    n = inputs["k"].shape[2]
    assert _running(np.ones((n, 1)), fmt)[0] == 2.0**fmt.p
    assert n / 2.0**fmt.p >= 2


@pytest.mark.parametrize("fmt", SIXTEEN, ids=_names)
def test_row_sum_tail_is_lost_below_and_doubled_above(fmt: Format) -> None:
    for side, factor in (("below", 0.0), ("above", 2.0)):
        _, inputs = _inputs("row_sum_tail", fmt, f"{fmt.name}-{side}-0")
        q, k, _ = _first(inputs)
        e = np.exp(q[:1] @ k.T / 8)[0]
        grown = _running(e[:100, None], fmt)[0] - 1
        assert grown == pytest.approx(factor * e[1:100].sum(), rel=0.05)


@pytest.mark.parametrize("fmt", [*SIXTEEN, BINARY32], ids=_names)
def test_pv_stagnation_loses_the_tail_in_16_bits(fmt: Format) -> None:
    short = BINARY16 if fmt is BINARY32 else fmt
    _, inputs = _inputs("pv_stagnation", fmt, "512")
    v = _first(inputs)[2]
    assert (_running(v, short)[0::2] <= 1 / short.u + 1).all()
    assert (v[:, 0::2].sum(axis=0) >= 1 / short.u + 500).all()


@pytest.mark.parametrize("fmt", [*SIXTEEN, BINARY32], ids=_names)
def test_qk_stagnation_makes_equal_scores_differ_in_16_bits(fmt: Format) -> None:
    q, k, _ = _first(_inputs("qk_stagnation", fmt, "16x48")[1])
    exact = (q[:1] * k).sum(axis=1)
    assert np.unique(exact).size == 1
    rounded = _running((q[:1] * k).T, BINARY16 if fmt is BINARY32 else fmt)
    assert np.ptp(rounded) >= 32  # scores: 4 apart or more


@pytest.mark.parametrize("fmt", SIXTEEN, ids=_names)
def test_p_half_bias_rounds_every_p_down_by_almost_u(fmt: Format) -> None:
    q, k, v = _first(_inputs("p_half_bias", fmt)[1])
    p = np.exp(q[:1] @ k.T / 8)[0, 1:]
    assert (fmt.round(p) == 0.5).all()
    assert p.min() == pytest.approx(0.5 * (1 + 0.97 * fmt.u), rel=fmt.u / 50)
    assert set(np.unique(v)) == {1.0, 1 + 2 * fmt.u}


@pytest.mark.parametrize("fmt", SIXTEEN, ids=_names)
def test_near_ties_merge_when_scores_are_stored_in_the_format(fmt: Format) -> None:
    for name in ("S32", "S128", "S1000"):
        q, k, _ = _first(_inputs("near_ties", fmt, name)[1])
        s = q[:1] @ k.T / np.sqrt(k.shape[1])
        assert np.unique(s).size > np.unique(fmt.round(s)).size
        assert np.ptp(fmt.round(s) - s) >= 0.5 * float(fmt.ulp(s.max(initial=0)))


@pytest.mark.parametrize(("fmt", "short"), [(BINARY32, TF32), (BINARY16, BFLOAT16)])
def test_operand_truncation_makes_scores_uniform_in_a_shorter_format(
    fmt: Format, short: Format
) -> None:
    name = "bit12" if fmt is BINARY32 else "bit9"
    q, k, v = _first(_inputs("operand_truncation", fmt, name)[1])
    assert np.ptp(q[:1] @ k.T / 8) > 0.3
    assert np.ptp(short.round(q[:1], "RZ") @ k.T) == 0
    assert np.ptp(v) > 0
    assert np.ptp(short.round(v, "RZ")) == 0


@pytest.mark.parametrize("fmt", [*SIXTEEN, BINARY32], ids=_names)
def test_subnormal_inputs_are_subnormal_and_decide_the_scores(fmt: Format) -> None:
    for which, place in (("q-64", 0), ("k-64", 1)):
        tensors = _first(_inputs("subnormal_inputs", fmt, which)[1])
        small = np.abs(tensors[place])
        assert np.median(small) < fmt.smallest_normal
        assert np.ptp(tensors[0] @ tensors[1].T / 8) > 0.5


def test_score_overflow_passes_the_largest_half_number() -> None:
    for name, factor in (("positive", 1), ("negative", -1)):
        q, k, _ = _first(_inputs("score_overflow", BINARY16, name)[1])
        assert (factor * (q @ k.T) > BINARY16.overflow_threshold).all()
        assert np.ptp(q @ k.T) < 8 * 64


def test_intermediate_overflow_overflows_only_on_the_way() -> None:
    for name in ("alternating", "halves"):
        q, k, _ = _first(_inputs("intermediate_overflow", BINARY16, name)[1])
        products = q[0] * k
        assert np.abs(products.sum(axis=1)).max() < 2000
        assert np.abs(products).sum(axis=1).min() > 2e5
    halves = np.abs(np.cumsum(products, axis=1)).max()
    assert halves > BINARY16.overflow_threshold


def test_product_overflow_needs_the_scale_first() -> None:
    case, inputs = _inputs("product_overflow", BINARY16)
    q, k, _ = _first(inputs)
    assert case.operation.scale is not None
    assert (q @ k.T > BINARY16.overflow_threshold).mean() > 0.9
    assert np.abs(q @ k.T * case.operation.scale).max() < 32


@pytest.mark.parametrize("kept", [7, 10, 13, 20])
def test_alignment_loses_the_ones_when_fewer_bits_are_kept(kept: int) -> None:
    q, k, _ = _first(_inputs("alignment", BINARY16, f"F{kept}-")[1])
    products = q[0] * k
    quantum = 2.0 ** (kept - (kept - 1))  # keeps kept - 1 bits below the largest product
    assert (np.trunc(products / quantum) * quantum).sum(axis=1).max() == 0
    assert products.sum(axis=1).min() >= 10
    assert np.ptp(products.sum(axis=1)) >= 4


@pytest.mark.parametrize("fmt", [*SIXTEEN, BINARY32], ids=_names)
def test_p_underflow_puts_visible_mass_where_p_rounds_to_zero(fmt: Format) -> None:
    q, k, v = _first(_inputs("p_underflow", fmt, "515")[1])
    p = np.exp((q[:1] @ k.T / 8)[0])
    zero = p < fmt.smallest / 2 if fmt is not BINARY32 else p < BINARY32.smallest / 2
    assert zero.mean() > 0.5
    assert np.abs(p[1:, None] * v[1:]).sum() > 1e-3 * np.abs(p[0] * v[0]).sum()


@pytest.mark.parametrize("fmt", [*SIXTEEN, BINARY32], ids=_names)
def test_p_subnormal_covers_the_subnormal_range_of_p(fmt: Format) -> None:
    q, k, v = _first(_inputs("p_subnormal", fmt, "640")[1])
    p = np.exp((q[:1] @ k.T / 8)[0])
    subnormal = (p < fmt.smallest_normal) & (p > fmt.smallest / 2)
    assert subnormal.mean() > 0.25
    mass = p[:, None] * v
    assert mass[subnormal].sum() > 0.01 * mass.sum()


@pytest.mark.parametrize("fmt", [*SIXTEEN, BINARY32], ids=_names)
def test_staircase_up_raises_the_maximum_in_every_block(fmt: Format) -> None:
    q, k, _ = _first(_inputs("staircase_up", fmt, "step4-8x512")[1])
    s = q @ k.T / 8
    tops = s[0].reshape(-1, 16).max(axis=1)
    assert (np.diff(tops) >= 3).all()


def test_lazy_rescale_jump_stands_on_both_sides_of_8_in_log2() -> None:
    for name, least, most in (("under", 5.0, 8 * np.log(2)), ("over", 8 * np.log(2), 5.6)):
        q, k, _ = _first(_inputs("lazy_rescale_jump", BFLOAT16, f"{name}-6x512")[1])
        tops = (q[:1] @ k.T / 8)[0].reshape(-1, 16).max(axis=1)
        assert ((np.diff(tops) > least) & (np.diff(tops) < most)).all()


def test_late_jump_makes_the_rescale_factor_zero_in_binary32() -> None:
    q, k, _ = _first(_inputs("late_jump", BINARY16, "last-block-200")[1])
    s = q @ k.T / 8
    assert (s[:, -16:].min(axis=1) - s[:, :-16].max(axis=1) > 104).all()


@pytest.mark.parametrize("family", ["causal", "windows"])
def test_some_case_tells_the_corners_apart(family: str) -> None:
    cases = families.family(family).cases(Plan("attention", BINARY16))
    assert any(case.notes["n_q"] != case.notes["n_k"] for case in cases)


def test_asymmetric_sizes_are_all_distinct() -> None:
    for case in families.family("asymmetric_sizes").cases(Plan("attention", BINARY16)):
        sizes = [case.notes[a] for a in ("batch", "heads", "kv_heads", "n_q", "n_k", "d", "d_v")]
        assert len(set(sizes)) == 7, case.id


def test_head_dimensions_and_scales_cover_the_list() -> None:
    found = {
        case.notes["d"]
        for name in ("head_dimensions", "unrepresentable_scale")
        for case in families.family(name).cases(Plan("attention", BINARY16))
    }
    assert {1, 8, 40, 72, 80, 96, 112, 128, 192, 256} <= found


def test_needle_owns_the_row_and_its_value_is_unlike_the_others() -> None:
    for place, name in ((-1, "last-5x515"), (0, "first-5x515")):
        q, k, v = _first(_inputs("needle", BFLOAT16, name)[1])
        p = _softmax(q @ k.T / 8)
        assert (p[:, place] > 0.999).all()
        assert v[place, 1:].min() > np.delete(v, place % len(v), axis=0).max() + 2


def test_block_edges_at_minus_20_belong_to_a_padding_key_scored_zero() -> None:
    for level, won in ((-20, True), (-120, True), (0, False)):
        q, k, _ = _first(_inputs("block_edges", BINARY16, f"S{level}-3x129")[1])
        s = q @ k.T / 8
        padded = np.hstack([s, np.zeros((len(s), 1))])
        assert bool((_softmax(padded)[:, -1] > 0.999).all()) == won


@pytest.mark.parametrize("kind", ["mask", "bias", "window", "softcap"])
def test_canaries_stand_only_where_no_row_looks(kind: str) -> None:
    case, inputs = _inputs("canary", BINARY16, f"{kind}-nan")
    hidden = np.isnan(inputs["k"].values)[0, 0, :, 0]
    assert hidden.any()
    if kind == "window":
        window = case.operation.window
        assert window is not None
        seen_from = inputs["k"].shape[2] - inputs["q"].shape[2] - window[0]
        assert not hidden[seen_from:].any()
    elif kind == "bias":
        assert (inputs["bias"].values[..., hidden] == -np.inf).all()
    else:
        assert inputs.mask is not None
        assert not inputs.mask[..., hidden].any()


def test_empty_rows_are_empty_and_the_others_are_not() -> None:
    for where, empty in (("start", [0, 1, 2]), ("end", [13, 14, 15])):
        _, inputs = _inputs("empty_rows", BINARY16, where)
        assert inputs.mask is not None
        assert np.flatnonzero(~inputs.mask[0, 0].any(axis=-1)).tolist() == empty


def test_first_block_masked_leaves_no_key_in_the_first_blocks() -> None:
    _, inputs = _inputs("first_block_masked", BINARY16, "left129")
    assert inputs.mask is not None
    seen = np.asarray(inputs.mask[0, 0, :, :128].any(axis=-1))
    assert seen.mean() < 0.2
    assert inputs.mask[0, 0].any(axis=-1).all()


def test_vanishing_lse_cancels_its_maximum() -> None:
    for fmt in FORMATS.values():
        if fmt.name in ("fp16", "bf16", "fp32"):
            for case in families.family("vanishing_lse").cases(Plan("logsumexp", fmt)):
                x = case.build()["x"].values
                lse = x.max(axis=1) + np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1))
                assert np.abs(lse).max() < 0.05 * np.abs(x).max()


def test_seed_case_has_the_three_numbers() -> None:
    for fmt in (BINARY16, BINARY32):
        cases = list(families.family("seed_case").cases(Plan("softmax", fmt, "smoke")))
        assert any(case.build()["x"].values.tolist() == [[1000, 1001, 999]] for case in cases)
    q, k, _ = _first(_inputs("seed_case", BFLOAT16, "positive-1x3")[1])
    assert (q @ k.T / 8).tolist() == [[1000, 1001, 999]]


def test_grouped_heads_name_their_kv_head() -> None:
    _, inputs = _inputs("grouped_heads", BINARY16, "named")
    assert inputs["v"].values[0, :, 0, 0].tolist() == [1.0, 2.0]


def test_positive_v_has_ten_thousand_outputs() -> None:
    case, inputs = _inputs("positive_v", BFLOAT16)
    outputs = case.notes["batch"] * case.notes["heads"] * case.notes["n_q"] * case.notes["d_v"]
    assert outputs >= 1e4
    assert inputs["v"].values.min() > 0


def test_constant_columns_and_cancelling_values_are_what_they_say() -> None:
    v = _first(_inputs("constant_v", BINARY16)[1])[2]
    assert np.ptp(v, axis=0).max() == 0
    v = _first(_inputs("v_cancellation", BINARY16)[1])[2]
    assert np.array_equal(np.sign(v), signs(Axes(1, len(v)))[0, 0])


@pytest.mark.parametrize(
    ("family", "least"),
    [("big_scores", 300.0), ("sharp_scores", 15.0), ("negative_offset", 4e4), ("huge_offset", 1e4)],
)
def test_scores_are_as_large_as_promised(family: str, least: float) -> None:
    largest = 0.0
    for case in families.family(family).cases(Plan("attention", BINARY16)):
        q, k, _ = _first(case.build())
        largest = max(largest, float(np.abs(q @ k.T).max() / np.sqrt(case.notes["d"])))
    assert largest >= least
