"""Fresh inputs: never twice the same, always the same for the same seed, standard normal."""

from __future__ import annotations

import numpy as np
import pytest

from verify.bench.inputs import DRAWN, FreshInputs
from verify.bench.shape import Shape
from verify.formats import format_named


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
def test_no_round_has_the_inputs_of_another_and_a_seed_gives_them_back(fmt: str) -> None:
    shape = Shape.parse("prefill:1x2x16x8")
    first = FreshInputs(shape, format_named(fmt), 7)
    digests = [first.round(i).digest for i in range(20)]
    assert len(set(digests)) == 20
    assert FreshInputs(shape, format_named(fmt), 7).round(3).digest == digests[3]
    assert FreshInputs(shape, format_named(fmt), 8).round(3).digest != digests[3]


def test_inputs_are_standard_normal_also_where_they_repeat() -> None:
    """Mean 0 and variance 1 within six standard deviations of the estimates; all finite."""
    shape = Shape.parse(f"rows:64x{DRAWN // 32}")
    x = FreshInputs(shape, format_named("fp32"), 1).round(5)["x"].values
    assert x.shape == (64, DRAWN // 32)
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 6 / np.sqrt(x.size)
    assert abs(x.var() - 1) < 6 * np.sqrt(2 / DRAWN)


def test_every_timed_operation_has_shapes_and_a_reference() -> None:
    """What `publish --throughput` asks for: an operation without shapes once ended it with 70."""
    from verify.bench.ladder import shapes
    from verify.operation import OPERATIONS, TIMED

    assert set(TIMED) <= set(OPERATIONS)
    for operation in TIMED:
        assert shapes(operation, "cpu")
