"""Grades: every broken kernel is refuted at the contracts that it breaks, no conforming one is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from references.enclosure import FINITE, Enclosure
from tests.verify.bounds.inputs import probes, problem
from tests.verify.bounds.machine import Array
from tests.verify.bounds.models import EAGER, FUSED, of
from tests.verify.bounds.simulator import Problem, simulate
from tests.verify.bounds.test_attention_bounds import against, inputs_of
from verify import grades
from verify.arithmetic import H100, ArithmeticModel, Chain
from verify.bounds import Bound, bound
from verify.formats import FORMATS

WORDS = ("normal", "sharp", "near_ties", "constant_values", "stairs_up", "huge_offset", "one_sign")
LETTERS = ["CR", "F", "A", "B", "B-", "C", "D"]


@cache
def data(fmt: str) -> dict[str, Problem]:
    found = {name: problem(name, (2, 256, 128, 8), fmt) for name in WORDS}
    return found | probes(fmt, 512, 128, 8)


@cache
def _case(fmt: str, name: str):  # type: ignore[no-untyped-def]
    return inputs_of(data(fmt)[name], fmt)


@cache
def _limit(fmt: str, name: str, letter: str) -> Bound:
    (contract,) = (c for c in grades.contracts(FORMATS[fmt]) if c.letter == letter)
    assert contract.models is not None
    inputs, operation, parts = _case(fmt, name)
    return bound(operation, inputs, parts, contract.models)


def refuted(fmt: str, kernel: ArithmeticModel | None, letter: str) -> float:
    """Largest error / bound over the data; None: the correctly rounded output."""
    worst = 0.0
    for name, p in data(fmt).items():
        parts = _case(fmt, name)[2]
        if kernel is None:
            output, lse = FORMATS[fmt].round(parts.output), parts.lse
        else:
            output, lse = simulate(p, kernel)
        found = against(parts, output, lse, _limit(fmt, name, letter))
        worst = max(worst, float(found.ratios.max(initial=0.0)))
    return worst


def _kernels(fmt: str) -> dict[str, tuple[ArithmeticModel | None, str]]:
    """Name -> (kernel, the strictest model contract that must not be refuted)."""
    chain = Chain(fmt)
    everything = of(
        fmt, qk=chain, pv=chain, row_sum=chain, scale_format=fmt, softmax_format=fmt, **EAGER
    )
    tensor_cores = of(fmt, qk=H100, pv=H100, lazy=8.0, **FUSED)
    return {
        "correctly rounded": (None, "A"),
        "P in binary32": (of(fmt, p_format="fp32"), "A"),
        "flash": (of(fmt), "B"),
        "flash on tensor cores": (tensor_cores, "B-"),
        "stored scores": (of(fmt, stored_scores=fmt, **EAGER), "C"),
        "PV accumulator": (of(fmt, pv=chain), "D"),
        "QK accumulator": (of(fmt, qk=chain), "D"),
        "row sum": (of(fmt, row_sum=chain), "D"),
        "everything": (everything, "D"),
        "scale": (of(fmt, scale_format=fmt), "C"),
        "unshifted": (of(fmt, shift=False, p_format="fp32"), "U"),
    }


@pytest.mark.parametrize("fmt", ["fp16", "bf16"])
@pytest.mark.parametrize("name", _kernels("fp16"))
def test_kernel_is_refuted_down_to_its_own_contract(name: str, fmt: str) -> None:
    """Conforming: not refuted at its contract. Broken: refuted at the stricter ones."""
    kernel, own = _kernels(fmt)[name]
    held = LETTERS[LETTERS.index(own) :] if own != "U" else []
    for letter in held:
        assert refuted(fmt, kernel, letter) <= 1, letter
    stricter = [x for x in LETTERS[2:] if x not in held]
    if own == "B-":
        stricter.remove("B")  # tensor cores of this size are inside B as well
    for letter in stricter:
        assert refuted(fmt, kernel, letter) > 1, letter


def test_exponential_of_ten_bits_is_refuted_at_a_only() -> None:
    """An fp16 exponential: outside A, inside B's rounding of P."""
    kernel = of("fp16", p_format="fp32", exp_relative=2.0**-10)
    assert refuted("fp16", kernel, "A") > 1
    assert refuted("fp16", kernel, "B") <= 1


def test_binary32_grades_tell_operands_apart() -> None:
    """A32 refutes TF32 operands, T refutes bf16 operands; each holds for its own."""
    names = ("normal", "sharp", "large_scores", "products_cancel")
    kernels = {
        "A32": of("fp32"),
        "T": of("fp32", convert=("tf32", "RN")),
        "B16": of("fp32", convert=("bf16", "RN")),
    }
    contracts = {c.letter: c.models for c in grades.contracts(FORMATS["fp32"])}
    order = list(kernels)
    for own, kernel in kernels.items():
        for letter in order:
            models = contracts[letter]
            assert models is not None
            worst = 0.0
            for name in names:
                p = problem(name, (3, 64, 64, 8), "fp32")
                inputs, operation, parts = inputs_of(p, "fp32")
                limit = bound(operation, inputs, parts, models)
                found = against(parts, *simulate(p, kernel), limit)
                worst = max(worst, float(found.ratios.max(initial=0.0)))
            assert (worst <= 1) == (order.index(letter) >= order.index(own)), (own, letter)


@pytest.mark.parametrize(
    ("fmt", "letters"),
    [
        ("fp16", LETTERS),
        ("bf16", LETTERS),
        ("fp32", ["CR", "F", "A32", "T", "B16"]),
        ("e4m3", ["CR", "F", "E", "E-"]),
    ],
)
def test_table_of_contracts(fmt: str, letters: list[str]) -> None:
    """One row a letter, strictest first, each with its meaning in words."""
    found = grades.contracts(FORMATS[fmt])
    assert letters == [c.letter for c in found]
    assert all(c.meaning for c in found)
    assert all((c.models is None) == (c.letter in ("CR", "F")) for c in found)


def _truth(hi: Array, radius: float = 0.0) -> Enclosure:
    shape = hi.shape
    return Enclosure(
        hi, np.zeros(shape), np.full(shape, radius), np.full(shape, FINITE, np.uint8),
        np.zeros(shape[:-1], np.uint8),
    )  # fmt: skip


def test_limits_of_cr_and_f_on_known_values() -> None:
    """1 + u/2: CR allows u/2 and refutes the next neighbour; F allows less than an ulp."""
    fmt = FORMATS["fp16"]
    exact, faithful = grades.contracts(fmt)[:2]
    truth = _truth(np.array([1 + fmt.u / 2, 1.0, 3.0]))
    cr, f = grades.limits(exact, truth, fmt), grades.limits(faithful, truth, fmt)
    assert cr is not None
    assert f is not None
    np.testing.assert_allclose(cr[0], [fmt.u / 2, 0.0, 0.0], atol=1e-25)
    assert (f[0] < fmt.ulp(truth.hi)).all()
    assert (f[0] > 0.999 * fmt.ulp(truth.hi)).all()


def test_limits_leave_an_undecided_rounding_alone() -> None:
    """Where the enclosure holds a midpoint, CR refutes nothing."""
    fmt = FORMATS["fp16"]
    limit = grades.limits(grades.contracts(fmt)[0], _truth(np.array([1 + fmt.u]), 1e-9), fmt)
    assert limit is not None
    assert np.isinf(limit[0]).all()


def test_limits_of_a_model_are_its_bound() -> None:
    """Only CR and F have limits of their own."""
    contract = grades.contracts(FORMATS["bf16"])[2]
    assert grades.limits(contract, _truth(np.ones(1)), FORMATS["bf16"]) is None
    assert replace(contract, models=None).letter == contract.letter
