"""The last page of each sequence is read to its end.

Shows       length 5, pages of 4 slots: keys 5 to 7 of the cache, left from before, are seen.
Report      a class of faults of paged caches: what a reused page held before is attended to.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.controls._control import control
from verify.declaration import declare
from verify.kernels._attention import Kernel
from verify.kernels._attention_tiled import Online
from verify.kernels.textbook_packed import paged


@control("reads-last-page", "the last page is read to its end", operation="attention_paged")
def reads_last_page() -> Kernel:
    """Lengths are rounded up to whole pages."""
    right = paged(Online())

    def attention_paged(
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        block_table: Tensor,
        cache_seqlens: Tensor,
        *,
        scale: float | None = None,
        return_lse: bool = False,
    ) -> Any:
        """Without causal and window: nothing but the length is wrong."""
        page = k_cache.shape[1]
        whole = (cache_seqlens + page - 1) // page * page
        return right(q, k_cache, v_cache, block_table, whole, scale=scale, return_lse=return_lse)

    return declare(operation="attention_paged", deterministic=True)(attention_paged)
