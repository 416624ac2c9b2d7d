"""Values V that show a row of probabilities in the output, and ordinary q, k beside them."""

from __future__ import annotations

import numpy as np

from verify.case import Array, Arrays, Axes
from verify.integers import Draws


def with_ones(draws: Draws, axes: Axes) -> Array:
    """Standard normal columns; the first is all ones, whose output shows the row-sum defect."""
    v = draws.normal(axes.v)
    v[..., 0] = 1.0
    return v


def normal_qkv(axes: Axes, draws: Draws) -> Arrays:
    """Standard normal q and k, and `with_ones` for v."""
    return {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": with_ones(draws, axes)}


def identity(axes: Axes) -> Array:
    """One-hot columns, so that output column c is the sum of p over keys j with j mod d_v = c."""
    v = np.arange(axes.n_k)[:, None] % axes.d_v == np.arange(axes.d_v)
    return np.asarray(np.broadcast_to(v, axes.v), np.float64)


def signs(axes: Axes, size: float = 1.0) -> Array:
    """+size and -size in turn along the keys."""
    column = np.where(np.arange(axes.n_k) % 2 == 0, size, -size)[:, None]
    return np.asarray(np.broadcast_to(column, axes.v), np.float64)


def with_upstream(inputs: Arrays, axes: Axes, draws: Draws) -> Arrays:
    """The inputs with a gradient from above: standard normal, with ones in the first column."""
    do = draws.normal((axes.batch, axes.heads, axes.n_q, axes.d_v))
    do[..., 0] = 1.0
    return {**inputs, "do": do}
