"""Sizes and options that nobody chose: drawn anew for every seed, all of each order of magnitude.

The other families sit where kernels are known to break; a defect at some other size is found here
sooner or later, and no kernel can be made for these sizes alone where the seed is blind.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families import _options
from verify.families._values import normal_qkv
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation

NAME = "drawn_shapes"
OPTIONS = ("causal", "window", "softcap", "mask", "bias", "sinks", "gqa", "d_v")
STANDARD, EXTENSIVE = 8, 32  # cases
MOST_SCORES = 2**16
MOST_ENTRIES = 2**15  # of the rows of a softmax


def _whole(draws: Draws, low: int, high: int) -> int:
    """An integer in [low, high)."""
    return int(draws.integers(low, high, (1,))[0])


def _size(draws: Draws, octaves: int) -> int:
    """An integer in [1, 2^octaves), every octave as likely as the others."""
    base = 2 ** _whole(draws, 0, octaves)
    return _whole(draws, base, 2 * base)


def _axes(draws: Draws, options: list[str]) -> Axes:
    """Axes of at most MOST_SCORES scores."""
    batch, kv_heads = _size(draws, 2), _size(draws, 2)
    heads = kv_heads * (_whole(draws, 2, 6) if "gqa" in options else 1)
    n_q, n_k, d = _size(draws, 9), _size(draws, 9), 8 * _whole(draws, 1, 21)
    d_v = 8 * _whole(draws, 1, 21) if "d_v" in options else d
    while batch * heads * n_q * n_k > MOST_SCORES:
        n_q = -(-n_q // 2)
        batch = 1
    return Axes(n_q, n_k, d, batch, heads, kv_heads, d_v)


def _operation(draws: Draws, options: list[str]) -> Operation:
    return Operation(
        "attention",
        causal="causal" in options,
        window=(_size(draws, 8), _size(draws, 4)) if "window" in options else None,
        softcap=1.0 + _whole(draws, 0, 30) if "softcap" in options else None,
    )


def _inputs(axes: Axes, extras: tuple[str, ...], draws: Draws) -> Arrays:
    found = dict(normal_qkv(axes, draws))
    found["q"] = 2 * found["q"]
    if "mask" in extras:
        found["mask"] = np.asarray(draws.integers(0, 3, axes.scores) > 0)
    if "bias" in extras:
        found["bias"] = draws.normal(axes.scores)
    if "sinks" in extras:
        found["sinks"] = draws.normal((axes.heads,))
    return found


def _attention(plan: Plan, number: int) -> Case:
    """The first case has no option, the next one option, the third two, and so on."""
    draws = plan.draws(NAME, "shape", number)
    picked = {OPTIONS[_whole(draws, 0, len(OPTIONS))] for _ in range(number % 3)}
    options = [name for name in OPTIONS if name in picked]
    axes, operation = _axes(draws, options), _operation(draws, options)
    extras = _options.extras(options)
    shown = [n for n in options if n not in ("gqa", "d_v")]  # the sizes show those
    return plan.attention(
        NAME,
        "-".join((str(number), *shown)),
        axes,
        partial(_inputs, axes, extras),
        operation=operation,
        extras=extras,
        smoke=number == 0,
        extensive=number >= STANDARD,
    )


def _x(shape: tuple[int, int], draws: Draws) -> Array:
    return 4 * draws.normal(shape)


def _rows(plan: Plan, number: int) -> Case:
    draws = plan.draws(NAME, "shape", number)
    n = _size(draws, 12)
    shape = (_whole(draws, 1, 1 + max(1, min(200, MOST_ENTRIES // n))), n)
    recipe = partial(_x, shape)
    return plan.rows(NAME, str(number), shape, recipe, extensive=number >= STANDARD)


def _cases(plan: Plan) -> Iterator[Case]:
    make = _attention if plan.operation == "attention" else _rows
    for number in range(EXTENSIVE if plan.profile == "extensive" else STANDARD):
        yield make(plan, number)


FAMILY = Family(
    name=NAME,
    hypothesis="Some size, or size with an option, that no list of edges has is treated wrongly.",
    effect="A model of an unusual size is wrong while all usual ones are right.",
    source=(
        "Random testing: Claessen and Hughes, QuickCheck, ICFP 2000; "
        "pytorch/pytorch issue 196678 (64 modulo 128)."
    ),
    cases=_cases,
)
