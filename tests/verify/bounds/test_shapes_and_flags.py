"""Shapes, empty and special rows, range conditions, and what a bound must not see."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace

import numpy as np
import pytest

from references.decompose import Decomposition, decompose
from tests.verify.bounds.inputs import problem
from tests.verify.bounds.machine import Array
from tests.verify.bounds.models import EAGER, of
from tests.verify.bounds.test_attention_bounds import SMALL, inputs_of
from verify import bounds
from verify.arithmetic import ArithmeticModel, Chain
from verify.bounds import FLAGS, STAGES, Bound, attention_bound, bound, deviations
from verify.bounds.folding import attention_rows
from verify.case import Inputs, Tensor
from verify.formats import BFLOAT16, BINARY16, BINARY32, FORMATS
from verify.operation import Operation
from verify.presets import preset

Call = tuple[Inputs, Operation, Decomposition]


def call(
    batch: int,
    heads: int,
    kv_heads: int,
    n_q: int,
    n_k: int,
    d: int,
    d_v: int,
    causal: bool = False,
    sinks: bool = False,
) -> Call:
    """A call in bf16 with all axes of their own size."""
    rng = np.random.default_rng(3)

    def draw(*shape: int) -> Tensor:
        return Tensor.rounded(BFLOAT16, rng.standard_normal(shape))

    tensors = {
        "q": draw(batch, heads, n_q, d),
        "k": draw(batch, kv_heads, n_k, d),
        "v": draw(batch, kv_heads, n_k, d_v),
    }
    if sinks:
        tensors["sinks"] = draw(heads)
    inputs = Inputs(tensors)
    q, k, v = (tensors[name].values for name in "qkv")
    parts = decompose(q, k, v, sinks=inputs.values("sinks"), causal=causal)
    return inputs, Operation("attention", causal=causal), parts


def limit(found: Call, name: str = "flash") -> Bound:
    inputs, operation, parts = found
    return bound(operation, inputs, parts, preset(name, inputs["q"].format))


def test_heads_are_bounded_as_they_would_be_alone() -> None:
    """Grouped heads and batches: each (batch, head) has the bound of its own small call."""
    found = call(2, 6, 3, 5, 37, 8, 4, sinks=True)
    inputs, operation, parts = found
    whole = limit(found)
    assert whole.total.shape == (2, 6, 5, 4)
    assert whole.lse is not None
    assert whole.lse.shape == (2, 6, 5)
    for b in range(2):
        for h in range(6):
            some = {
                name: Tensor.of(
                    BFLOAT16, inputs[name].values[b : b + 1, [h if name == "q" else h // 2]]
                )
                for name in "qkv"
            }
            some["sinks"] = Tensor.of(BFLOAT16, inputs["sinks"].values[h : h + 1])
            one = Inputs(some)
            alone = decompose(*(some[n].values for n in "qkv"), sinks=one.values("sinks"))
            single = bound(operation, one, alone, preset("flash", BFLOAT16))
            assert single.lse is not None
            np.testing.assert_allclose(whole.total[b, h], single.total[0, 0], rtol=1e-9)
            np.testing.assert_allclose(whole.lse[b, h], single.lse[0, 0], rtol=1e-9)
    assert parts.sink_p is not None


@pytest.mark.parametrize(
    "shape", [(0, 2, 1, 3, 4, 5, 6), (1, 2, 1, 0, 4, 5, 6), (1, 2, 2, 3, 0, 4, 5)]
)
def test_empty_axes_have_bounds_of_the_right_shape(
    shape: tuple[int, int, int, int, int, int, int],
) -> None:
    """No batch, no queries, no keys: arrays of the output's shape, zeros where there are rows."""
    found = limit(call(*shape))
    assert found.total.shape == (shape[0], shape[1], shape[3], shape[6])
    assert found.lse is not None
    assert found.lse.shape == (shape[0], shape[1], shape[3])
    assert (found.total == 0).all()
    assert not found.flagged.any()


def test_rows_without_keys_are_exact() -> None:
    """Causal with more queries than keys: the first rows see nothing, and their bound is 0."""
    found = limit(call(1, 2, 1, 7, 4, 8, 4, causal=True))
    assert (found.total[:, :, :3] == 0).all()
    assert (found.total[:, :, 3:] > 0).all()
    assert found.lse is not None
    assert (found.lse[:, :, :3] == 0).all()


def test_a_single_key_moves_by_roundings_of_p_and_output_only() -> None:
    """One visible key: no score error remains, whatever the scores."""
    found = limit(call(1, 1, 1, 4, 4, 64, 8, causal=True))
    assert (found.parts["scores"][0, 0, 0] <= 1e-12).all()


def test_parts_add_up_to_the_total() -> None:
    """The four stages, in order, sum to the bound."""
    found = limit(call(1, 2, 2, 9, 33, 16, 8))
    assert tuple(found.parts) == STAGES
    total = sum(found.parts[name] for name in STAGES)
    np.testing.assert_allclose(total, found.total, rtol=1e-7)
    assert found.dominating in STAGES


def test_nan_inputs_flag_what_they_reach_and_nothing_else() -> None:
    """NaN in one q row, one key, one value: that row, all rows, that column."""
    clean = problem("normal", SMALL, "bf16")
    everything = np.ones(SMALL[:1] + SMALL[3:], dtype=bool)
    row, column = np.zeros_like(everything), np.zeros_like(everything)
    row[1], column[:, 3] = True, True
    for name, index, expected in (
        ("q", (1, 3), row),
        ("k", (7, 3), everything),
        ("v", (7, 3), column),
    ):
        array = getattr(clean, name).copy()
        array[index] = np.nan
        inputs, operation, parts = inputs_of(replace(clean, **{name: array}), "bf16")
        found = bound(operation, inputs, parts, preset("flash", BFLOAT16))
        np.testing.assert_array_equal(found.flag_reasons["undefined"][0, 0], expected, name)
        assert np.isinf(found.total[found.flagged]).all()
        assert np.isfinite(found.total[~found.flagged]).all()
        assert found.lse_flagged is not None
        assert found.lse_flagged.any() == (name != "v")


def test_nan_in_a_removed_key_changes_nothing() -> None:
    """A key that no row sees may hold anything."""
    p = problem("normal", SMALL, "bf16")
    visible = p.visible.copy()
    visible[:, 5] = False
    clean = inputs_of(replace(p, visible=visible), "bf16")
    k, v = p.k.copy(), p.v.copy()
    k[5], v[5] = np.nan, np.inf
    dirty = inputs_of(replace(p, visible=visible, k=k, v=v), "bf16")
    first, second = (bound(o, i, d, preset("flash", BFLOAT16)) for i, o, d in (clean, dirty))
    np.testing.assert_array_equal(first.total, second.total)


FLAGGED = [
    ("O1", of("fp16", qk=Chain("fp16")), "products_overflow"),
    ("O2", of("fp16", scale_format="fp16"), "score_overflow"),
    ("O3", of("fp16", stored_scores="fp16", **EAGER), "score_overflow"),
    ("O4", of("fp16", shift=False), "huge_offset"),
    ("O5", of("fp16", row_sum=Chain("fp16"), shift=False), "large_scores"),
    ("O6", of("fp16", shift=False), "negative_offset"),
    ("O7", of("fp16", pv=Chain("fp16")), "large_values"),
    ("O8", of("e4m3", p_offset=8, lazy=8.0, block=16, output="bf16"), "normal"),
    ("O9", of("fp16", block=None), "output_overflow"),
]


def _flag_problem(family: str, fmt: str) -> Call:
    base = problem("normal" if family.endswith("overflow") else family, SMALL, fmt)
    if family == "products_overflow":
        base = problem(family, SMALL, fmt)
        base = replace(base, q=16 * base.q)
    if family == "score_overflow":
        base = replace(base, q=np.full(base.q.shape, 256.0), k=np.full(base.k.shape, 256.0))
    if family == "output_overflow":
        base = replace(base, v=np.full(base.v.shape, 65504.0))
    return inputs_of(base, fmt)


@pytest.mark.parametrize(("flag", "model", "family"), FLAGGED, ids=[f[0] for f in FLAGGED])
def test_flag_is_raised_where_its_condition_holds(
    flag: str, model: ArithmeticModel, family: str
) -> None:
    """Each range condition has inputs that raise it, and ordinary data do not."""
    inputs, operation, parts = _flag_problem(family, model.input)
    found = bound(operation, inputs, parts, model)
    assert found.flag_reasons[flag].any()
    assert np.isinf(found.total[found.flag_reasons[flag]]).all()
    assert set(found.flag_reasons) <= set(FLAGS)
    if flag != "O8":
        quiet = inputs_of(problem("normal", SMALL, model.input), model.input)
        assert not bound(quiet[1], quiet[0], quiet[2], model).flagged.any()


def test_a_log_sum_exp_beyond_its_format_is_flagged_and_nothing_else_is() -> None:
    """An LSE returned in binary16 overflows at 65520; in binary32 the same rows are judged."""
    p = problem("normal", SMALL, "fp16")
    p = replace(p, q=np.full(p.q.shape, 64.0), k=np.full(p.k.shape, 16384.0))
    inputs, operation, parts = inputs_of(p, "fp16")
    for fmt, expected in (("fp16", True), ("fp32", False)):
        found = bound(operation, inputs, parts, of("fp16", lse_format=fmt))
        assert found.lse_flagged is not None
        assert found.lse_flagged.all() == found.lse_flagged.any() == expected
        assert not found.flagged.any()


def test_shifted_kernels_are_never_excused_for_an_empty_row_sum() -> None:
    """O6 needs a missing shift: with one, some exponential is exp(0)."""
    for family in ("large_scores", "products_overflow", "huge_offset", "p_underflow"):
        for fmt in (BINARY16, BFLOAT16, BINARY32):
            inputs, operation, parts = inputs_of(problem(family, SMALL, fmt.name), fmt.name)
            for name in ("single", "flash", "eager", "half"):
                found = bound(operation, inputs, parts, preset(name, fmt))
                assert "O6" not in found.flag_reasons


def test_a_sink_far_above_the_keys_excuses_no_overflow() -> None:
    """The sink belongs to the maximum; a kernel that leaves it out answers for it."""
    p = replace(problem("normal", SMALL, "fp32"), sink=200.0)
    inputs, operation, parts = inputs_of(p, "fp32")
    assert not bound(operation, inputs, parts, preset("single", BINARY32)).flagged.any()


def test_a_key_at_the_lowest_score_costs_the_others_nothing() -> None:
    """A finite mask at the lowest number: the other keys keep nearly their bound."""
    p = problem("normal", SMALL, "fp32")
    bias = np.zeros(p.visible.shape)
    bias[:, ::2] = -FORMATS["fp32"].largest
    masked = inputs_of(replace(p, bias=bias), "fp32")
    removed = inputs_of(replace(p, visible=bias == 0, bias=np.zeros(bias.shape)), "fp32")
    first, second = (bound(o, i, d, preset("single", BINARY32)) for i, o, d in (masked, removed))
    assert not first.flagged.any()
    assert (first.total <= 4 * second.total).all()


def test_flush_of_fp16_p_adds_its_term() -> None:
    """flush_p adds about 2^-14 sum |v| over the keys whose P is subnormal."""
    inputs, operation, parts = inputs_of(problem("p_subnormal", SMALL, "fp16"), "fp16")
    model = of("fp16")
    plain = bound(operation, inputs, parts, model).total
    flushed = bound(operation, inputs, parts, replace(model, flush_p=True)).total
    assert (flushed > 5 * plain).all()
    small = parts.p[0, 0] * parts.row_sum[0, 0][:, None] < 2.0**-14
    added = 2.0**-14 * (small @ np.abs(inputs["v"].values[0, 0]))
    assert (flushed[0, 0] <= plain[0, 0] + 1.01 * added).all()


def test_cauchy_schwarz_bounds_the_exact_deviations(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form for large calls is above the sum, and within a factor 2 on normal data."""
    inputs, operation, parts = call(1, 2, 1, 6, 40, 16, 8)
    ((_, rows),) = attention_rows(inputs, operation, parts)
    weights = [rows.p, rows.p * np.linspace(0, 1, rows.n)]
    exact = deviations.deviations(rows, weights)
    monkeypatch.setattr(deviations, "EXACT_LIMIT", 0)
    quick = deviations.deviations(rows, weights)
    for a, b in zip(exact.sums, quick.sums, strict=True):
        assert (a <= b * (1 + 1e-12)).all()
        assert (b <= 2 * a).all()
    assert (exact.hull <= quick.hull).all()


def test_blocks_of_rows_do_not_change_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting a call into blocks is a matter of memory only."""
    found = call(2, 4, 2, 6, 40, 16, 8)
    whole = limit(found)
    monkeypatch.setattr("verify.bounds.folding.BLOCK", 100)
    cut = limit(found)
    np.testing.assert_allclose(cut.total, whole.total, rtol=1e-12)
    assert cut.lse is not None
    assert whole.lse is not None
    np.testing.assert_allclose(cut.lse, whole.lse, rtol=1e-12)


def test_a_bound_never_receives_an_output() -> None:
    """Blindness by signature: operation, inputs, decomposition, models, probability."""
    allowed = {"operation", "inputs", "decomposition", "models", "probability"}
    for function in (bound, attention_bound, bounds.softmax_bound):
        assert set(inspect.signature(function).parameters) <= allowed


def test_lse_bound_of_a_flat_row_is_close_to_its_roundings() -> None:
    """All scores 0: LSE = ln n, and the bound is a few units of binary32."""
    zeros: Array = np.zeros((1, 1, 4, 16))
    tensor = Tensor.of(BINARY32, zeros)
    values = Tensor.of(BINARY32, np.ones((1, 1, 4, 16)))
    inputs = Inputs({"q": tensor, "k": tensor, "v": values})
    parts = decompose(zeros, zeros, values.values)
    found = bound(Operation("attention"), inputs, parts, of("fp32", block=None))
    assert found.lse is not None
    assert (found.lse <= 40 * 2.0**-24 * math.log(4)).all()
