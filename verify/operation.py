"""Operation: the mathematical function that a kernel computes, with its options.

What each option means is defined once, in `references`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

OperationName = Literal[
    "softmax",
    "log_softmax",
    "logsumexp",
    "attention",
    "attention_backward",
    "softmax_backward",
    "log_softmax_backward",
    "attention_varlen",
    "attention_paged",
    "cross_entropy",
]
Corner = Literal["bottom-right", "top-left"]
Direction = Literal["forward", "backward"]

OPERATIONS: tuple[OperationName, ...] = (
    "softmax",
    "log_softmax",
    "logsumexp",
    "attention",
    "attention_backward",
    "softmax_backward",
    "log_softmax_backward",
    "attention_varlen",
    "attention_paged",
    "cross_entropy",
)

# Attention whose tensors lie in another way (`verify.packing`).
PACKED: tuple[OperationName, ...] = ("attention_varlen", "attention_paged")

# The operations that `attncert bench` has shapes for.
TIMED: tuple[OperationName, ...] = ("softmax", "log_softmax", "logsumexp", "attention")

# The gradient of an operation with respect to its inputs is an operation of its own.
BACKWARD: dict[OperationName, OperationName] = {
    "attention": "attention_backward",
    "softmax": "softmax_backward",
    "log_softmax": "log_softmax_backward",
}
FORWARD: dict[OperationName, OperationName] = {b: f for f, b in BACKWARD.items()}

# Positional arguments: the tensors that every kernel of an operation takes.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "softmax": ("x",),
    "log_softmax": ("x",),
    "logsumexp": ("x",),
    "attention": ("q", "k", "v"),
    "attention_backward": ("q", "k", "v", "do"),
    "softmax_backward": ("x", "dy"),
    "log_softmax_backward": ("x", "dy"),
    "attention_varlen": ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k"),
    "attention_paged": ("q", "k_cache", "v_cache", "block_table", "cache_seqlens"),
    "cross_entropy": ("x", "target"),
}


def direction_of(name: str) -> Direction:
    """Whether an operation is a gradient."""
    return "backward" if name in FORWARD else "forward"


def gradient_names(name: str, tensors: Iterable[str]) -> tuple[str, ...]:
    """The outputs of a backward operation, given the names of its input tensors."""
    if name != "attention_backward":
        return ("dx",)
    optional = [f"d{extra}" for extra in ("bias", "sinks") if extra in set(tensors)]
    return ("dq", "dk", "dv", *optional)


@dataclass(frozen=True)
class Operation:
    """One operation with its options; tensors (q, k, v, mask, bias, sinks or x) are in `Inputs`,
    and so is the gradient that a backward operation receives (do or dy).

    scale    None: exactly 1/sqrt(d); otherwise the real number that the float denotes.
    corner   the causal and window diagonal that the truth uses.
    gives_lse   whether the log-sum-exp is judged as well (the kernel has `return_lse`).
    """

    name: OperationName
    scale: float | None = None
    causal: bool = False
    corner: Corner = "bottom-right"
    window: tuple[int, int] | None = None
    softcap: float | None = None

    @property
    def backward(self) -> bool:
        """Whether this is the gradient of another operation."""
        return self.name in FORWARD

    @property
    def forward(self) -> Operation:
        """The operation whose gradient this is (itself where it is none)."""
        return replace(self, name=FORWARD.get(self.name, self.name))

    @property
    def is_attention(self) -> bool:
        return self.forward.name == "attention" or self.name in PACKED

    @property
    def judged(self) -> Operation:
        """The operation that truth and bound are about: packed attention is attention with a mask
        that says which keys a query sees, causal and window included."""
        if self.name not in PACKED:
            return self
        return replace(self, name="attention", causal=False, window=None)

    def options(self) -> dict[str, Any]:
        """The options that differ from their defaults, as plain data."""
        plain = asdict(self)
        del plain["name"]
        default = {
            "scale": None,
            "causal": False,
            "corner": "bottom-right",
            "window": None,
            "softcap": None,
        }
        return {k: v for k, v in plain.items() if v != default[k]}
