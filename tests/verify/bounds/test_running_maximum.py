"""Flags O5 and O7 of tiled kernels: what is met before the maximum weighs as much as it can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from references.decompose import decompose
from verify.arithmetic import ArithmeticModel, Chain
from verify.bounds import Bound, bound
from verify.case import Inputs, Tensor
from verify.formats import BINARY16
from verify.operation import Operation

TILED = ArithmeticModel(input="fp16", output="fp16", p_format="fp16", block=64)
SHORT_SUM = replace(TILED, row_sum=Chain("fp16"))
SHORT_OUTPUT = replace(TILED, pv=Chain("fp16"))


def _bound(model: ArithmeticModel, n: int, value: float) -> Bound:
    """Scores -20 and one 0, which comes last; V is `value` but for the last key, where it is 1."""
    q, k, v = np.zeros((1, 1, 1, 16)), np.zeros((1, 1, n, 16)), np.full((1, 1, n, 4), value)
    q[..., 0], k[..., 0] = 4.0, -20.0
    k[..., -1, 0], v[..., -1, :] = 0.0, 1.0
    tensors = {name: Tensor.of(BINARY16, x) for name, x in {"q": q, "k": k, "v": v}.items()}
    operation = Operation("attention")
    return bound(operation, Inputs(tensors), decompose(q, k, v), model)


@pytest.mark.parametrize(
    ("model", "n", "value", "flag"),
    [(SHORT_SUM, 70_000, 1.0, "O5"), (SHORT_OUTPUT, 128, 1024.0, "O7")],
    ids=["row sum", "output"],
)
def test_sum_that_overflows_before_the_maximum_is_met_is_flagged(
    model: ArithmeticModel, n: int, value: float, flag: str
) -> None:
    """65,520 ones of an early tile, or 128 values of 1024, exceed binary16; the final sums do not.

    With a single block every term is relative to the final maximum, and nothing is flagged. The
    parts of split-KV have maxima of their own, like tiles.
    """
    assert flag in _bound(model, n, value).flag_reasons
    assert flag not in _bound(replace(model, block=None), n, value).flag_reasons
    assert flag in _bound(replace(model, block=None, splits=2), n, value).flag_reasons


def test_sums_that_fit_at_any_time_are_not_flagged() -> None:
    """The same shapes with room to spare: the flag is not simply always up."""
    assert not _bound(SHORT_SUM, 2_000, 1.0).flag_reasons
    assert not _bound(SHORT_OUTPUT, 128, 256.0).flag_reasons
    assert not _bound(TILED, 70_000, 1024.0).flag_reasons
