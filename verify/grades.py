"""Grades: reference contracts in order of strictness, and the letter of the first that holds.

A grade is what could not be refuted: "no better than" is certain, "at least" holds for the cases
that were tried.  CR and F are statements about the output alone; every other letter is an
arithmetic model, and its bound is the contract.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from references.enclosure import Enclosure
from verify.formats import Format
from verify.presets import Preset, preset

Array = NDArray[np.float64]

UNGRADED = "refutes every contract: unstable or wrong"


@dataclass(frozen=True)
class Contract:
    """One row of the table.

    letter    what is printed
    meaning   the same in words
    models    whose bound is the contract; None for CR and F
    """

    letter: str
    meaning: str
    models: Preset | None = None


_CR = Contract("CR", "correctly rounded: every output is the nearest number of its format")
_F = Contract("F", "faithful: every error is below one ulp")

# Letter, presets whose variants together are the contract, meaning.
_SIXTEEN_BITS = (
    ("A", ("single",), "binary32 everywhere, P included; one rounding of the output"),
    ("B", ("flash",), "binary32 accumulation; P rounded to the input format"),
    ("B-", ("flash-a100", "flash-h100"), "as B on truncating tensor cores"),
    ("C", ("eager",), "scores and P stored in the input format; binary32 accumulation"),
    ("D", ("half",), "some accumulator in the input format"),
)
_THIRTY_TWO_BITS = (
    ("A32", ("single",), "binary32 everywhere"),
    ("T", ("tf32",), "both products on operands cut to TF32"),
    ("B16", ("bf16-products",), "both products on operands rounded to bf16"),
)
_EIGHT_BITS = (
    (
        "E",
        ("flash-fp8-b200",),
        "FP8 products aligned to 25 bits; P scaled by 2^8 and rounded to FP8",
    ),
    ("E-", ("flash-fp8",), "the same with products aligned to 13 bits"),
)


def contracts(fmt: Format) -> list[Contract]:
    """The contracts for an input format, strictest first; beyond the last there is only U."""
    rows = {8: _EIGHT_BITS, 16: _SIXTEEN_BITS}.get(fmt.width, _THIRTY_TWO_BITS)
    return [_CR, _F] + [
        Contract(letter, meaning, _union(names, fmt)) for letter, names, meaning in rows
    ]


def _union(names: tuple[str, ...], fmt: Format) -> Preset:
    presets = [preset(name, fmt) for name in names]
    if len(presets) == 1:
        return presets[0]
    variants = tuple(model for p in presets for model in p.variants)
    return Preset(" or ".join(names), variants, presets[0].meaning)


def limits(contract: Contract, truth: Enclosure, fmt: Format) -> tuple[Array, None] | None:
    """
    The largest error under a contract about the output alone; None where it is a model's bound.

    Shapes      the output's.
    Guarantee   CR: an output that is not the correctly rounded number has a larger error, wherever
                the enclosure decides which number that is, and midpoints aside.
                F: the error is below one ulp of the truth iff it is at most this.
    Special     +inf where the enclosure does not decide.
    """
    if contract.models is not None:
        return None
    if contract.letter == "F":
        return np.nextafter(fmt.ulp(truth.hi, truth.lo), 0.0) + 2 * truth.radius, None
    nearest, decided = fmt.round_enclosure(truth.hi, truth.lo, truth.radius)
    with np.errstate(invalid="ignore"):
        distance = np.abs((nearest - truth.hi) - truth.lo)
    # the judged error is an upper end: it holds the radius, and float64 roundings
    allowed = distance * (1 + 2.0**-40) + 2 * truth.radius + 2.0**-100 * np.abs(truth.hi)
    return np.where(decided & np.isfinite(nearest), allowed, np.inf), None
