"""Fresh inputs: other numbers in every round, cheap enough that making them is not the bench.

Standard-normal numbers are drawn and rounded once for a shape; each round permutes the rows and
draws the signs anew.  All are standard normal again, no round has the contents of another, and the
seed and the number of a round give its bits back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.bench.shape import Shape
from verify.case import Inputs, Tensor
from verify.formats import Bits, Format
from verify.integers import Draws

DRAWN = 2**20  # elements drawn at most for a tensor; larger ones repeat them, signs and order apart


class FreshInputs:
    """The inputs of a shape by the number of the round; round 0 is the first to warm up."""

    def __init__(self, shape: Shape, fmt: Format, seed: int) -> None:
        self._format = fmt
        self._key = f"bench/{seed}/{shape.label}/{fmt.name}"
        self._base = {name: self._drawn(name, sizes) for name, sizes in shape.tensors.items()}

    def _drawn(self, name: str, sizes: tuple[int, ...]) -> Bits:
        count = int(np.prod(sizes))
        drawn = Draws(f"{self._key}/{name}").normal((min(count, DRAWN),))
        bits = Tensor.rounded(self._format, drawn).bits
        return np.resize(bits, sizes)

    def round(self, number: int) -> Inputs:
        """The inputs of one round."""
        return Inputs({n: Tensor(self._format, self._fresh(n, number)) for n in self._base})

    def _fresh(self, name: str, number: int) -> Bits:
        base = self._base[name]
        draws = Draws(f"{self._key}/{name}/{number}")
        order = np.argsort(draws.words((base.shape[-2],)))
        signs = _sign_bits(draws, base.shape, base.dtype)
        return np.asarray(base[..., order, :] ^ signs)


def _sign_bits(draws: Draws, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A random sign bit for every element."""
    count = int(np.prod(shape))
    bits = np.unpackbits(draws.words((-(-count // 64),)).view(np.uint8))[:count]
    top = 8 * dtype.itemsize - 1
    return np.asarray(bits.astype(dtype) << dtype.type(top)).reshape(shape)
