"""An option is ignored where another one is given beside it.

Shows       both options in one call; each alone is right.
Report      code paths of fused kernels that take one option and forget the next: a soft cap on the
            path for windows, a mask on the causal path (torch refuses such a pair, others do not).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from verify.controls._control import control, honest
from verify.errors import UsageError
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online

ORDER = ("scale", "causal", "window", "mask", "bias", "softcap", "sinks")  # as `prepared` has them


@dataclass(frozen=True)
class OptionLost(Online):
    """`lost` is dropped where `beside` is given."""

    lost: str = "softcap"
    beside: str = "window"

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *options: Any) -> Call:
        given = dict(zip(ORDER, options, strict=True))
        if given[self.beside] is not None and given[self.beside] is not False:
            given[self.lost] = False if self.lost == "causal" else None
        return super().prepared(q, k, v, *given.values())


@control("option-lost", "a soft cap is ignored where there is a window")
def option_lost(lost: str = "softcap", beside: str = "window", block: int = 16) -> Kernel:
    """`lost`, `beside`: names of options."""
    for name in (lost, beside):
        if name not in ORDER:
            raise UsageError(f"unknown option {name!r}; known: {', '.join(ORDER)}")
    return honest(OptionLost(block=block, lost=lost, beside=beside))
