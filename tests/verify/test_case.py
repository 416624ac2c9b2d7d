"""Cases: what they need, what they are called, and that their bits are their identity."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from verify.case import Arrays, Axes, Case, Inputs, Plan, Profile, Tensor
from verify.family import Family
from verify.formats import BFLOAT16, BINARY16, BINARY32, E4M3
from verify.integers import Draws
from verify.operation import Operation

PLAN = Plan("attention", BINARY16)
DIGEST = "5fe9fe8f1cb929db542b4e46a01a8bd9824419b6d7f59da10cd4984db5ef7cef"


def _qkv(axes: Axes, draws: Draws) -> Arrays:
    return {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": draws.normal(axes.v)}


def _case(axes: Axes, operation: Operation | None = None, extras: tuple[str, ...] = ()) -> Case:
    return PLAN.attention("f", "", axes, partial(_qkv, axes), operation=operation, extras=extras)


@pytest.mark.parametrize(
    ("axes", "operation", "needs"),
    [
        (Axes(16, 16), None, set()),
        (Axes(32, 16), None, {"cross"}),
        (Axes(16, 17), None, {"cross", "ragged"}),
        (Axes(8, 8), None, {"ragged"}),
        (Axes(16, 16, heads=4, kv_heads=2), None, {"gqa"}),
        (Axes(16, 16, d_v=32), None, {"d_v"}),
        (Axes(16, 0), None, {"cross", "empty"}),
        (Axes(16, 16, batch=0), None, {"empty"}),
        (Axes(16, 16), Operation("attention", scale=0.5), {"scale"}),
        (Axes(16, 16), Operation("attention", causal=True), {"causal"}),
        (Axes(16, 16), Operation("attention", window=(0, 0)), {"window"}),
        (Axes(16, 16), Operation("attention", softcap=2.0), {"softcap"}),
    ],
)
def test_needs_name_exactly_what_a_case_uses(
    axes: Axes, operation: Operation | None, needs: set[str]
) -> None:
    assert _case(axes, operation).needs == needs


def test_needs_of_rows_are_about_their_length() -> None:
    plan = Plan("softmax", BINARY16)
    for shape, needs in (((3, 16), set()), ((16, 3), {"ragged"}), ((3, 0), {"empty"})):
        assert plan.rows("f", "", shape, _x).needs == needs


def _x(draws: Draws) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return draws.normal((3, 16))


def test_extras_are_needed_and_sizes_noted() -> None:
    case = _case(Axes(16, 48, d=16, batch=2, heads=4, kv_heads=2, d_v=8), extras=("mask", "bias"))
    assert {"mask", "bias"} < case.needs
    assert case.notes["n_k"] == 48
    assert case.notes["kv_heads"] == 2
    assert case.id == "f/fp16/16x48-d16-dv8-b2-h4-kv2"


def test_building_twice_gives_the_same_bits_and_other_seeds_give_others() -> None:
    case = _case(Axes(4, 5))
    other = replace(PLAN, seed=1).attention("f", "", Axes(4, 5), partial(_qkv, Axes(4, 5)))
    assert case.build().digest == case.build().digest
    assert case.build().digest != other.build().digest


def test_a_case_travels_to_another_process() -> None:
    case = _case(Axes(4, 5))
    assert pickle.loads(pickle.dumps(case)).build().digest == case.build().digest


def test_the_digest_sees_every_bit_the_shape_and_the_mask() -> None:
    x = np.arange(6.0).reshape(2, 3)
    base = Inputs({"x": Tensor.of(BINARY16, x)})
    flipped = Tensor(BINARY16, base["x"].bits ^ np.uint16(1))
    assert (
        len(
            {
                base.digest,
                Inputs({"x": flipped}).digest,
                Inputs({"x": Tensor.of(BINARY16, x.reshape(3, 2))}).digest,
                Inputs({"x": Tensor.of(BFLOAT16, x)}).digest,
                Inputs({"y": Tensor.of(BINARY16, x)}).digest,
                Inputs({"x": Tensor.of(BINARY16, x)}, np.ones((2, 3), np.bool_)).digest,
                Inputs({"x": Tensor.of(BINARY16, x)}, np.zeros((2, 3), np.bool_)).digest,
            }
        )
        == 7
    )


def test_the_digest_is_the_same_on_every_platform() -> None:
    inputs = Inputs.rounded(
        BINARY32, {"x": np.array([[0.1, -2.0]]), "mask": np.array([[True, False]])}
    )
    assert inputs.digest == DIGEST


def test_rounded_tensors_are_finite_and_keep_nan_and_infinity() -> None:
    values = np.array([1e6, -1e6, np.nan, np.inf, 1 + 2.0**-12])
    assert Tensor.rounded(BINARY16, values).values.tolist()[:2] == [65504.0, -65504.0]
    assert np.isnan(Tensor.rounded(BINARY16, values).values[2])
    assert Tensor.rounded(BINARY16, values).values.tolist()[3:] == [np.inf, 1.0]


def _three(plan: Plan) -> Iterator[Case]:
    axes = Axes(2, 2)
    recipe = partial(_qkv, axes)
    yield plan.attention("f", "sharp", axes, recipe, smoke=True)
    yield plan.attention("f", "usual", axes, recipe)
    yield plan.attention("f", "long", axes, recipe, extensive=True)


@pytest.mark.parametrize(
    ("profile", "names"),
    [
        ("smoke", ["sharp"]),
        ("standard", ["sharp", "usual"]),
        ("extensive", ["sharp", "usual", "long"]),
    ],
)
def test_a_profile_includes_the_ones_before_it(profile: Profile, names: list[str]) -> None:
    family = Family("f", "h", "e", "s", _three, seeds=1)
    cases = list(family.cases(replace(PLAN, profile=profile)))
    assert [case.name for case in cases] == [f"{name}-2x2-d64" for name in names]


def test_extensive_repeats_a_family_with_other_seeds_under_other_names() -> None:
    cases = list(Family("f", "h", "e", "s", _three).cases(replace(PLAN, profile="extensive")))
    assert len({case.id for case in cases}) == 9
    assert len({case.build().digest for case in cases}) == 9


def test_an_8_bit_format_leaves_out_what_it_cannot_hold() -> None:
    def cases(plan: Plan) -> Iterator[Case]:
        yield plan.attention("f", "fits", Axes(2, 2), partial(_qkv, Axes(2, 2)))
        yield plan.attention("f", "does-not", Axes(2, 2), _overflows)

    assert [c.name for c in Family("f", "h", "e", "s", cases).cases(Plan("attention", E4M3))] == [
        "fits-2x2-d64"
    ]


def _overflows(draws: Draws) -> Arrays:
    raise OverflowError("out of range")
