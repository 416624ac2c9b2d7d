"""Operation: the mathematical function that a kernel computes, with its options.

What each option means is defined once, in `references`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

OperationName = Literal["softmax", "log_softmax", "logsumexp", "attention"]
Corner = Literal["bottom-right", "top-left"]

OPERATIONS: tuple[OperationName, ...] = ("softmax", "log_softmax", "logsumexp", "attention")


@dataclass(frozen=True)
class Operation:
    """One operation with its options; tensors (q, k, v, mask, bias, sinks or x) are in `Inputs`.

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
