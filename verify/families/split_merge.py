"""Parts of a row have their own maxima near 1e4; some parts are dead or fully masked.

Merging parts needs exp(LSE_part - LSE): at 1e4 the rounding of an LSE costs 5e-4 in binary32, and
an empty part has LSE -inf.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import Integers, exact_qk
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "split_merge"
PARTS = (2, 4, 32)


def _units(n: int, dead: bool, draws: Draws) -> Integers:
    """Row i has PARTS[i] equal parts; with `dead`, every second part lies 2e4 lower."""
    rows = []
    for parts in PARTS:
        part = np.arange(n) * parts // n
        top = 640_000 - part * 29 % 512
        if dead:
            top -= np.where(part % 2 == 0, 1_280_000, 0)
        rows.append(top - draws.integers(0, 256, (n,)))
    return np.asarray(np.stack(rows), np.int64)


def _qkv(fmt: Format, axes: Axes, kind: str, draws: Draws) -> Arrays:
    units = _units(axes.n_k, kind == "dead", draws)
    inputs = {**exact_qk(fmt, axes, units), "v": with_ones(draws, axes)}
    if kind.startswith("masked"):
        part = np.arange(axes.n_k) * 4 // axes.n_k
        visible = part != {"masked-first": 0, "masked-middle": 2, "masked-last": 3}[kind]
        inputs["mask"] = np.broadcast_to(visible, (1, 1, axes.n_q, axes.n_k))
    return inputs


def _x(n: int, kind: str, draws: Draws) -> Array:
    return np.asarray(_units(n, kind == "dead", draws) * 2.0**-6, np.float64)


def _cases(plan: Plan) -> Iterator[Case]:
    if plan.operation != "attention":
        # Shorter formats cannot hold the differences of live parts at 1e4.
        for kind in ("live", "dead") if plan.format.p == 24 else ("dead",):
            yield plan.rows(NAME, kind, (3, 512), partial(_x, 512, kind))
        return
    for kind in ("live", "dead", "masked-first", "masked-middle", "masked-last"):
        extras = ("mask",) if kind.startswith("masked") else ()
        axes = Axes(3, 512)
        recipe = partial(_qkv, plan.format, axes, kind)
        yield plan.attention(
            NAME, kind, axes, recipe, extras=extras, extensive=kind == "masked-middle"
        )
    for axes in (Axes(3, 5), Axes(3, 37)):  # fewer keys than parts
        yield plan.attention(NAME, "few", axes, partial(_qkv, plan.format, axes, "live"))


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "Parts are merged with a rounded LSE, with base-2 numbers, or with NaN from an empty part."
    ),
    effect=(
        "Decoding with split keys gives NaN or wrong weights that depend on the number of splits."
    ),
    source=(
        "Dao: Flash-Decoding for long-context inference, 2023 "
        "(https://pytorch.org/blog/flash-decoding/); flashinfer-ai/flashinfer issue "
        "4452."
    ),
    cases=_cases,
)
