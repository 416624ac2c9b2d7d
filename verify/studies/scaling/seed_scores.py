"""Claim: softmax([1000, 1001, 999]) is NaN without the shift and right with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import references
from verify.formats import format_named
from verify.studies.document import FALSE, HOLDS, LIMITED, Claim, Judgement, Part, Table
from verify.studies.running import Array, rows, stored
from verify.studies.scaling._grid import FORMATS, Grid

ORDER = 70
SOURCE = "the text behind this project"
SCORES = (1000.0, 1001.0, 999.0)
CLAIMED = (0.244728, 0.665241, 0.090031)
NAIVE, SHIFTED = "textbook-softmax-naive", "textbook-softmax-shifted"


@dataclass(frozen=True)
class Result:
    """One format: the scores as it holds them, both outputs, and the truth of these scores."""

    held: Array
    naive: Array
    shifted: Array
    truth: Array


def measure(naive: str = NAIVE, shifted: str = SHIFTED) -> dict[str, Result]:
    """Both kernels in every format."""
    found = {}
    for fmt in FORMATS:
        held = stored(np.array([SCORES]), fmt)
        outputs = (rows(naive, held, fmt)[0], rows(shifted, held, fmt)[0])
        found[fmt] = Result(held[0], *outputs, references.softmax(held).hi[0])
    return found


def exact() -> Array:
    """The truth of the scores themselves."""
    return np.asarray(references.softmax(np.array([SCORES])).hi[0])


def judge(found: Mapping[str, Result]) -> Judgement:
    """All NaN without the shift; with it the claimed figures, as far as the format can tell."""
    truth = exact()
    figure = (
        f"exact {_shown(truth)}; without the shift: "
        + ", ".join(f"{fmt} {_shown(r.naive)}" for fmt, r in found.items())
        + "; with it: "
        + ", ".join(f"{fmt} {_shown(r.shifted)}" for fmt, r in found.items())
    )
    right = np.allclose(truth, CLAIMED, rtol=0, atol=5e-7)
    lost = all(np.isnan(r.naive).all() for r in found.values())
    near = all(
        (np.abs(r.shifted - r.truth) <= 2 * format_named(fmt).u).all() for fmt, r in found.items()
    )
    if not (right and lost and near):
        return Judgement(FALSE, figure)
    changed = [fmt for fmt, r in found.items() if not np.array_equal(r.held, SCORES)]
    if not changed:
        return Judgement(HOLDS, figure)
    limits = f"{', '.join(changed)} cannot hold these scores: it is given " + "; ".join(
        _shown(found[fmt].held) for fmt in changed
    )
    return Judgement(LIMITED, figure, limits)


def _shown(values: Array) -> str:
    return "[" + ", ".join("NaN" if np.isnan(v) else f"{v:.6g}" for v in values) + "]"


def part(grid: Grid, *, small: bool = False) -> Part:
    """The example in every format."""
    found = measure()
    table = tuple(
        (fmt, _shown(r.held), _shown(r.naive), _shown(r.shifted), _shown(r.truth))
        for fmt, r in found.items()
    )
    return Part(
        name="seed_scores",
        title="The example: scores 1000, 1001, 999",
        text="The differences are -1, 0 and -2; only they matter, and every exponential overflows.",
        claims=(
            Claim(
                "softmax([1000, 1001, 999]) is NaN without the shift and [0.244728, 0.665241, "
                "0.090031] with it.",
                SOURCE,
                judge(found),
            ),
        ),
        tables=(
            Table(
                "Softmax of 1000, 1001, 999",
                ("format", "scores as held", "without the shift", "with it", "exact, of the held"),
                table,
            ),
        ),
    )
