"""Where exp overflows and underflows in each format, as committed integers in units of 2^-40.

A threshold is the floor of 2^40 times the logarithm, so no libm takes part when a case is made.
"""

from __future__ import annotations

from dataclasses import dataclass

from verify.formats import Format

UNIT = 40  # a threshold is an integer multiple of 2^-UNIT
LN2 = 762123384785


@dataclass(frozen=True)
class Thresholds:
    """exp(x) rounds to infinity from `overflow` on, is subnormal below `subnormal`, 0 at `zero`."""

    overflow: int
    subnormal: int
    zero: int


THRESHOLDS = {
    "fp32": Thresholds(97551793219815, -96027546483013, -114318507717872),
    "bf16": Thresholds(97549643669049, -96027546483013, -102124533561299),
    "fp16": Thresholds(12193705688343, -10669727387002, -19053084619646),
    "e5m2": Thresholds(12123013302142, -10669727387002, -12956097541359),
    "e4m3": Thresholds(6750874458375, -4572740308715, -7621233847859),
}

# ln u: a term e^x with x below it is lost when it is added to 1.
LN_U = {
    "fp32": -18290961234860,
    "bf16": -6096987078287,
    "fp16": -8383357232644,
    "e5m2": -2286370154358,
    "e4m3": -3048493539144,
}

# ln(0.5 (1 + 0.97 u)): the logarithm of a number that rounds down to 0.5 with almost no margin.
LN_HALF_UP = {
    "fp32": -762123321216,
    "bf16": -757965139469,
    "fp16": -761602743288,
    "e5m2": -636290728293,
    "e4m3": -697407936866,
}


def below(threshold: int, unit: int) -> int:
    """The largest multiple of 2^unit that is not above the threshold, counted in 2^unit."""
    return threshold >> (UNIT + unit)


def value_below(threshold: int, fmt: Format) -> tuple[int, int]:
    """(m, e): m 2^e is the format's largest value not above the threshold; (m + 1) 2^e the next."""
    exponent = abs(threshold).bit_length() - fmt.p
    return threshold >> exponent, exponent - UNIT
