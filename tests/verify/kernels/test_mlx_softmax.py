"""mlx's softmax under the adapter: the model that its source implies is not refuted."""

from __future__ import annotations

import pytest

from tests.verify.kernels.certified import refused
from verify.judge import Verdict
from verify.kernels import find

pytest.importorskip("mlx")
pytestmark = pytest.mark.third_party
NAMES = ["mlx-softmax", "mlx-softmax-precise"]


@pytest.mark.parametrize("name", NAMES)
def test_declared_arithmetic_is_not_refuted(name: str) -> None:
    """No case of the smoke profile contradicts it, in any format that the adapter claims."""
    for fmt in find(name)[1].formats:
        verdict, refuted = refused(name, fmt, None)
        assert verdict is Verdict.PASS, (fmt, refuted)
