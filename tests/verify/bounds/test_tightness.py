"""How tight the bounds are: attained by worst-case arithmetic, and close to earlier figures."""

from __future__ import annotations

import numpy as np
import pytest

from references.decompose import Decomposition
from tests.verify.bounds.inputs import problem
from tests.verify.bounds.machine import Array
from tests.verify.bounds.models import CONTRACTS, EAGER, of
from tests.verify.bounds.test_attention_bounds import (
    LARGE,
    MIDDLE,
    SMALL,
    declared,
    inputs_of,
    judge,
)
from verify.arithmetic import ArithmeticModel
from verify.bounds import bound
from verify.bounds.folding import attention_rows
from verify.bounds.products import _accumulator, _p_rounding
from verify.bounds.row_sum import row_sum_error
from verify.bounds.variants import Shared
from verify.case import Inputs
from verify.formats import FORMATS
from verify.operation import Operation

Case = tuple[Inputs, Operation, Decomposition]
ATTAINED = {
    "fp32": of("fp32", block=None),
    "bf16 flash": of("bf16"),
    "fp16 flash": of("fp16"),
    "fp16 stored scores": of("fp16", stored_scores="fp16", **EAGER),
}


def worst_output(case: Case, model: ArithmeticModel) -> tuple[Array, Array]:
    """Every stage pushed to its own limit, in the direction that moves the output most."""
    inputs, operation, parts = case
    ((_, rows),) = attention_rows(inputs, operation, parts)
    (variant,) = Shared(rows, [model])
    sums = row_sum_error(rows, model, variant.exps, variant.weights)
    kappa = _accumulator(rows, variant)[0].kappa[0]
    rounding, log_e = _p_rounding(model, variant.weights), variant.exps.log_e[0]
    p, theta, output, v = rows.p[0], variant.exps.theta[0], rows.output[0], rows.values[0]
    found = np.zeros(output.shape)
    last = FORMATS[model.output].u
    for c in range(v.shape[1]):
        away = np.where(output[:, c] >= 0, 1.0, -1.0)[:, None]
        side = np.sign(v[None, :, c] - output[:, c : c + 1]) * away
        e = p * np.exp(side * (theta + log_e))
        stored = e * (1 + rounding * np.sign(v[None, :, c]) * away)
        product = (stored * v[None, :, c]).sum(axis=1, keepdims=True)
        product += away * kappa * (stored * np.abs(v[None, :, c])).sum(axis=1, keepdims=True)
        total = e.sum(axis=1, keepdims=True)
        value = product / total * (1 + sums.factor[0])
        found[:, c] = (value * (1 + last * np.sign(value) * away))[:, 0]
    return found, np.asarray(bound(operation, inputs, parts, model).total[0, 0])


@pytest.mark.parametrize("family", ["normal", "sharp", "one_sign", "near_ties", "values_cancel"])
@pytest.mark.parametrize("name", ATTAINED)
def test_worst_case_arithmetic_attains_the_bound(name: str, family: str) -> None:
    """The stages are combined without slack: 0.99 of the bound is reached, and never exceeded."""
    model = ATTAINED[name]
    case = inputs_of(problem(family, (3, 128, 64, 6), model.input), model.input)
    output, limit = worst_output(case, model)
    ratio = np.abs(output - case[2].output[0, 0]) / limit
    assert ratio.max() <= 1
    assert np.median(ratio) >= 0.99


def median_ratios(model: ArithmeticModel, shape: tuple[int, int, int, int]) -> tuple[float, float]:
    """Median bound / error on normal data, three seeds: for any and for the declared order."""
    ratios: dict[bool, list[Array]] = {True: [], False: []}
    for seed in range(3):
        p = problem("normal", shape, model.input, seed)
        for models, kept in ((model, True), (declared(model), False)):
            found = judge(p, model, models, seed)
            there = found.error > 0
            ratios[kept].append(found.bound.total[there] / found.error[there])
    any_order, sequential = (float(np.median(np.concatenate(ratios[k]))) for k in (True, False))
    return any_order, sequential


@pytest.mark.parametrize("name", [n for n, (_, figures) in CONTRACTS.items() if figures])
def test_bounds_are_as_tight_as_the_figures(name: str) -> None:
    """Median bound / error, n = 512 and d = 128: at most twice the published figure."""
    model, figures = CONTRACTS[name]
    assert figures is not None
    found = median_ratios(model, LARGE)
    assert found[0] <= 2 * figures[0]
    assert found[1] <= 2 * figures[1]
    assert found[0] >= figures[0] / 2, "much tighter than known: is a stage missing?"


@pytest.mark.parametrize(("shape", "figure"), [(SMALL, 16), (MIDDLE, 21), (LARGE, 38)])
def test_tightness_by_shape(shape: tuple[int, int, int, int], figure: float) -> None:
    """Mixed formats: the median grows with the square root of the length, as known."""
    names = ("bf16_flash", "bf16_h100", "bf16_eager", "fp16_flash", "fp16_a100")
    found = [median_ratios(CONTRACTS[n][0], shape)[0] for n in names]
    assert figure / 2 <= np.median(found) <= 2 * figure


@pytest.mark.parametrize("name", ["bf16_flash", "fp16_flash", "bf16_eager", "fp32_all"])
def test_probable_bound_holds_on_normal_data(name: str) -> None:
    """Theorem 2 where its assumption is plausible: below the proved bound, and not beaten."""
    model, figures = CONTRACTS[name]
    assert figures is not None
    found = judge(problem("normal", LARGE, model.input), model, model)
    assert (found.bound.probable <= found.bound.total).all()
    assert (found.error <= found.bound.probable).all()
    there = found.error > 0
    assert np.median(found.bound.probable[there] / found.error[there]) <= 2 * figures[2]
