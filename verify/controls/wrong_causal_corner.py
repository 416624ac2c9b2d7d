"""The causal diagonal starts at the top left where the bottom right is declared.

Shows       n_q = 1, n_k = 16: only the first key is seen.
Report      FlashAttention 2.0 against 2.1; torch's is_causal has the other corner to this day.
"""

from __future__ import annotations

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


@control("wrong-causal-corner", "top-left where bottom-right is declared")
def wrong_causal_corner(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(Online(block=block, corner="top-left"))
