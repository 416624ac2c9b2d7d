"""Gradients against central differences of the definition at 440 bits."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from references import exact
from references.enclosure import ANYTHING, FINITE, NAN, NON_FINITE, Array
from tests.references.gradient_cases import OPTIONS, central_differences, make, outside, rational

# The differences are wrong by about step^2 = 2^-200 and 2^-430 / step.
SLACK = Fraction(1, 2**180)


@pytest.mark.parametrize("name", OPTIONS)
def test_gradients_enclose_central_differences(name: str) -> None:
    """dq, dk, dv, dbias and dsinks under every option, GQA, d_v != d and empty rows included."""
    call = make(name)
    gradients = call.by(exact.attention_gradients)
    found = gradients.parts()
    assert set(found) == {"d" + tensor for tensor in call.tensors}
    for tensor in call.tensors:
        truth = found["d" + tensor]
        assert (truth.classes == FINITE).all()
        assert outside(truth, central_differences(call, tensor), SLACK) == 0
        assert (truth.radius <= 2.0**-103 * gradients.magnitude["d" + tensor]).all()


def test_gradient_test_can_fail() -> None:
    """A dq whose lower word moves by 2^-90 is outside in every element."""
    call = make("plain")
    truth = call.by(exact.attention_gradients).dq
    values = central_differences(call, "q")
    assert outside(replace(truth, lo=truth.lo + 2.0**-90), values, SLACK) == truth.hi.size


def test_gradients_with_extra_bits_lie_inside_those_without() -> None:
    """200 more bits: every value stays within the first radius."""
    call = make("everything")
    first = call.by(exact.attention_gradients).parts()
    second = call.by(exact.attention_gradients, extra_bits=200).parts()
    for name, truth in first.items():
        better = second[name]
        values = [
            Fraction(float(hi)) + Fraction(float(lo))
            for hi, lo in zip(better.hi.ravel(), better.lo.ravel(), strict=True)
        ]
        assert outside(truth, values, Fraction(1, 2**1000)) == 0


# --- special values ------------------------------------------------------------------------------


def _classes(**changes: tuple[tuple[int, ...], float]) -> dict[str, Array]:
    """Classes of a causal call with 3 queries and 4 keys (the first query sees keys 0 and 1)."""
    call = make("causal")
    tensors = {**{name: x.copy() for name, x in call.tensors.items()}, "do": call.do.copy()}
    for name, (place, value) in changes.items():
        tensors[name][place] = value
    do = tensors.pop("do")
    found = replace(call, tensors=tensors, do=do).by(exact.attention_gradients)
    return {name: part.classes for name, part in found.parts().items()}


def test_nan_in_a_query_shows_in_its_row_and_in_the_keys_that_it_sees() -> None:
    """Query 0 of head 0 sees keys 0 and 1 only."""
    found = _classes(q=((0, 0, 0, 1), np.nan))
    assert (found["dq"][0, 0, 0] == NAN).all()
    assert (found["dq"][0, 0, 1:] == FINITE).all()
    for name in ("dk", "dv"):
        assert (found[name][0, 0, :2] == NAN).all()
        assert (found[name][0, 0, 2:] == FINITE).all()
    assert (found["dq"][0, 1] == FINITE).all()


def test_nan_in_a_key_that_a_row_does_not_see_leaves_the_row_alone() -> None:
    """Key 3 is seen by query 2 only; dq of the others stays, dk of all visible keys shows it."""
    found = _classes(k=((0, 0, 3, 0), np.nan))
    assert (found["dq"][0, :, :2] == FINITE).all()
    assert (found["dq"][0, :, 2] == NAN).all()
    assert (found["dk"][0] == NAN).all()


def test_nan_in_upstream_shows_in_its_column_of_dv() -> None:
    """dO of query 0: NaN in dS of the row, in dV only where the column is that of the NaN."""
    found = _classes(do=((0, 1, 0, 1), np.nan))
    assert (found["dq"][0, 1, 0] == NAN).all()
    assert (found["dk"][0, 0, :2] == NAN).all()
    assert (found["dv"][0, 0, :2, 1] == NAN).all()
    assert (found["dv"][0, 0, :, 0] == FINITE).all()


def test_infinity_in_a_value_must_show_and_leaves_dv_alone() -> None:
    """dP is infinite: some infinity or NaN in dq, dk; P and dV do not depend on V."""
    found = _classes(v=((0, 0, 3, 0), np.inf))
    assert (found["dq"][0, :, 2] == NON_FINITE).all()
    assert (found["dk"][0] == NON_FINITE).all()
    assert (found["dv"] == FINITE).all()


def test_infinite_score_is_no_place_to_differentiate() -> None:
    """Nothing is specified in the row, and the radius says so."""
    call = make("causal")
    call.tensors["q"][0, 0, 0, 0] = np.inf
    found = call.by(exact.attention_gradients)
    assert (found.dq.classes[0, 0, 0] == ANYTHING).all()
    assert np.isinf(found.dq.radius[0, 0, 0]).all()
    assert (found.dq.classes[0, 0, 1:] == FINITE).all()


def test_removed_keys_may_hold_anything() -> None:
    """NaN in the k and v of a key that the mask removes: the gradients keep their bits."""
    call = make("mask")
    mask = np.array([True, False, True, True])
    call = replace(call, options={"mask": mask})
    expected = call.by(exact.attention_gradients)
    for name in "kv":
        call.tensors[name][:, :, 1] = np.nan
    found = call.by(exact.attention_gradients)
    for name, part in found.parts().items():
        assert np.array_equal(part.hi, expected.parts()[name].hi)
        assert (part.classes == FINITE).all()
    assert (found.dk.hi[:, :, 1] == 0).all()


# --- softmax and log_softmax ---------------------------------------------------------------------

X = np.array([[0.5, -3.0, 2.0, 2.0], [700.0, 0.0, -700.0, 1.0], [0.0, 0.0, 0.0, 2.0**-40]])
DY = np.array([[1.0, -2.0, 0.5, 3.0], [1.0, 1.0, 1.0, 1.0], [0.0, 2.0**80, -(2.0**80), 1.0]])


def _softmax_differences(x: list[float], dy: list[float], log: bool) -> list[Fraction]:
    mp = mpmath.MPContext()
    mp.prec = 3000
    step = mp.ldexp(1, -200)

    def value(moved: list[Any]) -> Any:
        weights = [mp.exp(z) for z in moved]
        total = sum(weights)
        parts = [mp.log(w / total) if log else w / total for w in weights]
        return sum(p * g for p, g in zip(parts, dy, strict=True))

    found = []
    for i in range(len(x)):
        ends = [
            value([mp.mpf(z) + sign * step * (i == j) for j, z in enumerate(x)]) for sign in (1, -1)
        ]
        found.append(rational((ends[0] - ends[1]) / (2 * step)))
    return found


@pytest.mark.parametrize("log", [False, True], ids=["softmax", "log_softmax"])
def test_softmax_gradients_enclose_central_differences(log: bool) -> None:
    """Rows with ties, wide scores and cancelling dy."""
    function = exact.log_softmax_gradient if log else exact.softmax_gradient
    truth = function(X, DY)
    for i in range(len(X)):
        values = _softmax_differences(X[i].tolist(), DY[i].tolist(), log)
        assert outside(truth[i], values, Fraction(1, 2**300)) == 0
    assert (truth.radius <= 2.0**-100 * (np.abs(DY) + np.abs(DY).sum(1, keepdims=True))).all()


def test_softmax_gradients_of_special_rows() -> None:
    """-inf has y = 0; NaN shows; +inf is no place to differentiate."""
    x = np.array([[0.0, -np.inf, 1.0], [np.nan, 0, 0], [np.inf, 0, 0], [-np.inf] * 3, [0.0, 1, 2]])
    dy = np.ones((5, 3))
    dy[4, 1] = np.nan
    truth = exact.softmax_gradient(x, dy)
    assert truth.classes.tolist()[0] == [FINITE] * 3
    assert truth.hi[0, 1] == truth.radius[0, 1] == 0
    assert truth.classes.tolist()[1:] == [[NAN] * 3, [ANYTHING] * 3, [NAN] * 3, [NAN] * 3]
    log = exact.log_softmax_gradient(x, dy)
    assert log.hi[0, 1] == 1
    assert log.classes.tolist() == truth.classes.tolist()
