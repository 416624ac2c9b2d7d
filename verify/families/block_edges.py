"""Key counts one below, at and one above multiples of common block lengths, at three score levels.

A padding key that is scored 0 instead of removed is invisible near s = 0, owns the row at s = -20,
and leaves nothing of it at s = -120.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from verify.case import Array, Arrays, Axes, Case, Plan
from verify.families._exact_scores import exact_qk, near, rows_that_fit
from verify.families._values import with_ones
from verify.family import Family
from verify.formats import Format
from verify.integers import Draws

NAME = "block_edges"
LEVELS = (0, -20, -120)
N_K = (1, 2, 15, 17, 31, 33, 63, 65, 127, 129, 257)
N_Q = (3, 17, 65)


def _qkv(fmt: Format, axes: Axes, level: int, draws: Draws) -> Arrays:
    rows = rows_that_fit(fmt, axes, abs(level) * 64 + 129)
    units = near(draws, rows, axes.n_k, level * 64, 128)
    return {**exact_qk(fmt, axes, units), "v": with_ones(draws, axes)}


def _x(shape: tuple[int, int], level: int, draws: Draws) -> Array:
    return level - 2 * draws.uniform(shape)


def _cases(plan: Plan) -> Iterator[Case]:
    for level in LEVELS:
        name, notes = f"S{level}", {"level": float(level)}
        for n_k in N_K:
            smoke = level == -20 and n_k in (17, 129)
            edge = n_k in (17, 65, 129)
            if plan.operation == "attention":
                axes = Axes(N_Q[n_k % 3], n_k)
                recipe = partial(_qkv, plan.format, axes, level)
                yield plan.attention(
                    NAME,
                    name,
                    axes,
                    recipe,
                    smoke=smoke,
                    extensive=not edge and (level != -20 or n_k in (2, 31, 63)),
                    notes=notes,
                )
            else:
                shape = (3, n_k)
                recipe_x = partial(_x, shape, level)
                yield plan.rows(
                    NAME,
                    name,
                    shape,
                    recipe_x,
                    smoke=smoke,
                    extensive=not edge and (level != -20 or n_k not in (15, 257)),
                    notes=notes,
                )


FAMILY = Family(
    name=NAME,
    hypothesis="The last partial block is dropped, read past its end, or padded with keys of score "
    "0.",
    effect="Sequence lengths that are not multiples of the block give wrong rows, above all where "
    "scores are negative.",
    source=(
        "flashinfer-ai/flashinfer issue 358 (out-of-range tiles); leejet/stable-diffusion.cpp pull "
        "request 736 (padding of the keys); pytorch/pytorch issue 196678 (64 modulo 128)."
    ),
    cases=_cases,
)
