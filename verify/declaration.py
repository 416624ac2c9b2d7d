"""Declaration: what a kernel says about itself that its signature cannot say.

Set by the decorator `declare`, by options of the command line, or by an adapter.  What is not
declared has the default below, which is the semantics of `references`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from verify.errors import UsageError
from verify.evidence import IN_WORKER
from verify.operation import Corner

F = TypeVar("F", bound=Callable[..., Any])

# Words for what a case may need.  The first row is read off a signature (keyword present =
# claimed); the second counts as claimed unless `without` names it.
SIGNATURE_FEATURES = ("scale", "causal", "window", "mask", "bias", "softcap", "sinks", "return_lse")
SHAPE_FEATURES = (
    "gqa",
    "d_v",
    "cross",
    "ragged",
    "strides",
    "empty",
    "nonfinite",
    "dbias",
    "backward",
)
FEATURES = SIGNATURE_FEATURES + SHAPE_FEATURES

FEATURE_MEANING = {
    "gqa": "fewer kv heads than heads",
    "d_v": "d_v different from d",
    "cross": "n_q different from n_k",
    "ragged": "n_q or n_k not a multiple of 16",
    "strides": "inputs that are not contiguous",
    "empty": "n_k = 0 or batch = 0",
    "nonfinite": "NaN or infinity in the inputs",
    "dbias": "the gradient of a bias",
    "backward": "gradients by automatic differentiation",
}


@dataclass(frozen=True)
class Declaration:
    """What a kernel declares.

    model            a preset name, or fields of an ArithmeticModel as plain data, or a list of such
                     fields (the kernel follows one of them), or per input format a mapping of
                     any; None: the default of the format
    without          features that it does not claim although its signature would allow them; two
                     joined by a plus sign are not claimed together ("causal+mask")
    requires         features that every call must use, such as 'causal'
    corner           the diagonal of `causal` and `window`
    empty_row        what a row without keys gives: '0', 'nan', 'mean' (of V) or 'any'
    empty_lse        the log-sum-exp of such a row: '-inf', 'inf', '0' or 'any'
    lse_base         'e' or '2'
    deterministic    equal calls give equal bits
    batch_invariant  a batch row has the same bits alone
    one_key_exact    a single visible key returns its v bit for bit
    masked_nonfinite 'ignored': NaN under a mask leaves no trace; 'leaks': it may show in its row
    score_limit      largest |score| that the kernel claims to handle (None: all)
    d                (smallest, largest) head dimension; d_multiple, n_multiple: it must be one
    rounding         'nearest' where every rounding is declared to be to nearest
    calls            operators of other libraries that do a whole softmax or attention which it may
                     call: words of their names, with commas, or 'none'; None: it says nothing
    """

    model: str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    without: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    corner: Corner = "bottom-right"
    empty_row: Literal["0", "nan", "mean", "any"] | None = None
    empty_lse: Literal["-inf", "inf", "0", "any"] = "-inf"
    lse_base: Literal["e", "2"] = "e"
    deterministic: bool = False
    batch_invariant: bool = False
    one_key_exact: bool = False
    masked_nonfinite: Literal["ignored", "leaks"] = "ignored"
    score_limit: float | None = None
    d: tuple[int, int] = (1, 2**31)
    d_multiple: int = 1
    n_multiple: int = 1
    rounding: Literal["nearest"] | None = None
    calls: str | None = None
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self)
        plain["without"], plain["requires"] = list(self.without), list(self.requires)
        plain["d"] = list(self.d)
        return plain

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Declaration:
        check_names(data)
        values = dict(data)
        for key in ("without", "requires", "d"):
            if key in values:
                values[key] = tuple(values[key])
        check_values(values)
        return cls(**values)

    def but(self, **changes: Any) -> Declaration:
        """This declaration with some fields replaced."""
        check_names(changes)
        check_values(changes)
        return replace(self, **changes)


def check_names(names: Mapping[str, Any]) -> None:
    known = {f.name for f in fields(Declaration)}
    unknown = sorted(set(names) - known)
    if unknown:
        raise UsageError(
            f"a kernel cannot declare {unknown[0]!r}; it can: {', '.join(sorted(known))}"
        )
    for key in ("without", "requires"):
        words = {word for entry in names.get(key, ()) for word in entry.split("+")}
        extra = sorted(words - set(FEATURES))
        if extra:
            raise UsageError(
                f"unknown feature {extra[0]!r} in `{key}`; features: {', '.join(FEATURES)}"
            )


def check_values(values: Mapping[str, Any]) -> None:
    """Raises UsageError for a word that a field does not know, and for a value of another type."""
    for name, value in values.items():
        words, kinds = _allowed()[name]
        if words and value not in words and not (value is None and type(None) in kinds):
            known = ", ".join(map(repr, words))
            raise UsageError(f"{name} cannot be {value!r}; it can be {known}")
        if not words and bool in kinds and not isinstance(value, bool):
            raise UsageError(f"{name} must be true or false, not {value!r}")
        if not words and kinds <= {int, float, type(None)} and _is_no_number(value, kinds):
            raise UsageError(f"{name} must be a number, not {value!r}")
    d = values.get("d", (1, 1))
    if not isinstance(d, tuple) or len(d) != 2 or not all(isinstance(n, int) for n in d):
        raise UsageError(f"d must be the smallest and the largest of its values, not {d!r}")


def _is_no_number(value: Any, kinds: set[Any]) -> bool:
    if value is None:
        return type(None) not in kinds
    return isinstance(value, bool) or not isinstance(value, (int, float))


@cache
def _allowed() -> dict[str, tuple[tuple[Any, ...], set[Any]]]:
    """For each field the words that it knows (none: any), and the types that it has."""
    found = {}
    for name, hint in get_type_hints(Declaration).items():
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        words = tuple(w for p in parts if get_origin(p) is Literal for w in get_args(p))
        found[name] = (words, {p for p in parts if get_origin(p) is not Literal})
    return found


@dataclass(frozen=True)
class Registration:
    """What `declare` and `kernel` leave on a function, and what a foreign kernel says of itself.

    claims    the features of a kernel that has no Python signature (None: read the signature)
    way       by which way its outputs come (`verify.evidence.WAYS`)
    files     the files that a foreign kernel is made of; version: the one that it tells
    """

    declaration: Declaration
    name: str | None = None
    operation: str | None = None
    formats: tuple[str, ...] = ("fp16", "bf16", "fp32")
    devices: tuple[str, ...] = ("cpu", "cuda")
    summary: str = ""
    factory: bool = False  # the function takes options and returns the kernel
    unavailable: Callable[[], str | None] | None = field(default=None, compare=False)
    tensors: Literal["torch", "numpy", "raw"] = "torch"
    expected: Literal["pass", "fail"] = "pass"
    refuted: Mapping[str, str] = field(default_factory=dict)  # formats known to fail: the reason
    libraries: tuple[str, ...] = ()  # distributions whose versions a certificate records
    claims: tuple[str, ...] | None = None
    way: str = IN_WORKER
    files: tuple[Path, ...] = ()
    version: str = ""


ATTRIBUTE = "__attncert__"


def declare(
    *, operation: str | None = None, tensors: str = "torch", **declared: Any
) -> Callable[[F], F]:
    """Decorator: what this kernel declares (the fields of `Declaration`).

        @declare(model="eager", corner="top-left")
        def attention(q, k, v, *, scale, causal=False): ...

    tensors    'torch' (default) or 'numpy': what the function takes and returns.
    Raises     UsageError for a field that does not exist.
    """
    check_names(declared)
    check_values(declared)

    def mark(function: F) -> F:
        registration = Registration(Declaration(**declared), operation=operation, tensors=tensors)  # type: ignore[arg-type]
        setattr(function, ATTRIBUTE, registration)
        return function

    return mark


def from_words(model: str | None, declared: tuple[str, ...]) -> dict[str, Any]:
    """`--model` and `--declare KEY=VALUE` as fields of a Declaration (values: JSON or text)."""
    values: dict[str, Any] = {"model": model} if model else {}
    for item in declared:
        key, found, text = item.partition("=")
        if not found:
            raise UsageError(f"--declare {item!r} has no '='; write KEY=VALUE")
        try:
            values[key.strip()] = json.loads(text)
        except ValueError:
            values[key.strip()] = text.strip()
    for key in values.keys() & _allowed().keys():  # lse_base=2 means the word '2'
        if _allowed()[key][0] and not isinstance(values[key], str) and values[key] is not None:
            values[key] = str(values[key])
    for key in ("without", "requires", "d"):
        if isinstance(values.get(key), str):
            values[key] = tuple(values[key].split(","))
        elif isinstance(values.get(key), list):
            values[key] = tuple(values[key])
    if "d" in values and all(str(size).strip().isdigit() for size in values["d"]):
        values["d"] = tuple(int(size) for size in values["d"])
    return values
