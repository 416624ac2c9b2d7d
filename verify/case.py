"""Case: one recipe of inputs. Inputs: the bits. Family: cases that hunt one failure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from verify.formats import Bits, Format
from verify.integers import Draws
from verify.operation import Operation, OperationName

Profile = Literal["smoke", "standard", "extensive"]
PROFILES: tuple[Profile, ...] = ("smoke", "standard", "extensive")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Tensor:
    """Bits of a format; `values` are the exact numbers that they denote."""

    format: Format
    bits: Bits

    @classmethod
    def of(cls, fmt: Format, values: Array) -> Tensor:
        """Values that the format holds exactly (round them first where they are not)."""
        return cls(fmt, fmt.encode(np.asarray(values, np.float64)))

    @classmethod
    def rounded(cls, fmt: Format, values: Array) -> Tensor:
        """Values rounded to the format and kept finite; what counts as input is the result."""
        values = np.asarray(values, np.float64)
        clipped = np.where(np.isfinite(values), np.clip(values, -fmt.largest, fmt.largest), values)
        return cls.of(fmt, fmt.round(clipped))

    @cached_property
    def values(self) -> Array:
        return self.format.decode(self.bits)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape


@dataclass(frozen=True)
class Inputs:
    """Named tensors: x (rows, n); or q, k, v (batch, heads, n, d), bias, sinks, and mask (bool)."""

    tensors: Mapping[str, Tensor]
    mask: NDArray[np.bool_] | None = None

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def values(self, name: str) -> Array | None:
        return self.tensors[name].values if name in self.tensors else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over names, formats, shapes and little-endian bits: the inputs' identity."""
        total = hashlib.sha256()
        for name in sorted(self.tensors):
            tensor = self.tensors[name]
            total.update(json.dumps([name, tensor.format.name, tensor.shape]).encode())
            total.update(
                np.ascontiguousarray(
                    tensor.bits.astype(tensor.bits.dtype.newbyteorder("<"))
                ).tobytes()
            )
        if self.mask is not None:
            total.update(json.dumps(["mask", self.mask.shape]).encode())
            total.update(np.ascontiguousarray(self.mask).astype(np.uint8).tobytes())
        return total.hexdigest()


@dataclass(frozen=True)
class Case:
    """One recipe: `build()` gives the inputs, the same bits each time.

    needs   what a kernel must claim beyond the operation's own options, from the words in
            `verify.declaration.FEATURES`.
    notes   axis sizes and levels that reports may use, such as {"n_k": 4096, "level": 88.7}.
    """

    family: str
    name: str
    format: Format
    operation: Operation
    build: Callable[[], Inputs] = field(compare=False)
    needs: frozenset[str] = frozenset()
    notes: Mapping[str, float] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.family}/{self.format.name}/{self.name}"


@dataclass(frozen=True)
class Plan:
    """What a family is asked for: an operation in a format, how much, and from which seed."""

    operation: OperationName
    format: Format
    profile: Profile = "standard"
    seed: int = 0

    def draws(self, *key: object) -> Draws:
        """The integer stream that belongs to this key, format and seed."""
        return Draws("/".join(map(str, (self.seed, self.operation, self.format.name, *key))))


@dataclass(frozen=True)
class Family:
    """A generator of cases that hunts one failure.

    hypothesis   the failure that it looks for: what a wrong kernel does.
    effect       what failing means to a user.
    source       the paper, report or derivation it comes from.
    cases        from a plan to its cases; yields nothing where the plan's operation does not apply.
    """

    name: str
    hypothesis: str
    effect: str
    source: str
    cases: Callable[[Plan], Iterable[Case]] = field(compare=False)
