"""Enclosure: a value that is known up to a proved radius, and the classes that a kernel may return.

The inclusion principle (stated in `references`) is carried by two float64 words and a radius:
the exact value r satisfies |r - (hi + lo)| <= radius, the sum hi + lo taken exactly.  A radius of
+inf says "nothing is known"; it is never a number that lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Classes = NDArray[np.uint8]

# What a correct kernel may return for an element, as a set of bits.  Only FINITE elements have an
# enclosure; FINITE | NAN says that a number inside the enclosure and NaN are both accepted.
FINITE, POSITIVE_INFINITY, NEGATIVE_INFINITY, NAN = 1, 2, 4, 8
NON_FINITE = POSITIVE_INFINITY | NEGATIVE_INFINITY | NAN  # some infinity or NaN must show
ANYTHING = FINITE | NON_FINITE  # nothing is specified; the radius is +inf

# Who made a row.  The order is that of cost; codes are stored in `Enclosure.tier`.
TIERS = ("exact", "arb", "fast", "fast+1")
EXACT, ARB, FAST, FAST_PLUS = range(4)


@dataclass(frozen=True)
class Enclosure:
    """Arrays of one shape: hi, lo, radius (float64), classes (uint8); tier (uint8), one per row.

    Shapes      hi, lo, radius, classes: (..., n) or (...,); tier: the shape of the rows.
    Guarantee   |r - (hi + lo)| <= radius for every element whose classes contain FINITE.
    Special     where classes lacks FINITE, hi is the non-finite value, lo = 0 and radius = 0.
    """

    hi: Array
    lo: Array
    radius: Array
    classes: Classes
    tier: NDArray[np.uint8]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.hi.shape

    @property
    def finite(self) -> NDArray[np.bool_]:
        """True where the truth is one finite number and nothing else is accepted."""
        return np.asarray(self.classes == FINITE)

    def __getitem__(self, rows: Any) -> Enclosure:
        """The same enclosure on a sub-array of rows (an index of the leading axes)."""
        return Enclosure(
            self.hi[rows],
            self.lo[rows],
            self.radius[rows],
            self.classes[rows],
            self.tier[rows],
        )


@dataclass(frozen=True)
class AttentionTruth:
    """Truth of one attention call.

    Shapes      output: (batch, heads, n_q, d_v); lse: (batch, heads, n_q);
                magnitude: (batch, heads, n_q, d_v), sum_j p_j |v_j|, relative error below 2^-20.
    Special     magnitude is 0 for an empty row and NaN where a visible value is not finite.
    """

    output: Enclosure
    lse: Enclosure
    magnitude: Array


@dataclass(frozen=True)
class AttentionGradients:
    """Gradients of one attention call.

    Shapes      dq, dk, dv: those of q, k, v, tier (batch, heads, n_q) and (batch, kv_heads, n_k);
                dbias: that of bias as given, tier the same; dsinks: (heads,).  None without one.
                magnitude: by the same names, float64 of the same shapes.
    Guarantee   magnitude is above the sum of the absolute terms of that gradient, as defined in
                `references`, relative error below 2^-20; NaN where classes lacks FINITE or is
                ANYTHING.
    """

    dq: Enclosure
    dk: Enclosure
    dv: Enclosure
    dbias: Enclosure | None
    dsinks: Enclosure | None
    magnitude: dict[str, Array]

    def parts(self) -> dict[str, Enclosure]:
        """The gradients that there are, by name."""
        found = {"dq": self.dq, "dk": self.dk, "dv": self.dv}
        if self.dbias is not None:
            found["dbias"] = self.dbias
        if self.dsinks is not None:
            found["dsinks"] = self.dsinks
        return found
