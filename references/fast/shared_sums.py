"""dbias and dsinks: sums of dS over broadcast axes, and of the sinks' terms over rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from references.enclosure import FAST, FINITE, Array, Enclosure
from references.fast.differentials import add_pairs
from references.fast.gradient_block import Block
from references.fast.lanes import FLOOR
from references.fast.quotient import ABOVE, U

# Of the rows of one block: the sink's terms (3, r), their relative error and what they may lack.
Terms = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Sums:
    """A gradient, its magnitude, and the part of its radius that negligible weights make."""

    enclosure: Enclosure
    magnitude: Array
    missed: Array


class BiasSums:
    """dbias in double-double: dS added up over the axes along which the bias was broadcast."""

    def __init__(self, shape: tuple[int, ...], full: tuple[int, ...]) -> None:
        self.shape = shape
        count = math.prod(shape)
        self.places = np.broadcast_to(np.arange(count).reshape(shape), full)
        self.terms = math.prod(full) // max(1, count)
        self.high, self.low, self.magnitude, self.error = np.zeros((4, count))
        self.missed = 0.0

    def add(self, block: Block, head: tuple[int, int], rows: slice) -> None:
        """The pairs of a block of rows."""
        places = self.places[head]
        by_key = places[0, block.j0 : block.j1] - places[0, 0]
        by_row = places[rows, 0].copy()
        add_pairs(
            *block.ds, block.size, by_key.size, block.relative_ds, by_row, by_key,
            self.high, self.low, self.magnitude, self.error,
        )  # fmt: skip
        self.missed += float(block.missed_ds.sum())

    def enclosure(self) -> Sums:
        """dbias."""
        error = self.error + (5.0 * self.terms + 16.0) * U * U * self.magnitude + self.missed
        nothing = (self.magnitude == 0.0) & (self.missed == 0.0)
        radius = np.where(nothing, 0.0, error * ABOVE + FLOOR)
        parts = (x.reshape(self.shape) for x in (self.high, self.low, radius))
        missed = np.full(self.shape, self.missed * ABOVE)
        return Sums(_enclosure(*parts), self.magnitude.reshape(self.shape), missed)


def sum_sinks(heads: list[list[Terms]]) -> Sums:
    """dsinks, from the blocks of every head; the sums are correctly rounded."""
    high, low, radius, magnitude, lost = np.zeros((5, len(heads)))
    for h, blocks in enumerate(heads):
        words = [x for term, _, _ in blocks for x in term[:2].ravel().tolist()]
        high[h] = math.fsum(words)
        low[h] = math.fsum([*words, -high[h]])
        size = sum(float(term[2].sum()) for term, _, _ in blocks)
        error = sum(float((relative * term[2]).sum()) for term, relative, _ in blocks)
        lost[h] = sum(float(missed.sum()) for _, _, missed in blocks) * ABOVE
        error += lost[h]
        radius[h] = (error + 64.0 * U * U * size) * ABOVE + 2.0**-105 * abs(high[h]) + FLOOR
        magnitude[h] = size
        if size == 0.0 and error == 0.0:
            radius[h] = 0.0
    return Sums(_enclosure(high, low, radius), magnitude, lost)


def _enclosure(high: Array, low: Array, radius: Array) -> Enclosure:
    classes = np.full(high.shape, FINITE, np.uint8)
    sound = np.where(np.isfinite(radius), radius, np.inf)
    return Enclosure(high, low, sound, classes, np.full(high.shape, FAST, np.uint8))
