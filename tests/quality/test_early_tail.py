"""Right kernels that meet large values before the row maximum may overflow: never refuted for it.

A tile or a part of split-KV has a maximum of its own, to which its P are relative. Values whose
final probability is nearly 0 then weigh 1 in the partial sums of P V.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from verify.calling import Bench
from verify.case import Arrays, Axes, Case, Plan
from verify.certificate import Record
from verify.certifying import Request, loaded
from verify.formats import format_named
from verify.integers import Draws
from verify.judge import Verdict
from verify.pipeline import examine
from verify.truth import Oracle
from verify.worker import Worker

AXES = Axes(4, 160, d=64)
# The maximum comes last: every tile and part before it sees the tail alone.
LAST = AXES.n_k - 1


def _qkv(draws: Draws) -> Arrays:
    """Scores 0 at the last key and -110 at the others, whose values are near overflow."""
    q, k = np.zeros(AXES.q), np.zeros(AXES.k)
    q[..., 0], k[..., 0] = 8.0, -110.0
    k[..., LAST, 0] = 0.0
    v = np.ldexp(1.0 + draws.uniform(AXES.v), 126)
    v[..., LAST, :] = 1.0
    return {"q": q, "k": k, "v": v}


def _record(kernel: str, fmt: str) -> Record:
    plan = Plan("attention", format_named(fmt))
    case: Case = plan.attention("early_tail", "", AXES, partial(_qkv))
    with Worker() as worker:
        found = loaded(worker, kernel, Request((kernel,)))
        return examine(case, found, Bench(Oracle(), worker, grading=False))


@pytest.mark.parametrize("fmt", ["bf16", "fp32"])
@pytest.mark.parametrize(
    "kernel",
    [
        "textbook-attention-online[block=16]",
        "textbook-attention-split",
        "right-more-splits-than-keys",
        "right-sixteen-key-blocks",
        "right-reverse-keys",
    ],
)
def test_right_kernel_that_overflows_on_an_early_tail_is_not_refuted(kernel: str, fmt: str) -> None:
    """Overflow there follows from the declared arithmetic: out of scope, or right after all."""
    record = _record(kernel, fmt)
    assert record.verdict in (Verdict.OUT_OF_SCOPE, Verdict.PASS), record.reason


@pytest.mark.parametrize("fmt", ["bf16", "fp32"])
def test_kernel_that_forms_all_scores_first_is_still_held_to_the_bound(fmt: str) -> None:
    """Without tiles nothing is relative to an early maximum: the case is judged, and passes."""
    assert _record("textbook-attention-shifted", fmt).verdict is Verdict.PASS
