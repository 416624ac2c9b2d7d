"""Softmax, log-softmax and log-sum-exp against simulations of their models, and against torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from references.decompose import decompose_softmax
from tests.verify.bounds.machine import Array, rounded
from tests.verify.bounds.models import of
from tests.verify.bounds.simulator import simulate_softmax
from verify.arithmetic import ArithmeticModel, Chain
from verify.bounds import Bound, Models, bound
from verify.case import Inputs, Tensor
from verify.formats import FORMATS
from verify.operation import Operation, OperationName
from verify.presets import preset

NAMES: tuple[OperationName, ...] = ("softmax", "log_softmax", "logsumexp")
KINDS = ("normal", "wide", "ties", "offset", "two levels", "negative", "one", "sparse")


def rows(kind: str, n: int, fmt: str, seed: int = 0) -> Array:
    """(24, n) entries of a format."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((24, n))
    if kind == "wide":
        x = -rng.uniform(0, 9 if fmt == "fp16" else 100, x.shape)
    if kind == "ties":
        x = np.round(x)
    if kind == "offset":
        x = x + 1000
    if kind == "two levels":
        x = np.where(rng.random(x.shape) < 0.5, 0.0, -6.0)
    if kind == "negative":
        x = 100 * x - 5000
    if kind == "one":
        x = np.where(np.arange(n) == n // 2, 20.0, x)
    if kind == "sparse":
        x = np.where(rng.random(x.shape) < 0.3, -np.inf, x)
        x[:, 0] = 0.0
    return rounded(x, fmt)


def truth(name: OperationName, x: Array) -> Array:
    parts = decompose_softmax(x)
    if name == "softmax":
        return np.asarray(parts.p[0, 0])
    if name == "logsumexp":
        return np.asarray(parts.lse[0, 0])
    return np.asarray((x - parts.maximum[0, 0][:, None]) - np.log(parts.row_sum[0, 0])[:, None])


def limit(name: OperationName, x: Array, fmt: str, models: Models) -> Bound:
    inputs = Inputs({"x": Tensor.of(FORMATS[fmt], x)})
    return bound(Operation(name), inputs, decompose_softmax(x), models)


def ratios(name: OperationName, x: Array, fmt: str, output: Array, models: Models) -> Array:
    """error / bound of what is not flagged."""
    exact, found = truth(name, x), limit(name, x, fmt, models)
    kept = ~found.flagged
    output, exact, total = output[kept], exact[kept], found.total[kept]
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(output == exact, 0.0, np.abs(output - exact))
        error = np.where(np.isinf(exact), error, error - 2.0**-45 * np.abs(exact))
        ratio = np.where(error <= 0, 0.0, error / total)
    return np.where(np.isnan(ratio), np.inf, ratio)


def _low(fmt: str) -> ArithmeticModel:
    return of(fmt, block=None, softmax_format=fmt, row_sum=Chain(fmt))


def _models(fmt: str) -> dict[str, ArithmeticModel]:
    plain: dict[str, Any] = {"exp_ulps": 2.0}
    return {
        "one block": of(fmt, block=None, **plain),
        "online": of(fmt, block=16, **plain),
        "fma": of(fmt, block=16, exponential="fma", **plain),
        "pairwise": of(fmt, block=None, row_sum_order="pairwise"),
        "x - lse": of(fmt, block=None, log_softmax="lse"),
        "low precision": _low(fmt),
        "low precision, online": replace(_low(fmt), block=16),
        "unshifted": of(fmt, block=None, shift=False),
        "stored log": of(fmt, block=None, log_format=fmt, stored_row_sum=fmt),
        "truncating sum": of(fmt, row_sum=Chain("fp32", "RZ")),
        "flushing": of(fmt, block=16, flush_to_zero=True),
        "lazy": of(fmt, block=16, lazy=8.0),
    }


@pytest.mark.parametrize("fmt", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("kernel", _models("fp32"))
def test_bound_is_never_exceeded(kernel: str, fmt: str) -> None:
    """Every model on every kind of row, for all three operations."""
    model = _models(fmt)[kernel]
    for name in NAMES:
        for n in (1, 2, 17, 100):
            for kind in KINDS:
                x = rows(kind, n, fmt)
                output = simulate_softmax(name, x, model)
                worst = ratios(name, x, fmt, output, model).max(initial=0.0)
                assert worst <= 1, (name, n, kind)


@pytest.mark.parametrize("fmt", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_preset_contains_narrower_models(name: OperationName, fmt: str) -> None:
    """`single` is at least as wide as each single way to compute in binary32."""
    for n in (2, 17, 300):
        for kind in KINDS:
            x = rows(kind, n, fmt)
            wide = limit(name, x, fmt, preset("single", FORMATS[fmt])).total
            for kernel in ("one block", "online", "fma", "pairwise", "x - lse", "lazy"):
                narrow = limit(name, x, fmt, _models(fmt)[kernel]).total
                assert (narrow <= wide * (1 + 1e-12)).all(), (kernel, n, kind)


@pytest.mark.parametrize("fmt", ["fp32", "fp16", "bf16"])
def test_bound_is_tight_enough_to_be_approached(fmt: str) -> None:
    """All in one format, exp correctly rounded: the worst error is not far below the bound."""
    model = replace(_low(fmt), exp_ulps=0.5, log_ulps=0.5)
    for name in NAMES:
        worst = 0.0
        for n in (2, 10, 100):
            for kind in KINDS:
                x = rows(kind, n, fmt)
                output = simulate_softmax(name, x, model)
                worst = max(worst, float(ratios(name, x, fmt, output, model).max()))
        assert worst >= 0.3, name


def test_division_free_softmax_is_refuted() -> None:
    """exp(x - lse) with a rounded lse: the loss of accuracy at large entries is seen."""
    x = rows("offset", 100, "fp32")
    lse = simulate_softmax("logsumexp", x, of("fp32", block=None))
    output = rounded(np.exp(rounded(x - lse[:, None], "fp32")), "fp32")
    models = of("fp32", block=None, exp_ulps=2.0)
    assert ratios("softmax", x, "fp32", output, models).max() > 1


def test_naive_softmax_is_refuted_on_the_three_numbers() -> None:
    """[1000, 1001, 999] overflows without a shift; the bound of `single` is finite there."""
    x = np.array([[1000.0, 1001.0, 999.0]])
    output = np.full((1, 3), np.nan)
    found = limit("softmax", x, "fp32", preset("single", FORMATS["fp32"]))
    assert not found.flagged.any()
    assert (found.total < 1e-6).all()
    assert np.isinf(ratios("softmax", x, "fp32", output, preset("single", FORMATS["fp32"]))).all()


def test_missing_shift_is_flagged_only_where_declared() -> None:
    """O4 for a declared missing shift at 1000; nothing for a shifted kernel."""
    x = np.array([[1000.0, 1001.0, 999.0], [1.0, 2.0, 3.0]])
    found = limit("softmax", x, "fp32", of("fp32", block=None, shift=False))
    assert found.flag_reasons["O4"].tolist() == [[True] * 3, [False] * 3]
    assert np.isinf(found.total[0]).all()


def test_special_rows_are_flagged() -> None:
    """All -inf, NaN, +inf: nothing is promised; -inf beside numbers: an exact zero."""
    infinity = np.inf
    x = np.array([[-infinity, -infinity], [0.0, -infinity]])
    found = limit("softmax", x, "fp32", of("fp32"))
    assert found.flagged.tolist() == [[True, True], [False, False]]
    assert found.total[1, 1] == 0
    empty = limit("logsumexp", x, "fp32", of("fp32"))
    assert not empty.flagged.any()
    assert empty.total[0] == 0


@pytest.mark.parametrize("fmt", ["fp32", "fp16", "bf16"])
def test_torch_softmax_is_single(fmt: str) -> None:
    """torch.softmax computes in binary32 and rounds once, in every format."""
    torch = pytest.importorskip("torch")
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[fmt]
    models = preset("single", FORMATS[fmt])
    for n in (2, 17, 150):
        for kind in KINDS:
            x = rows(kind, n, fmt)
            output = torch.softmax(torch.tensor(x).to(dtype), -1).double().numpy()
            assert ratios("softmax", x, fmt, output, models).max() <= 1, (n, kind)


@pytest.mark.parametrize("fmt", ["fp16", "bf16"])
def test_torch_log_softmax_keeps_row_sum_and_logarithm_in_the_input_format(fmt: str) -> None:
    """On the CPU: refuted under `single`, inside once both formats are declared."""
    torch = pytest.importorskip("torch")
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[fmt]
    single = preset("single", FORMATS[fmt])
    stored = [replace(m, log_format=fmt, stored_row_sum=fmt) for m in single.variants]
    worst = 0.0
    for n in (2, 17, 300):
        for kind in KINDS:
            x = rows(kind, n, fmt)
            output = torch.log_softmax(torch.tensor(x).to(dtype), -1).double().numpy()
            worst = max(worst, float(ratios("log_softmax", x, fmt, output, single).max()))
            assert ratios("log_softmax", x, fmt, output, stored).max() <= 1, (n, kind)
    assert worst > 1
