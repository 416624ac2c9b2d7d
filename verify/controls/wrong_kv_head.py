"""Head h reads kv head h mod kv_heads instead of h // (heads / kv_heads).

Shows       heads 6, kv_heads 2, V[h] = h.
"""

from __future__ import annotations

from verify.controls._control import control, honest
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online


class WrongKvHead(Online):
    """Interleaved instead of grouped kv heads."""

    def kv_head(self, head: int, heads: int, kv_heads: int) -> int:
        return head % kv_heads


@control("wrong-kv-head", "kv head = head mod kv_heads")
def wrong_kv_head(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(WrongKvHead(block=block))
