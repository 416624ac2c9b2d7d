"""Scores of captured q and k with the same bits everywhere: products added one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.case import Array

RSQRT_32 = 0.17677669529663687  # 1 / sqrt(32), rounded


def scores(q: NDArray[Any], k: NDArray[Any]) -> Array:
    """Scores (n_q, n_k) of one head, in float64 with a fixed order of additions."""
    total = np.zeros((q.shape[-2], k.shape[-2]))
    for coordinate in range(q.shape[-1]):
        total = total + np.outer(q[:, coordinate].astype(np.float64), k[:, coordinate])
    return total * RSQRT_32
