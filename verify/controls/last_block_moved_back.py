"""The last partial tile is moved back inside, so that its first keys count twice.

Shows       n_k = block + 1, scores of one height: the last keys weigh double.
Report      flash-attention-jax 0.3.1 (reports/findings/flash-attention-jax.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


class MovedBack(Online):
    """A slice that would reach past the end starts earlier, as lax.dynamic_slice has it."""

    def tiles(self, call: Call) -> Iterator[slice]:
        for keys in super().tiles(call):
            yield slice(max(0, min(keys.start, call.n_k - self.block)), keys.stop)


@control("last-block-moved-back", "keys before the last partial tile count twice")
def last_block_moved_back(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(MovedBack(block=block))
