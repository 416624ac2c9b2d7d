"""How controls are registered, and the declaration of a kernel that believes itself right.

A negative control declares no model of its own, so that it is held to the default of its format,
and claims every property that a right kernel of its kind would have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from verify.kernels import kernel
from verify.kernels._attention import Attention, Kernel
from verify.kernels._attention_backward import FlashBackward

F = TypeVar("F", bound=Callable[..., Any])

CLAIMS: dict[str, Any] = {
    "model": None,
    "deterministic": True,
    "one_key_exact": True,
    "rounding": "nearest",
}


def control(name: str, summary: str, operation: str = "attention", **more: Any) -> Callable[[F], F]:
    """Register a factory of a kernel that must be refuted."""
    return kernel(
        name=f"control-{name}",
        operation=operation,
        summary=summary,
        factory=True,
        expected="fail",
        **more,
    )


def right(name: str, summary: str, operation: str = "attention", **more: Any) -> Callable[[F], F]:
    """Register a factory of an unusual attention kernel that must never be refuted."""
    return kernel(name=f"right-{name}", operation=operation, summary=summary, factory=True, **more)


def cheat(name: str, summary: str, operation: str = "softmax", **declared: Any) -> Callable[[F], F]:
    """Register a kernel that games its judge and must be caught."""
    name = f"cheat-{name}"
    return kernel(name=name, operation=operation, summary=summary, expected="fail", **declared)


def twin(name: str, summary: str, operation: str = "softmax", **declared: Any) -> Callable[[F], F]:
    """Register the honest twin of a cheat, which must pass."""
    return kernel(name=f"right-{name}", operation=operation, summary=summary, **declared)


def honest(algorithm: Attention, **claims: Any) -> Kernel:
    """The kernel, with the claims of a right one."""
    return algorithm.kernel(**CLAIMS | claims)


def honest_backward(algorithm: FlashBackward, **claims: Any) -> Kernel:
    """The backward kernel, with the claims of a right one."""
    return algorithm.kernel(**CLAIMS | {"one_key_exact": False} | claims)


def low_format(name: str) -> str:
    """The 16-bit format that a kernel of this input format would be tempted to use."""
    return "bf16" if name == "fp32" else name
