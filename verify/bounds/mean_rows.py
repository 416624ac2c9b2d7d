"""Rows without keys of a kernel that declares `empty_row='mean'`: the bound of a mean of V."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from verify.bounds.statement import Array, Booleans, Bound
from verify.case import Inputs, Tensor
from verify.operation import Operation


def equal_scores(operation: Operation, inputs: Inputs) -> tuple[Operation, Inputs]:
    """The call whose scores are all 0 and whose keys are all visible: its output is the mean of V.

    A kernel that gives a removed key one finite score does, in a row where every key is removed,
    what it does in a row of that call: the shift is exact, every exponential that of 0.
    """
    zero = {n: Tensor(inputs[n].format, np.zeros_like(inputs[n].bits)) for n in "qk"}
    return Operation(operation.name, scale=operation.scale), Inputs({**zero, "v": inputs["v"]})


def with_mean_rows(
    limit: Bound,
    empty: Booleans,
    operation: Operation,
    inputs: Inputs,
    bound_of: Callable[[Operation, Inputs], Bound],
) -> Bound:
    """
    `limit` with the rows that see no key held to the bound of the mean of V instead of to 0.

    Shapes      empty (batch, heads, n_q); limit as in `Bound`.
    Definition  in those rows O is the mean of the row's n_k values.
    Guarantee   |output - O| <= total there, if the kernel gives every removed key of such a row the
                same finite score; all other rows as before.
    Requires    that no mask is added to scores so large that the sum is not that score.
    Source      docs/theory/bounds.md, section 6 (rows declared to give the mean).
    """
    if not empty.any():
        return limit
    mean = bound_of(*equal_scores(operation, inputs))
    at = empty[..., None]

    def chosen(new: Array, old: Array) -> Array:
        return np.where(at, new, old)

    return replace(
        limit,
        total=chosen(mean.total, limit.total),
        probable=chosen(mean.probable, limit.probable),
        flagged=np.where(at, mean.flagged, limit.flagged),
        parts={name: chosen(mean.parts[name], part) for name, part in limit.parts.items()},
    )
