"""With heads in groups, the sink is read by kv head instead of by head.

Shows       heads 6, kv_heads 2, sinks that differ; without groups it is right.
Report      no report known; sinks are one per query head in gpt-oss, keys and values one per group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from verify.controls._control import control, honest
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


class SinkOfKvHead(Online):
    """sinks[h // group] in place of sinks[h]."""

    def prepared(self, q: Tensor, k: Tensor, v: Tensor, *options: Any) -> Call:
        call = super().prepared(q, k, v, *options)
        if call.sinks is None:
            return call
        heads, kv_heads = q.shape[1], k.shape[1]
        read = [self.kv_head(h, heads, kv_heads) for h in range(heads)]
        return replace(call, sinks=call.sinks[:, read])


@control("sink-of-kv-head", "sinks are read by kv head where heads are in groups")
def sink_of_kv_head(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(SinkOfKvHead(block=block))
