"""Case: one recipe of inputs. Inputs: the bits. Plan: what cases are made for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from verify.formats import BINARY32, Bits, Format
from verify.integers import Draws
from verify.operation import (
    Operation,
    OperationName,
)

Profile = Literal["smoke", "standard", "extensive"]
PROFILES: tuple[Profile, ...] = ("smoke", "standard", "extensive")
Array = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]
Recipe = Callable[[Draws], Arrays]


@dataclass(frozen=True)
class Axes:
    """Axis sizes of one attention case; k and v have kv_heads, v has d_v columns."""

    n_q: int
    n_k: int
    d: int = 64
    batch: int = 1
    heads: int = 1
    kv_heads: int = 0  # 0: as many as heads
    d_v: int = 0  # 0: as d

    def __post_init__(self) -> None:
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "d_v", self.d_v or self.d)

    @property
    def q(self) -> tuple[int, int, int, int]:
        return (self.batch, self.heads, self.n_q, self.d)

    @property
    def k(self) -> tuple[int, int, int, int]:
        return (self.batch, self.kv_heads, self.n_k, self.d)

    @property
    def v(self) -> tuple[int, int, int, int]:
        return (self.batch, self.kv_heads, self.n_k, self.d_v)

    @property
    def scores(self) -> tuple[int, int, int, int]:
        return (self.batch, self.heads, self.n_q, self.n_k)

    @property
    def label(self) -> str:
        """A short name: the sizes that differ from one head of d_v = d."""
        parts = [f"{self.n_q}x{self.n_k}", f"d{self.d}"]
        parts += [f"dv{self.d_v}"] * (self.d_v != self.d)
        parts += [f"b{self.batch}"] * (self.batch != 1) + [f"h{self.heads}"] * (self.heads != 1)
        parts += [f"kv{self.kv_heads}"] * (self.kv_heads != self.heads)
        return "-".join(parts)

    @property
    def notes(self) -> dict[str, float]:
        return {name: float(size) for name, size in vars(self).items()}


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
    """Named tensors: x (rows, n); or q, k, v (batch, heads, n, d), bias, sinks, and mask (bool).

    integers    int32 or int64: targets of a cross-entropy, lengths and page tables.
    """

    tensors: Mapping[str, Tensor]
    mask: NDArray[np.bool_] | None = None
    integers: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def rounded(cls, fmt: Format, arrays: Arrays) -> Inputs:
        """Arrays by name, rounded to the format and kept finite; `mask` stays boolean."""
        tensors = {n: Tensor.rounded(fmt, a) for n, a in arrays.items() if n != "mask"}
        mask = arrays.get("mask")
        return cls(tensors, None if mask is None else np.asarray(mask, np.bool_))

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def values(self, name: str) -> Array | None:
        return self.tensors[name].values if name in self.tensors else None

    def of_queries(self, start: int, stop: int) -> Inputs:
        """The inputs of a range of queries (masks and biases narrowed with them)."""
        tensors = dict(self.tensors)
        q = tensors["q"]
        tensors["q"] = Tensor(q.format, q.bits[:, :, start:stop])
        if "bias" in tensors and tensors["bias"].shape[-2] > 1:
            bias = tensors["bias"]
            tensors["bias"] = Tensor(bias.format, bias.bits[..., start:stop, :])
        mask = self.mask
        if mask is not None and mask.shape[-2] > 1:
            mask = mask[..., start:stop, :]
        return Inputs(tensors, mask)

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
        for name in sorted(self.integers):
            numbers = np.ascontiguousarray(self.integers[name])
            total.update(json.dumps([name, str(numbers.dtype), numbers.shape]).encode())
            total.update(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes())
        return total.hexdigest()


@dataclass(frozen=True)
class Case:
    """One recipe: `build()` gives the inputs, the same bits each time.

    needs   what a kernel must claim beyond the operation's own options, from the words in
            `verify.declaration.FEATURES`.
    notes   axis sizes and levels that reports may use, such as {"n_k": 4096, "level": 88.7}.
    profile the least profile that runs it.
    """

    family: str
    name: str
    format: Format
    operation: Operation
    build: Callable[[], Inputs] = field(compare=False)
    needs: frozenset[str] = frozenset()
    notes: Mapping[str, float] = field(default_factory=dict)
    profile: Profile = "standard"
    unrounded: Callable[[], Inputs] | None = field(default=None, compare=False)

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

    def attention(
        self,
        family: str,
        name: str,
        axes: Axes,
        recipe: Recipe,
        *,
        operation: Operation | None = None,
        extras: Iterable[str] = (),
        nonfinite: bool = False,
        smoke: bool = False,
        extensive: bool = False,
        notes: Mapping[str, float] | None = None,
        measured: bool = False,
    ) -> Case:
        """A case of attention; `recipe` makes q, k, v and the `extras` (mask, bias, sinks).

        `smoke` puts it into every profile, `extensive` into that one only.  `measured`: the recipe
        gives binary32 numbers that somebody measured, so that the effect of rounding them to the
        case's format is told apart from the kernel's error.
        """
        operation = operation or Operation("attention")
        key = (family, name, axes.label)
        wide = (
            partial(self._unrounded, recipe, key) if measured and self.format.width < 32 else None
        )
        return Case(
            family,
            f"{name}-{axes.label}" if name else axes.label,
            self.format,
            operation,
            partial(self._build, recipe, key),
            _attention_needs(operation, axes, extras, nonfinite),
            {**axes.notes, **(notes or {})},
            _least_profile(smoke, extensive),
            wide,
        )

    def rows(
        self,
        family: str,
        name: str,
        shape: tuple[int, int],
        recipe: Callable[[Draws], Array | Arrays],
        *,
        nonfinite: bool = False,
        smoke: bool = False,
        extensive: bool = False,
        notes: Mapping[str, float] | None = None,
    ) -> Case:
        """A case of the plan's softmax, log_softmax or logsumexp; `recipe` makes x (rows, n), or x
        and dy by name where the plan's operation is a gradient."""
        label = f"{shape[0]}x{shape[1]}"
        return Case(
            family,
            f"{name}-{label}" if name else label,
            self.format,
            Operation(self.operation),
            partial(self._build, partial(_as_x, recipe), (family, name, label)),
            _row_needs(shape, nonfinite),
            {"rows": shape[0], "n": shape[1], **(notes or {})},
            _least_profile(smoke, extensive),
        )

    def _unrounded(self, recipe: Recipe, key: tuple[object, ...]) -> Inputs:
        return Inputs.rounded(BINARY32, recipe(self.draws(*key)))

    def _build(self, recipe: Recipe, key: tuple[object, ...]) -> Inputs:
        return Inputs.rounded(self.format, recipe(self.draws(*key)))


def _least_profile(smoke: bool, extensive: bool) -> Profile:
    return "smoke" if smoke else "extensive" if extensive else "standard"


def _as_x(recipe: Callable[[Draws], Array | Arrays], draws: Draws) -> Arrays:
    made = recipe(draws)
    return {"x": made} if isinstance(made, np.ndarray) else made


def _attention_needs(
    operation: Operation, axes: Axes, extras: Iterable[str], nonfinite: bool
) -> frozenset[str]:
    """The one place that says which features a case of attention uses."""
    used = {
        "scale": operation.scale is not None,
        "causal": operation.causal,
        "window": operation.window is not None,
        "softcap": operation.softcap is not None,
        "gqa": axes.kv_heads != axes.heads,
        "d_v": axes.d_v != axes.d,
        "cross": axes.n_q != axes.n_k,
        "ragged": bool(axes.n_q % 16 or axes.n_k % 16),
        "empty": 0 in axes.q or 0 in axes.k,
        "nonfinite": nonfinite,
    }
    return frozenset(extras) | {name for name, present in used.items() if present}


def _row_needs(shape: tuple[int, int], nonfinite: bool) -> frozenset[str]:
    used = {"ragged": bool(shape[1] % 16), "empty": 0 in shape, "nonfinite": nonfinite}
    return frozenset(name for name, present in used.items() if present)
