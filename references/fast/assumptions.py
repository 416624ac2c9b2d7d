"""What the proof assumes of this machine, tried before anything rests on it."""

from __future__ import annotations

import numpy as np

from references.enclosure import Array
from references.fast.compiled import fma, kernel
from references.fast.doubledouble import two_sum

_SHAPES = ((64, 64, 64), (64, 64, 192), (256, 64, 128), (1024, 64, 64), (65, 33, 7), (3, 200, 1))


@kernel("i8(f8[::1])")
def arithmetic_failures(x: Array) -> int:
    """
    The number of assumptions on float64 arithmetic that fail in this thread, as a sum of bits.

    Shapes      x: (4,) = 1, 2^-30, 2^-60, 2^-1074, as data, so that nothing is computed ahead.
    Definition  1: FMA is fused; 2: two_sum gives the error term; 4: additions round to nearest
                even; 8: results below 2^-1022 are kept; 16: operands below 2^-1022 are kept.
    """
    failures = 0
    product = (x[0] + x[1]) * (x[0] + x[1])
    if fma(x[0] + x[1], x[0] + x[1], -product) != x[2]:
        failures += 1
    _, error = two_sum(x[0], x[2])
    if error != x[2]:
        failures += 2
    half = 128.0 * x[2]  # of the last place of 1: 2^-53
    odd = x[0] + 2.0 * half
    ties = x[0] + half == x[0] and odd + half == x[0] + 4.0 * half
    if not (ties and x[0] + x[2] == x[0] and x[0] - x[2] == x[0]):
        failures += 4
    if (x[3] * 2.0**52) * 0.5 == 0.0:
        failures += 8
    if x[3] * 2.0**600 == 0.0:
        failures += 16
    return failures


_NAMES = ("a fused multiply-add", "two_sum", "round to nearest", "gradual underflow")
_PROBE = np.array([1.0, 2.0**-30, 2.0**-60, 2.0**-1074])


def arithmetic() -> str | None:
    """What float64 arithmetic lacks in this thread, or None."""
    failures = arithmetic_failures(_PROBE)
    if failures == 0:
        return None
    lacking = [name for bit, name in enumerate(_NAMES) if failures >> bit & 1]
    return f"float64 arithmetic lacks {', '.join(lacking)}"


def products() -> str | None:
    """Whether float64 matrix products of integers up to 2^53 are exact, in the layouts that we use.

    Shapes      none.
    Definition  integers of 23 and 24 bits, sums close to 2^53, against int64 arithmetic.
    Guarantee   None where all agree.  A sample, not a proof: a product that gains a bit on the way
                (Strassen) or works with fewer bits (emulation) fails it.
    """
    generator = np.random.default_rng(20240)
    for rows, terms, columns in _SHAPES:
        bits = 53 - (terms - 1).bit_length()
        a = generator.integers(2 ** (bits // 2 - 1), 2 ** (bits // 2), (rows, terms))
        b = generator.integers(
            -(2 ** (bits - bits // 2)), 2 ** (bits - bits // 2), (terms, columns)
        )
        a[0], b[:, 0] = 2 ** (bits // 2) - 1, 2 ** (bits - bits // 2) - 1
        exact = a @ b
        plain, other = a.astype(np.float64), b.astype(np.float64)
        transposed = np.ascontiguousarray(plain.T).T
        for left in (plain, transposed):
            if not np.array_equal((left @ other).astype(np.int64), exact):
                return f"the float64 product ({rows}, {terms}) ({terms}, {columns}) is not exact"
    return None
