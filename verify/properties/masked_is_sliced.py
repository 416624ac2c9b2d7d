"""Masked keys are as good as absent: the call without them has the same truth.

Behind the mask lies NaN (or 1, where a kernel declares that NaN may leak).  Bits
of the two calls are compared only where the kernel declares that equal sums have equal bits, which
no declaration says yet: each call answers to its own bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from verify.case import Arrays, Axes, Inputs, Plan
from verify.certificate import Record
from verify.integers import Draws
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.properties import Property, Trial, as_property

NAME = "masked_is_sliced"
AXES = Axes(48, 48, d=64, batch=2, heads=3)
SIDES = {"tail": slice(32, None), "head": slice(0, 16)}


def _refusal(kernel: Kernel) -> str | None:
    if kernel.operation != "attention" or "mask" not in kernel.features:
        return "does not claim masks"
    return None


def _hidden(behind: float, hidden: slice, draws: Draws) -> Arrays:
    q, k, v = draws.normal(AXES.q), draws.normal(AXES.k), draws.normal(AXES.v)
    k[..., hidden, :] = behind
    v[..., hidden, :] = behind
    mask = np.ones(AXES.scores, np.bool_)
    mask[..., hidden] = False
    return {"q": q, "k": k, "v": v, "mask": mask}


def _sliced(masked: Inputs) -> Inputs:
    """The same without the hidden keys."""
    assert masked.mask is not None
    seen = masked.mask[0, 0, 0]
    kept = {
        name: replace(t, bits=t.bits[:, :, seen]) if name in "kv" else t
        for name, t in masked.tensors.items()
    }
    return Inputs(kept)


def _records(trial: Trial) -> Iterator[Record]:
    bench = replace(trial.bench, grading=False)
    leaks = trial.kernel.declaration.masked_nonfinite == "leaks"
    plan: Plan = trial.plan
    for side, hidden in SIDES.items():
        behind = 1.0 if leaks else float("nan")
        recipe = partial(_hidden, behind, hidden)
        case = plan.attention("properties", f"masked-{side}", AXES, recipe, extras=("mask",))
        yield as_property(examine(case, trial.kernel, bench), NAME, side, trial.format)
        inputs = _sliced(case.build())
        notes = {**case.notes, "n_k": float(inputs["k"].shape[2])}
        bare = replace(
            case, build=partial(Inputs, inputs.tensors), notes=notes, needs=frozenset(("cross",))
        )
        if trial.kernel.out_of_scope(bare) is None:
            record = examine(bare, trial.kernel, bench)
            yield as_property(record, NAME, f"{side}-sliced", trial.format)


PROPERTY = Property(
    name=NAME,
    hypothesis="A masked key still takes part: its value is multiplied by 0, or its score by 1.",
    effect="NaN of padding, or of another request's cache page, shows in the answer.",
    source="xformers test_nans_in_padding; TransformerEngine issue 1197; flash-attention 2709.",
    refusal=_refusal,
    records=_records,
)
