"""The working precision chosen a priori is enough, can be refuted, and is safe across threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest

from references import exact
from references.enclosure import Array, Enclosure
from references.exact import attention as attention_function
from references.exact.precision import working_bits, working_precision
from tests.references.test_arb_agreement import _cases
from tests.references.test_exact_overlap import contains

MODULE = sys.modules[attention_function.__module__]
Recorded = dict[tuple[int, ...], tuple[Any, float]]

# Calls in which some part of the proof carries the load: large scores, softcap, sinks, many terms.
LOADED = ["plain", "plain_large_scores", "odd_d", "softcap", "softcap_bias_sinks_mask", "sinks",
          "huge_scores_bias", "near_ties", "values_cancel", "values_against_weights"]  # fmt: skip


@pytest.mark.parametrize("target_bits", [110, 310])
def test_working_bits_satisfy_the_inequality_of_the_proof(target_bits: int) -> None:
    """G 2^(1-w) <= 2^-t for S up to 2^e and any number of terms, tight to three bits."""
    for exponent in range(-20, 300, 7):
        for terms in [0, 1, 2, 3, 7, 8, 1000, 2**20]:
            bits = working_bits(exponent, terms, target_bits)
            g = 32 * (mpmath.mpf(2) ** exponent + terms + 1)
            assert g <= mpmath.mpf(2) ** (bits - 1 - target_bits)
            assert 8 * g >= mpmath.mpf(2) ** (bits - 1 - target_bits)


@pytest.mark.parametrize("name", LOADED)
def test_first_enclosure_contains_the_value_at_200_more_bits(name: str) -> None:
    """Raising the precision never contradicts what was claimed before."""
    q, k, v, options = _cases()[name]
    first = exact.attention(q, k, v, **options)
    second = exact.attention(q, k, v, **options, extra_bits=200)
    assert contains(first.output, second.output)
    assert contains(first.lse, second.lse)
    assert (second.output.radius <= first.output.radius).all()


def _record(monkeypatch: pytest.MonkeyPatch, name: str, extra_bits: int = 0) -> Recorded:
    """The numbers before they are cut to two words, and their a priori errors."""
    recorded: Recorded = {}

    def put(_: Enclosure, place: tuple[int, ...], x: Any, error: float, *__: int) -> None:
        recorded[place] = mpmath.mp.make_mpf(x._mpf_), error

    q, k, v, options = _cases()[name]
    with monkeypatch.context() as patch:
        patch.setattr(MODULE, "put", put)
        exact.attention(q, k, v, **options, extra_bits=extra_bits)
    return recorded


def _violations(rough: Recorded, fine: Recorded) -> int:
    with mpmath.workprec(2000):
        return sum(abs(x - fine[place][0]) > error for place, (x, error) in rough.items())


@pytest.mark.parametrize("name", LOADED)
def test_a_priori_error_bounds_the_observed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Before conversion to float64, the value at w bits is within 2^-t W (2^-t) of the truth."""
    rough, fine = _record(monkeypatch, name), _record(monkeypatch, name, extra_bits=200)
    assert rough.keys() == fine.keys() != set()
    assert _violations(rough, fine) == 0


def test_a_priori_error_is_violated_with_30_bits_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail: the precision is not generous by more than 30 bits."""
    fine = _record(monkeypatch, "plain_large_scores", extra_bits=200)

    def fewer(*arguments: int) -> int:
        return working_bits(*arguments) - 30

    monkeypatch.setattr(MODULE, "working_bits", fewer)
    assert _violations(_record(monkeypatch, "plain_large_scores"), fine) > 10


def test_global_precision_of_mpmath_plays_no_role() -> None:
    """The tier has a context of its own: mpmath.mp at 10 bits changes nothing, and stays at 10."""
    x = np.array([[0.1, 0.2, 0.3]])
    plain = exact.softmax(x)
    with mpmath.workprec(10):
        other = exact.softmax(x)
        assert mpmath.mp.prec == 10
    assert np.array_equal(plain.hi, other.hi)
    assert np.array_equal(plain.lo, other.lo)


def test_working_precision_is_given_back_after_an_error() -> None:
    """A failing computation leaves no trace in the context."""

    def fail() -> None:
        with working_precision(99):
            raise ZeroDivisionError

    with working_precision(77) as mp:
        with pytest.raises(ZeroDivisionError):
            fail()
        assert mp.prec == 77


def _in_threads(calls: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call) for call in calls]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)


def test_two_threads_with_different_precisions_do_not_disturb_each_other() -> None:
    """One thread at 110 bits, one whose need grows at each call: the bits found without threads."""
    x: Array = np.random.default_rng(0).standard_normal((12, 8)) * 30
    needs = {"low": [0] * 8, "rising": list(range(0, 4000, 500))}
    alone = {bits: exact.softmax(x, extra_bits=bits) for bits in {0, *needs["rising"]}}
    found: dict[str, list[Enclosure]] = {name: [] for name in needs}

    def work(name: str) -> None:
        found[name].extend(exact.softmax(x, extra_bits=bits) for bits in needs[name])

    _in_threads([partial(work, name) for name in needs])
    for name, enclosures in found.items():
        assert len(enclosures) == len(needs[name])
        for bits, enclosure in zip(needs[name], enclosures, strict=True):
            assert np.array_equal(enclosure.hi, alone[bits].hi)
            assert np.array_equal(enclosure.lo, alone[bits].lo)
            assert np.array_equal(enclosure.radius, alone[bits].radius)
