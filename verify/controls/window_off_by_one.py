"""The window holds one key more, or one fewer, on its left side.

Shows       window (0, 0) or (1, 0); in a window of 4096 nothing below 1e-2 shows.
Report      https://github.com/Dao-AILab/flash-attention/issues/2709.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


@dataclass(frozen=True)
class OffByOne(Online):
    """left + `by` keys on the left, in windows of at least `least` keys."""

    by: int = 1
    least: int = 0

    def visible(
        self,
        q: Tensor,
        k: Tensor,
        causal: bool,
        window: tuple[int, int] | None,
        mask: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        if window is not None and window[0] >= self.least:
            window = (max(window[0] + self.by, 0), window[1])
        return super().visible(q, k, causal, window, mask, bias)


@control("window-off-by-one", "a window of one key more or fewer")
def window_off_by_one(by: int = 1, least: int = 0, block: int = 16) -> Kernel:
    """`by`: 1 or -1; `least`: keys on the left from which on it is so."""
    return honest(OffByOne(block=block, by=by, least=least))
