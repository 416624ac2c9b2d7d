"""Truth of a case under what the kernel declares: corner, scale, empty rows, base of the LSE.

The oracle answers each question once and remembers it, so that many kernels share one truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import references
from references.decompose import Decomposition, decompose, decompose_softmax
from references.enclosure import (
    FINITE,
    NAN,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    TIERS,
    AttentionTruth,
    Enclosure,
)
from verify.audit import audit_attention, audit_gradients, audit_rows, require_overlap
from verify.case import Inputs
from verify.declaration import Declaration
from verify.formats import BINARY32, FORMATS, Format
from verify.operation import Operation

Array = NDArray[np.float64]
T = TypeVar("T")

# 1/ln 2 as the sum of two float64 numbers; the rest is below 2^-108.
LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)


@dataclass(frozen=True)
class Truth:
    """Enclosures of what the kernel should return.

    magnitude      sum P|v| (attention only), the shape of the output
    gradients, magnitudes   of a backward operation: all gradients by name (`output` is the first),
                   and the sums of their absolute terms
    unspecified    rows about which the kernel declares nothing: anything is accepted there;
                   unspecified_lse the same for the log-sum-exp; unspecified_p, of a gradient, those
                   of them whose probabilities may not be finite
    """

    output: Enclosure
    lse: Enclosure | None = None
    magnitude: Array | None = None
    unspecified: NDArray[np.bool_] | None = None
    unspecified_lse: NDArray[np.bool_] | None = None
    unspecified_p: NDArray[np.bool_] | None = None
    gradients: Mapping[str, Enclosure] = field(default_factory=dict)
    magnitudes: Mapping[str, Array] = field(default_factory=dict)

    def enclosures(self) -> dict[str, Enclosure]:
        """All of them by the name of the output."""
        if self.gradients:
            return dict(self.gradients)
        found = {"output": self.output}
        return found if self.lse is None else found | {"lse": self.lse}

    @property
    def tier(self) -> str:
        """Which tiers made the rows, such as 'fast' or 'arb+fast'."""
        return "+".join(TIERS[code] for code in np.unique(self.output.tier)) or "none"


class Oracle:
    """Answers questions about cases; each is computed once per process.

    tier      the tier that is asked first: 'fast' (falls back by itself), 'arb' or 'exact'.
    audits    rows checked so far against mpmath.
    """

    def __init__(self, tier: str = "fast", audit: int = 1) -> None:
        self.tier = tier
        self.audit = audit
        self.audits = 0
        self._memory: dict[Any, Any] = {}
        self._surer: Oracle | None = None

    @property
    def _audits(self) -> bool:
        """Whether there is another tier to compare with, and it was asked for."""
        return bool(self.audit) and self.tier != "exact"

    @property
    def route(self) -> str:
        """The tier that answers: `tier`, or the next one where its assumptions fail here."""
        name: str = references.route(self.tier)[0]
        return name

    def truth(self, operation: Operation, inputs: Inputs, declared: Declaration) -> Truth:
        """The truth of a case for a kernel with these declarations."""
        if operation.backward:
            gradients = self._gradients(operation, inputs)
            return self._leaking(gradients, operation, inputs, declared)
        if operation.name != "attention":
            return self._softmax(operation, inputs)
        found = self._attention(operation, inputs, self.tier)
        output = found.output
        if declared.empty_row in ("nan", "mean"):
            output = self._empty_rows(output, operation, inputs, declared.empty_row)
        lse = base_two(found.lse) if declared.lse_base == "2" else found.lse
        if declared.empty_lse in ("inf", "0"):
            empty = self.decomposition(operation, inputs).empty
            lse = _empty_lse(lse, empty, declared.empty_lse)
        rows = self._unspecified(operation, inputs, declared)
        free = rows | self.decomposition(operation, inputs).empty
        return Truth(
            output, lse, found.magnitude, rows, free if declared.empty_lse == "any" else rows
        )

    def _unspecified(
        self, operation: Operation, inputs: Inputs, declared: Declaration
    ) -> NDArray[np.bool_]:
        """Rows that a declaration takes out: empty ones ('any'), and those that see nothing of a
        NaN or infinity which the kernel declares may leak."""
        rows = np.zeros(inputs["q"].shape[:3], np.bool_)
        if declared.empty_row == "any":
            rows |= self.decomposition(operation, inputs).empty
        if declared.masked_nonfinite == "leaks":
            removed = self.decomposition(operation, inputs).removed
            rows |= _hidden_nonfinite(removed, inputs, "k", "v")
            rows |= self._hidden_overflow(operation, inputs)
        return rows

    def confirm(self, operation: Operation, inputs: Inputs, declared: Declaration) -> Truth:
        """The same by Arb: what a FAIL or an undecided verdict rests on.

        Raises      OracleError where the two enclosures have no point in common.
        """
        first = self.truth(operation, inputs, declared)
        if self.tier == "arb":
            return first
        if self._surer is None:
            self._surer = Oracle(tier="arb", audit=0)
        second = self._surer.truth(operation, inputs, declared)
        surer = second.enclosures()
        for name, enclosure in first.enclosures().items():
            require_overlap(enclosure, surer[name], f"{name}: tiers {self.tier} and arb")
        return second

    def decomposition(
        self, operation: Operation, inputs: Inputs, queries: tuple[int, int] | None = None
    ) -> Decomposition:
        """Scores, probabilities and row sums, from which bounds are made; of a range of queries
        where one is given, and then not remembered."""
        if queries is not None:
            return decomposed(operation, inputs, queries)
        key = ("decomposition", operation.forward, inputs.digest)
        return self._once(key, lambda: decomposed(operation, inputs))

    def _leaking(
        self, found: Truth, operation: Operation, inputs: Inputs, declared: Declaration
    ) -> Truth:
        """Rows that a declaration takes out: those that see nothing of a NaN, an infinity, or of a
        product that overflows, which the kernel declares may leak from under a mask.

        A removed key leaks by its score (k not finite, or q k overflows: P of the row may be NaN)
        or by its value (v not finite, or dO v overflows the format that dP is kept in: dP and dS
        may be NaN, but P is untouched).
        Source      docs/theory/bounds.md, section 14.6.
        """
        if not operation.is_attention or declared.masked_nonfinite != "leaks":
            return found
        removed = self.decomposition(operation, inputs).removed
        by_score = _hidden_nonfinite(removed, inputs, "k")
        by_score |= self._hidden_overflow(operation, inputs)
        rows = by_score | _hidden_nonfinite(removed, inputs, "v")
        with np.errstate(invalid="ignore", over="ignore"):
            v = np.repeat(np.abs(inputs["v"].values), removed.shape[1] // inputs["v"].shape[1], 1)
            size = np.abs(inputs["do"].values) @ v.swapaxes(2, 3)
        limit = _dp_format(declared, inputs["do"].format).largest
        rows |= np.asarray((removed & ~(size <= limit / 2)).any(axis=-1))
        return replace(found, unspecified=rows, unspecified_p=by_score)

    def _gradients(self, operation: Operation, inputs: Inputs) -> Truth:
        def compute() -> Truth:
            if operation.name == "attention_backward":
                q, k, v, options = _arguments(operation, inputs)
                do = inputs["do"].values
                found = references.attention_gradients(q, k, v, do, tier=self.tier, **options)
                if self._audits:
                    visible = self.decomposition(operation, inputs).visible
                    self.audits += audit_gradients(
                        q, k, v, do, options, visible, found, inputs.digest
                    )
                parts, magnitudes = found.parts(), found.magnitude
                return Truth(
                    parts["dq"], magnitude=magnitudes["dq"], gradients=parts, magnitudes=magnitudes
                )
            x, dy = inputs["x"].values, inputs["dy"].values
            name = f"{operation.forward.name}_gradient"
            dx: Enclosure = getattr(references, name)(x, dy, tier=self.tier)
            if self._audits:
                self.audits += audit_rows(name, (x, dy), dx, inputs.digest)
            return Truth(dx, gradients={"dx": dx})

        return self._once(("gradients", operation, inputs.digest), compute)

    def _softmax(self, operation: Operation, inputs: Inputs) -> Truth:
        name = "log_softmax" if operation.name == "cross_entropy" else operation.name

        def compute() -> Enclosure:
            x = inputs["x"].values
            found: Enclosure = getattr(references, name)(x, tier=self.tier)
            if self._audits:
                self.audits += audit_rows(name, (x,), found, inputs.digest)
            return _loss(found, inputs.integers["target"]) if name != operation.name else found

        return Truth(self._once((operation, inputs.digest), compute))

    def _attention(self, operation: Operation, inputs: Inputs, tier: str) -> AttentionTruth:
        def compute() -> AttentionTruth:
            q, k, v, options = _arguments(operation, inputs)
            found = references.attention(q, k, v, tier=tier, **options)
            if self._audits:
                self.audits += audit_attention(q, k, v, options, found, inputs.digest)
            return found

        return self._once((operation, inputs.digest, tier), compute)

    def _once(self, key: Any, compute: Callable[[], T]) -> T:
        if key not in self._memory:
            self._memory[key] = compute()
        found: T = self._memory[key]
        return found

    def _empty_rows(
        self, output: Enclosure, operation: Operation, inputs: Inputs, declared: str
    ) -> Enclosure:
        """Replace rows without keys by what the kernel declares for them."""
        empty = self.decomposition(operation, inputs).empty
        if not empty.any():
            return output
        if declared == "mean":
            return _where(empty, self._mean_of_v(inputs), output)
        wide = empty[..., None]
        classes = np.where(wide, NAN, output.classes).astype(np.uint8)
        return replace(output, hi=np.where(wide, np.nan, output.hi), classes=classes)

    def _mean_of_v(self, inputs: Inputs) -> Enclosure:
        q = np.zeros(inputs["q"].shape)
        plain = Operation("attention", scale=1.0)
        k, v = inputs["k"].values, inputs["v"].values
        return self._once(
            ("mean", inputs.digest),
            lambda: references.attention(
                q, np.zeros(k.shape), v, tier=self.tier, scale=plain.scale
            ),
        ).output

    def _hidden_overflow(self, operation: Operation, inputs: Inputs) -> NDArray[np.bool_]:
        """Rows with a removed key whose score, or its multiple by log2 e = 1.443, overflows
        binary32: inf - inf if masks are added."""
        removed = self.decomposition(operation, inputs).removed
        q, k = np.abs(inputs["q"].values), np.abs(inputs["k"].values)
        repeat = q.shape[1] // max(k.shape[1], 1)
        with np.errstate(invalid="ignore", over="ignore"):
            size = q @ np.repeat(k, repeat, axis=1).swapaxes(2, 3)
        return np.asarray((removed & ~(size <= BINARY32.largest / 1.45)).any(axis=-1))


def _loss(log_softmax: Enclosure, target: NDArray[np.int64]) -> Enclosure:
    """The cross-entropy of each row: -log_softmax at the target; a change of sign is exact."""
    rows = np.arange(len(target))
    before = log_softmax.classes[rows, target]
    classes = before & ~np.uint8(POSITIVE_INFINITY | NEGATIVE_INFINITY)
    for old, new in (
        (POSITIVE_INFINITY, NEGATIVE_INFINITY),
        (NEGATIVE_INFINITY, POSITIVE_INFINITY),
    ):
        classes |= np.where(before & old, new, 0).astype(np.uint8)
    hi, lo = -log_softmax.hi[rows, target], -log_softmax.lo[rows, target]
    return Enclosure(hi, lo, log_softmax.radius[rows, target], classes, log_softmax.tier)


def decomposed(
    operation: Operation, inputs: Inputs, queries: tuple[int, int] | None = None
) -> Decomposition:
    """`Oracle.decomposition`, computed and not remembered."""
    if not operation.is_attention:
        return decompose_softmax(inputs["x"].values)
    q, k, v, options = _arguments(operation, inputs)
    return decompose(q, k, v, **options, queries=queries)


def _empty_lse(lse: Enclosure, empty: NDArray[np.bool_], declared: str) -> Enclosure:
    """The log-sum-exp with what is declared for rows without keys: 'inf' or '0'."""
    value, classes = {"inf": (np.inf, POSITIVE_INFINITY), "0": (0.0, FINITE)}[declared]
    return replace(
        lse,
        hi=np.where(empty, value, lse.hi),
        lo=np.where(empty, 0.0, lse.lo),
        radius=np.where(empty, 0.0, lse.radius),
        classes=np.where(empty, classes, lse.classes).astype(np.uint8),
    )


def _dp_format(declared: Declaration, fmt: Format) -> Format:
    """The narrowest format in which a kernel of this declaration may keep dP: what its model says,
    and that of the input where it names a preset or says nothing."""
    model: Any = declared.model
    if isinstance(model, Mapping) and fmt.name in model:
        model = model[fmt.name]
    models = [model] if model is None or isinstance(model, (str, Mapping)) else list(model)
    names = [m.get("dp_format") if isinstance(m, Mapping) else fmt.name for m in models]
    return min((FORMATS[name or "fp32"] for name in names), key=lambda found: found.largest)


def _hidden_nonfinite(removed: NDArray[np.bool_], inputs: Inputs, *names: str) -> NDArray[np.bool_]:
    """Rows (batch, heads, n_q) with a removed key whose k or v (`names`) is not finite."""
    finite = [np.isfinite(inputs[name].values).all(axis=-1) for name in names]
    bad = ~np.logical_and.reduce(finite)
    per_head = np.repeat(bad, removed.shape[1] // max(bad.shape[1], 1), axis=1)
    return np.asarray((removed & per_head[:, :, None, :]).any(axis=-1))


def _arguments(operation: Operation, inputs: Inputs) -> tuple[Array, Array, Array, dict[str, Any]]:
    options: dict[str, Any] = operation.options()
    for name in ("bias", "sinks"):
        if inputs.values(name) is not None:
            options[name] = inputs.values(name)
    if inputs.mask is not None:
        options["mask"] = inputs.mask
    return inputs["q"].values, inputs["k"].values, inputs["v"].values, options


def base_two(lse: Enclosure) -> Enclosure:
    """The enclosure of LSE / ln 2.

    Guarantee   the product of two words by two words loses at most 2^-100 |LSE|: in the radius.
    """
    with np.errstate(invalid="ignore"):
        from_finite = np.where(lse.classes == FINITE, lse.hi, 0.0)
        product = from_finite * LOG2_E[0]
        rest = _product_error(from_finite, LOG2_E[0], product)
        rest = (
            rest
            + from_finite * LOG2_E[1]
            + np.where(lse.classes == FINITE, lse.lo, 0.0) * LOG2_E[0]
        )
        hi = product + rest
        lo = rest - (hi - product)
    finite = lse.classes == FINITE
    radius = np.where(finite, lse.radius * 1.4427 + 2.0**-100 * np.abs(hi), 0.0)
    return replace(
        lse, hi=np.where(finite, hi, lse.hi), lo=np.where(finite, lo, 0.0), radius=radius
    )


def _product_error(a: Array, b: float, product: Array) -> Array:
    """a b - fl(a b) exactly (Dekker, Veltkamp)."""
    split = 134217729.0
    ah = a * split - (a * split - a)
    bh = b * split - (b * split - b)
    al, bl = a - ah, b - bh
    return np.asarray(((ah * bh - product) + ah * bl + al * bh) + al * bl)


def _where(rows: NDArray[np.bool_], a: Enclosure, b: Enclosure) -> Enclosure:
    wide = rows[..., None]
    return Enclosure(
        np.where(wide, a.hi, b.hi),
        np.where(wide, a.lo, b.lo),
        np.where(wide, a.radius, b.radius),
        np.where(wide, a.classes, b.classes).astype(np.uint8),
        np.where(rows, a.tier, b.tier).astype(np.uint8),
    )
