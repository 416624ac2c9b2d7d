"""Gradients that are sums over what was shared: kv heads of a group, broadcast biases, sinks.

Every head, row and batch entry contributes a term of its own size, so that a lost, doubled or
overwritten term shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Case, Plan
from verify.families._values import with_upstream
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "gradient_reductions"
GROUPED = Axes(7, 19, d=16, batch=2, heads=6, kv_heads=2)
PLAIN = Axes(9, 17, d=16, batch=2, heads=3)
BIASES = {
    "full": (2, 3, 9, 17),
    "heads": (2, 1, 9, 17),
    "batch": (1, 3, 9, 17),
    "queries": (1, 1, 1, 17),
    "rows": (9, 17),
}


def _inputs(axes: Axes, kind: str, draws: Draws) -> Arrays:
    found = {"q": draws.normal(axes.q), "k": draws.normal(axes.k), "v": draws.normal(axes.v)}
    if kind in BIASES:
        found["bias"] = draws.normal(BIASES[kind])
    if kind == "sinks":
        found["sinks"] = draws.normal((axes.heads,))
    found = dict(with_upstream(found, axes, draws))
    # heads and queries of different weight
    weight = np.ldexp(1.0, np.arange(axes.heads) % 3)[:, None, None]
    found["do"] = found["do"] * weight
    return found


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention_backward":
        return
    for kind, axes in [("grouped", GROUPED), *((kind, PLAIN) for kind in (*BIASES, "sinks"))]:
        extras = ("bias",) if kind in BIASES else ("sinks",) if kind == "sinks" else ()
        yield plan.attention(
            NAME,
            kind,
            axes,
            partial(_inputs, axes, kind),
            operation=Operation(plan.operation),
            extras=extras,
            smoke=kind in ("grouped", "queries", "sinks"),
        )
    axes = Axes(4, 33, d=16, heads=8, kv_heads=1)
    causal = Operation(plan.operation, causal=True)
    yield plan.attention(NAME, "causal", axes, partial(_inputs, axes, "causal"), operation=causal)


FAMILY = Family(
    name=NAME,
    hypothesis="A shared tensor's gradient is that of one of its users, or counts one twice.",
    effect="Grouped-query models and position biases learn from a part of their heads.",
    source="Ainslie et al.: GQA, arXiv 2305.13245, 2023; PyTorch's sum_to_size semantics of "
    "broadcast gradients.",
    cases=_cases,
    direction="backward",
)
