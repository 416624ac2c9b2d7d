"""Kernel: what the parent process knows about a kernel, which lives elsewhere.

Everything here was reported by the worker (`verify.describing.describe`) or declared by the
user; the function itself is never imported into the process that holds the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from verify.arithmetic import ArithmeticModel
from verify.case import Case
from verify.declaration import SIGNATURE_FEATURES, Declaration
from verify.errors import UsageError
from verify.evidence import IN_WORKER
from verify.formats import Format, format_named
from verify.operation import OPERATIONS, PACKED, Direction, Operation, OperationName, direction_of
from verify.presets import Preset, default_preset, preset


@dataclass(frozen=True)
class Kernel:
    """A kernel by name, with the features that its signature shows and what it declares.

    identity     file, digest, package and version, for the certificate.
    unavailable  the reason why it cannot run here, or None.
    expected     'fail' for a kernel that is shipped because it must be refuted.
    refuted      formats in which it is known to be refuted, with the reason.
    way          by which way its outputs come (`verify.evidence.WAYS`).
    """

    name: str
    operation: OperationName
    features: frozenset[str]
    declaration: Declaration
    formats: tuple[str, ...]
    devices: tuple[str, ...]
    identity: Mapping[str, Any]
    environment: Mapping[str, Any]
    summary: str = ""
    unavailable: str | None = None
    expected: str = "pass"
    refuted: Mapping[str, str] = field(default_factory=dict)
    way: str = IN_WORKER

    @classmethod
    def from_description(cls, data: Mapping[str, Any], declared: Mapping[str, Any]) -> Kernel:
        """From the worker's description and the declarations of the command line."""
        declaration = Declaration.from_json(data["declaration"]).but(**declared)
        operation = data["operation"]
        if operation not in OPERATIONS:
            raise UsageError(f"unknown operation {operation!r}; known: {', '.join(OPERATIONS)}")
        return cls(
            name=data["name"],
            operation=operation,
            features=frozenset(data["features"]),
            declaration=declaration,
            formats=tuple(data["formats"]),
            devices=tuple(data["devices"]),
            identity=data["identity"],
            environment=data["environment"],
            summary=data["summary"],
            unavailable=data["unavailable"],
            expected=data["expected"],
            refuted=dict(data.get("refuted", {})),
            way=data.get("way", IN_WORKER),
        )

    @property
    def direction(self) -> Direction:
        """Whether its outputs are gradients."""
        return direction_of(self.operation)

    def models(self, fmt: Format) -> Preset:
        """The declared arithmetic in a format, else the default of the format."""
        declared = self.declaration.model
        if isinstance(declared, Mapping) and any(key in _format_names() for key in declared):
            declared = declared.get(fmt.name)
        if declared is None:
            return default_preset(fmt)
        if isinstance(declared, str):
            return preset(declared, fmt)
        several = [declared] if isinstance(declared, Mapping) else declared
        formats = {"input": fmt.name, "output": fmt.name, "p_format": fmt.name}
        models = tuple(ArithmeticModel.from_json({**formats, **fields}) for fields in several)
        return Preset(models[0].name or "declared", models, "as the kernel declares")

    def expected_in(self, fmt: Format) -> str:
        """The verdict that the kernel is shipped for in a format: 'pass' or 'fail'."""
        return "fail" if fmt.name in self.refuted else self.expected

    def resolve(self, operation: Operation, d: int | None) -> Operation:
        """The operation that the kernel is asked for: its corner, and the scale that it is passed.

        A kernel with a `scale` keyword is passed a float, so the truth is that of this float.
        """
        if not operation.is_attention:
            return operation
        resolved = replace(operation, corner=self.declaration.corner)
        if "scale" in self.features and operation.scale is None and d:
            return replace(resolved, scale=float(d) ** -0.5)
        return resolved

    def out_of_scope(self, case: Case) -> str | None:
        """Why the kernel does not claim a case, or None."""
        lacking = sorted(
            need
            for need in case.needs
            if (need in SIGNATURE_FEATURES and need not in self.features)
            or need in self.declaration.without
        )
        lacking += [
            w for w in self.declaration.without if "+" in w and case.needs.issuperset(w.split("+"))
        ]
        if lacking:
            return f"does not claim {', '.join(lacking)}"
        unused = sorted(set(self.declaration.requires) - set(case.needs))
        if unused:
            return f"claims calls with {', '.join(unused)} only"
        cornered = case.needs & {"causal", "window"} and "cross" in case.needs
        if case.operation.name in PACKED and cornered and self.declaration.corner == "top-left":
            return "packed sequences follow the bottom-right corner"
        return self._shape_out_of_scope(case)

    def _shape_out_of_scope(self, case: Case) -> str | None:
        declared = self.declaration
        d = int(case.notes.get("d", 0))
        if d and not declared.d[0] <= d <= declared.d[1]:
            return f"claims d from {declared.d[0]} to {declared.d[1]} only"
        if d and d % declared.d_multiple:
            return f"claims multiples of {declared.d_multiple} for d only"
        for axis in ("n_q", "n_k"):
            if int(case.notes.get(axis, 0)) % declared.n_multiple:
                return f"claims multiples of {declared.n_multiple} for {axis} only"
        return None


def _format_names() -> frozenset[str]:
    return frozenset(("fp16", "bf16", "fp32", "e4m3", "e5m2", "fp64"))


def formats_named(text: str, kernel: Kernel) -> list[Format]:
    """The formats of a comma-separated list, or all that the kernel claims for 'all'."""
    names = (
        list(kernel.formats) if text == "all" else [format_named(t).name for t in text.split(",")]
    )
    missing = [name for name in names if name not in kernel.formats]
    if missing:
        raise UsageError(
            f"kernel {kernel.name!r} does not claim {missing[0]}; "
            f"it claims {', '.join(kernel.formats)}"
        )
    return [format_named(name) for name in names]
