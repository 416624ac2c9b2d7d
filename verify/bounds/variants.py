"""Variants: the models of a preset on a block of rows, and what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from verify.arithmetic import ArithmeticModel
from verify.bounds.deviations import Deviations, deviations
from verify.bounds.exponentials import FIELDS, Exponentials, exponentials
from verify.bounds.folding import Rows
from verify.bounds.scores import FIELDS as SCORE_FIELDS
from verify.bounds.scores import ScoreError, score_error
from verify.bounds.statement import Array
from verify.bounds.weights import Weights, weights


@dataclass(frozen=True)
class Variant:
    """A model with the stages that it may share with others."""

    model: ArithmeticModel
    scores: ScoreError
    exps: Exponentials
    weights: Weights
    spread: Deviations
    moved: Array  # sum_j |w_j - p_j| |v_j - O|
    systematic: Array  # the same for the systematic errors


class Shared:
    """The variants of a block of rows; scores and exponentials are computed once for each kind."""

    def __init__(self, rows: Rows, models: Sequence[ArithmeticModel]) -> None:
        self._rows = rows
        self._models = models
        self._scores: dict[object, ScoreError] = {}
        self._exponentials: dict[object, Exponentials] = {}
        self._weights: dict[object, Weights] = {}

    def __iter__(self) -> Iterator[Variant]:
        rows = self._rows
        basis: list[Array] = [rows.p]
        found = []
        place: dict[int, tuple[int, int]] = {}
        extra: dict[int, int] = {}
        for model in self._models:
            exps = self._exponentials_of(model)
            w = self._weights_of(model, exps)
            if id(exps) not in place:
                place[id(exps)] = len(basis), len(basis) + 1
                basis += [exps.growth, rows.p * exps.systematic]
            if w.absolute is not None and id(w) not in extra:
                extra[id(w)] = len(basis)
                basis.append(w.absolute)
            found.append((model, exps, w))
        apart = deviations(rows, basis)
        for model, exps, w in found:
            growth, systematic = place[id(exps)]
            moved = w.scale * apart.sums[growth] + w.offset * apart.sums[0]
            if w.absolute is not None:
                moved = moved + apart.sums[extra[id(w)]]
            yield Variant(
                model, self._scores_of(model), exps, w, apart, moved, apart.sums[systematic]
            )

    def _exponentials_of(self, model: ArithmeticModel) -> Exponentials:
        key = tuple(getattr(model, name) for name in FIELDS)
        if key not in self._exponentials:
            self._exponentials[key] = exponentials(self._rows, model, self._scores_of(model))
        return self._exponentials[key]

    def _scores_of(self, model: ArithmeticModel) -> ScoreError:
        key = tuple(getattr(model, name) for name in SCORE_FIELDS)
        if key not in self._scores:
            self._scores[key] = score_error(self._rows, model)
        return self._scores[key]

    def _weights_of(self, model: ArithmeticModel, exps: Exponentials) -> Weights:
        names = (
            "p_format",
            "p_offset",
            "p_normalised",
            "flush_p",
            "row_sum",
            "row_sum_of",
            "flush_to_zero",
        )
        key = (id(exps), *(getattr(model, name) for name in names))
        if key not in self._weights:
            self._weights[key] = weights(self._rows, model, exps)
        return self._weights[key]
