"""What NaN and infinities do to gradients, for a block of rows at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.arb.attention import Block
from references.arb.keys import Booleans
from references.enclosure import ANYTHING, NAN, NON_FINITE, Array, Enclosure

# From the weakest to the strongest: all finite, an infinity or NaN must show, unspecified, NaN.
PLAIN, SHOWS, FREE, UNDEFINED = range(4)
Kind = NDArray[np.int64]


@dataclass(frozen=True)
class Kinds:
    """
    scores    (rows,): of P, and so of all gradients.
    row       (rows,): of dS, and so of dQ, dK, dbias, dsinks.
    columns   (rows, d_v): of P dO, and so of dV.
    weighted  (rows,) bool: there is a key or a sink.
    visible   (rows, n_k) bool: not removed.
    """

    scores: Kind
    row: Kind
    columns: Kind
    weighted: Booleans
    visible: Booleans

    @staticmethod
    def of(block: Block, do: Array, dlse: Array) -> Kinds:
        """From the block's arguments and what is upstream of it."""
        visible, sink = block.visible, block.sink
        keys: Booleans = np.asarray(visible.any(axis=1))
        scores = np.where(~keys, PLAIN, _scores(block, keys))
        upstream = _factors(do)
        own = np.maximum(upstream.max(axis=1, initial=PLAIN), _factors(dlse[:, None])[:, 0])
        value = _factors(block.shared.v).max(axis=1, initial=PLAIN)
        row = np.maximum(own, np.where(visible, value, PLAIN).max(axis=1, initial=PLAIN))
        odd_sink = sink is not None and not np.isfinite(sink)
        alone = np.logical_not(keys) & ((own != PLAIN) | odd_sink)
        scores = np.where(alone, FREE, scores)
        row = np.where(scores != PLAIN, scores, row)
        columns = np.where(scores[:, None] != PLAIN, scores[:, None], upstream)
        return Kinds(scores, row, columns, keys | (sink is not None), visible)


def _scores(block: Block, keys: Booleans) -> Kind:
    """UNDEFINED for a NaN score, FREE where an infinity takes part; for rows with keys."""
    odd_key = np.logical_not(np.isfinite(block.shared.k).all(axis=1))
    odd = np.logical_not(np.isfinite(block.q).all(axis=1))
    odd |= np.logical_and(block.visible, odd_key).any(axis=1)
    if block.bias is not None:
        odd |= np.logical_and(block.visible, ~np.isfinite(block.bias)).any(axis=1)
    if block.sink is not None:
        odd |= block.sink == np.inf
    return np.where(block.parts.undefined, UNDEFINED, np.where(odd, FREE, PLAIN))


def _factors(x: Array) -> Kind:
    return np.where(np.isnan(x), UNDEFINED, np.where(np.isinf(x), SHOWS, PLAIN))


def mark(truth: Enclosure, kinds: Kind) -> None:
    """Classes, values and radii where something not finite arrives."""
    for kind, classes in ((SHOWS, NON_FINITE), (FREE, ANYTHING), (UNDEFINED, NAN)):
        place = kinds == kind
        truth.classes[place] = classes
        truth.hi[place], truth.lo[place] = 0.0 if kind == FREE else np.nan, 0.0
        truth.radius[place] = np.inf if kind == FREE else 0.0
