"""Binary floating-point formats: what one rounding, one ulp and one bit pattern mean.

A format is one line of data (precision p with the hidden bit, number of exponent bits); every
constant is computed from it.  Values live in float64 arrays, which hold all formats up to
binary32 exactly; bits live in unsigned integer arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from verify.errors import UsageError

Mode = Literal["RN", "RZ"]
Array = NDArray[np.float64]
Bits = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Format:
    """A binary format with p significand bits (hidden one included) and exponents emin..emax.

    `specials` says what the largest exponent field holds: 'ieee' infinities and NaNs, 'fn' only one
    NaN pattern per sign (OCP e4m3fn), 'none' nothing (toy formats in tests).
    """

    name: str
    p: int
    exponent_bits: int
    specials: Literal["ieee", "fn", "none"] = "ieee"
    storage: int = 0  # bits of the container; 0: exactly as many as the fields need

    @property
    def bias(self) -> int:
        return int(2 ** (self.exponent_bits - 1) - 1)

    @property
    def emin(self) -> int:
        return 1 - self.bias

    @property
    def emax(self) -> int:
        return self.bias if self.specials == "ieee" else self.bias + 1

    @property
    def width(self) -> int:
        return self.storage or self.p + self.exponent_bits

    @property
    def largest(self) -> float:
        """Largest finite value Omega."""
        lost = 2 if self.specials == "fn" else 1  # fn gives its last significand to NaN
        return float((2.0 - lost * 2.0 ** (1 - self.p)) * 2.0**self.emax)

    @property
    def smallest_normal(self) -> float:
        return float(2.0**self.emin)

    @property
    def smallest(self) -> float:
        """Smallest positive subnormal lambda."""
        return float(2.0 ** (self.emin - self.p + 1))

    @property
    def overflow_threshold(self) -> float:
        """The least magnitude that round to nearest takes to infinity."""
        return self.largest + float(2.0 ** (self.emax - self.p))

    def unit_roundoff(self, mode: Mode = "RN") -> float:
        """u = 2^-p (RN) or 2^(1-p) (RZ): the relative error of one rounding is at most u."""
        return float(2.0 ** (-self.p if mode == "RN" else 1 - self.p))

    @property
    def u(self) -> float:
        return self.unit_roundoff()

    def underflow_unit(self, mode: Mode = "RN", flush: bool = False) -> float:
        """Absolute error of one rounding in the subnormal range: at most this."""
        if flush:
            return self.smallest_normal
        return self.smallest / 2 if mode == "RN" else self.smallest

    def ulp(self, hi: Array, lo: Array | float = 0.0) -> Array:
        """Spacing of the format at the real number hi + lo (|lo| <= ulp64(hi)/2).

        Definition  2^(max(e, emin) - p + 1) with 2^e <= |hi + lo| < 2^(e+1), e at most emax.
        Special     ulp(0) = the smallest subnormal.
        """
        hi = np.asarray(hi, np.float64)
        m, e = np.frexp(np.abs(hi))
        below = (m == 0.5) & (np.sign(hi) * np.asarray(lo) < 0)  # just under a power of two
        e = np.where(hi == 0, self.emin, e - 1 - below)
        exponent = np.clip(e, self.emin, self.emax) - self.p + 1
        return np.asarray(np.ldexp(1.0, exponent.astype(np.int64)), np.float64)

    def round(
        self, x: Array, mode: Mode = "RN", flush: bool = False, saturate: bool = False
    ) -> Array:
        """Round float64 values to the format (ties to even, or toward zero).

        Guarantee   the correctly rounded value; exact in float64 for p <= 53.
        Special     NaN and infinities pass; overflow gives infinity (RN) or the largest value
                    (RZ, `saturate`, and formats without infinities).
        """
        x = np.asarray(x, np.float64)
        if self.p >= 53:
            return x
        with np.errstate(all="ignore"):
            _, e = np.frexp(x)
            quantum = np.ldexp(1.0, np.maximum(e - 1, self.emin) - self.p + 1)
            scaled = x / quantum
            y = (np.rint(scaled) if mode == "RN" else np.trunc(scaled)) * quantum
            if flush:
                y = np.where(np.abs(y) < self.smallest_normal, np.copysign(0.0, x), y)
            beyond = (
                np.inf
                if mode == "RN" and not saturate and self.specials == "ieee"
                else self.largest
            )
            y = np.where(np.abs(y) > self.largest, np.copysign(beyond, x), y)
            return np.asarray(np.where(np.isfinite(x), y, x), np.float64)

    def round_enclosure(
        self, hi: Array, lo: Array, radius: Array
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Correct rounding of the real number enclosed by hi + lo +- radius.

        Shapes      arrays of one shape; returns (values, decided) of that shape.
        Guarantee   where decided, every real number of the enclosure rounds to the value.
        """
        below = _round_two_words(
            self, hi, np.nextafter(lo - radius, -np.inf, where=radius > 0, out=lo - radius)
        )
        above = _round_two_words(
            self, hi, np.nextafter(lo + radius, np.inf, where=radius > 0, out=lo + radius)
        )
        return below, np.asarray((below == above) & np.isfinite(radius))

    def decode(self, bits: Bits) -> Array:
        """The exact values that bit patterns denote."""
        raw = np.asarray(bits).astype(np.uint64)
        if self.storage and self.storage > self.p + self.exponent_bits:
            raw = raw >> np.uint64(self.storage - self.p - self.exponent_bits)
        man = (raw & np.uint64(2 ** (self.p - 1) - 1)).astype(np.float64)
        field = ((raw >> np.uint64(self.p - 1)) & np.uint64(2**self.exponent_bits - 1)).astype(
            np.int64
        )
        negative = ((raw >> np.uint64(self.p - 1 + self.exponent_bits)) & np.uint64(1)).astype(bool)
        top = 2**self.exponent_bits - 1
        significand = np.where(field == 0, man, man + 2.0 ** (self.p - 1))
        with np.errstate(over="ignore"):
            value = np.ldexp(significand, np.maximum(field, 1) - self.bias - self.p + 1)
        if self.specials == "ieee":
            value = np.where(field == top, np.where(man == 0, np.inf, np.nan), value)
        elif self.specials == "fn":
            value = np.where((field == top) & (man == 2.0 ** (self.p - 1) - 1), np.nan, value)
        return np.asarray(np.where(negative, -value, value), np.float64)

    def encode(self, values: Array) -> Bits:
        """The bit patterns of values that the format holds exactly (NaN becomes the quiet pattern).

        Raises      UsageError naming the first value that the format does not hold.
        """
        x = np.asarray(values, np.float64)
        bad = ~np.isnan(x) & (self.round(x) != x)
        if bad.any():
            raise UsageError(
                f"{float(x[bad].flat[0])!r} is not a value of {self.name}; round it first "
                "(Format.round)"
            )
        finite = np.where(np.isfinite(x), np.abs(x), 0.0)
        _, e = np.frexp(finite)
        exponent = np.where(finite == 0, self.emin, np.maximum(e - 1, self.emin))
        units = np.ldexp(finite, -(exponent - self.p + 1)).astype(np.uint64)
        normal = units >= np.uint64(2 ** (self.p - 1))
        field = np.where(normal, exponent + self.bias, 0).astype(np.uint64)
        raw = (field << np.uint64(self.p - 1)) | (units & np.uint64(2 ** (self.p - 1) - 1))
        top = np.uint64(2**self.exponent_bits - 1) << np.uint64(self.p - 1)
        raw = np.where(np.isinf(x), top, raw)
        quiet = 2 ** (self.p - 1) - 1 if self.specials == "fn" else 2 ** (self.p - 2)
        raw = np.where(np.isnan(x), top | np.uint64(quiet), raw)
        raw = raw | (np.signbit(x).astype(np.uint64) << np.uint64(self.p - 1 + self.exponent_bits))
        if self.storage and self.storage > self.p + self.exponent_bits:
            raw = raw << np.uint64(self.storage - self.p - self.exponent_bits)
        return np.asarray(raw).astype(self.container)

    @property
    def container(self) -> type[np.unsignedinteger]:
        for width, kind in ((8, np.uint8), (16, np.uint16), (32, np.uint32)):
            if self.width <= width:
                return kind
        return np.uint64

    def hex(self, bits: int) -> str:
        return f"0x{int(bits):0{-(-self.width // 4)}x}"


def _round_two_words(fmt: Format, hi: Array, lo: Array) -> Array:
    """Round hi + lo once: first to odd in binary64, which no later tie can be fooled by."""
    with np.errstate(invalid="ignore", over="ignore"):
        s = hi + lo
        t = s - hi
        rest = (hi - (s - t)) + (lo - t)
        even = (np.asarray(s, np.float64).view(np.int64) & 1) == 0
        nudged = np.nextafter(s, np.where(rest > 0, np.inf, -np.inf))
        odd = np.where((rest != 0) & even & np.isfinite(s), nudged, s)
    return fmt.round(odd)


BINARY16 = Format("fp16", 11, 5)
BFLOAT16 = Format("bf16", 8, 8)
BINARY32 = Format("fp32", 24, 8)
TF32 = Format("tf32", 11, 8, storage=32)
E4M3 = Format("e4m3", 4, 4, specials="fn")
E5M2 = Format("e5m2", 3, 5)
BINARY64 = Format("fp64", 53, 11)
E8M13 = Format("e8m13", 14, 8, storage=32)  # what Hopper's FP8 units accumulate in

FORMATS = {f.name: f for f in (BINARY16, BFLOAT16, BINARY32, TF32, E4M3, E5M2, BINARY64, E8M13)}
ALIASES = {
    "float16": "fp16",
    "half": "fp16",
    "binary16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "binary32": "fp32",
    "float64": "fp64",
    "double": "fp64",
    "binary64": "fp64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}


def format_named(name: str) -> Format:
    """The format of that name or alias. Raises UsageError with the list of names."""
    key = ALIASES.get(name.lower(), name.lower())
    if key not in FORMATS:
        raise UsageError(f"unknown format {name!r}; known: {', '.join(FORMATS)}")
    return FORMATS[key]
