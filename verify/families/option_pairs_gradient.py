"""Gradients with each option beside each other one, and with each where heads share keys.

Every query sees the key of its own place, so that no row is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _options
from verify.families._values import with_upstream
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "option_pairs_gradient"
PLAIN = Axes(20, 20, d=16, heads=2)
GROUPED = Axes(20, 20, d=16, heads=4, kv_heads=2)


def _inputs(axes: Axes, extras: tuple[str, ...], draws: Draws) -> Arrays:
    found: dict[str, Array | Any] = {
        "q": 2 * draws.normal(axes.q),
        "k": draws.normal(axes.k),
        "v": draws.normal(axes.v),
    }
    if "mask" in extras:
        found["mask"] = (draws.integers(0, 2, axes.scores) == 1) | np.eye(axes.n_q, dtype=np.bool_)
    if "bias" in extras:
        found["bias"] = draws.normal(axes.scores)
    if "sinks" in extras:
        found["sinks"] = 1 + draws.normal((axes.heads,))
    return with_upstream(found, axes, draws)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention_backward":
        return
    pairs = [(pair, PLAIN) for pair in combinations(_options.OPTIONS, 2)]
    for names, axes in [*pairs, *(((name,), GROUPED) for name in _options.OPTIONS)]:
        extras = _options.extras(names)
        yield plan.attention(
            NAME,
            "-".join(names),
            axes,
            partial(_inputs, axes, extras),
            operation=Operation(plan.operation, **_options.settings(names, axes.d)),
            extras=extras,
            smoke=names in (("causal", "softcap"), ("causal",)),
        )


FAMILY = Family(
    name=NAME,
    hypothesis="The backward pass forgets an option beside another one, or where heads share keys.",
    effect="Models that combine a soft cap, a window or sinks train on gradients of another "
    "function.",
    source="The forward pass has the property option_has_effect; Dao-AILab/flash-attention takes "
    "softcap, window and causal in one backward kernel.",
    cases=_cases,
    direction="backward",
)
