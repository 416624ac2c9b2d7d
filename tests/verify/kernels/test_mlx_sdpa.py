"""mlx's attention under the adapter: options are passed on rightly, and the model holds."""

from __future__ import annotations

import pytest

from tests.verify.kernels.certified import refused
from tests.verify.kernels.options import misread
from verify.judge import Verdict

pytest.importorskip("mlx")
pytestmark = pytest.mark.third_party
NAMES = ["mlx-sdpa"]


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", NAMES)
def test_options_mean_what_the_definition_says(name: str, fmt: str) -> None:
    """Scale, masks, corner, kv heads and shapes reach the library as they were meant."""
    assert not misread(name, fmt)


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", NAMES)
def test_declared_arithmetic_is_not_refuted(name: str, fmt: str) -> None:
    """No case of the smoke profile contradicts the model that the library's source implies."""
    verdict, refuted = refused(name, fmt)
    assert verdict is Verdict.PASS, refuted


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
def test_sizes_and_options_that_are_drawn_are_not_refuted(fmt: str) -> None:
    """A bias joined with causal made rows of -inf, NaN in place of the declared mean."""
    verdict, refuted = refused("mlx-sdpa", fmt, ("drawn_shapes",), "standard")
    assert verdict is Verdict.PASS, refuted
