"""Cross-entropy from logits: the bound of log_softmax at the target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.bounds.statement import Bound


def cross_entropy_bound(log_softmax: Bound, target: NDArray[np.int64]) -> Bound:
    """
    The bound of -log_softmax(x)_t of each row.

    Shapes      log_softmax: the bound of log_softmax(x), (rows, n); target, total: (rows,).
    Definition  loss_i = LSE_i - x_it.
    Guarantee   a kernel that computes y = log_softmax(x)_t as its model declares, or LSE - x_t
                where the model allows `log_softmax = 'lse'`, and negates it: |loss_hat - loss| =
                |y_hat - y|, because a change of sign is exact.
    Requires    0 <= target < n; no class is ignored, no weights, no smoothing.
    Special     as log_softmax.
    Source      docs/theory/bounds.md, section 7.
    """
    rows = np.arange(len(target))

    def at(x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(x[rows, target])

    return replace(
        log_softmax,
        total=at(log_softmax.total),
        probable=at(log_softmax.probable),
        flagged=at(log_softmax.flagged),
        flag_reasons={name: at(flag) for name, flag in log_softmax.flag_reasons.items()},
        parts={name: at(part) for name, part in log_softmax.parts.items()},
    )
