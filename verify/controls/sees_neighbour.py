"""The first key of the next sequence of a packed batch is seen too.

Shows       cu_seqlens [0, 5, 9]: queries 0 to 4 see keys 0 to 5.
Report      Dao-AILab/flash-attention issue 1570: one sequence's length changes another's result.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from verify.controls._control import control
from verify.declaration import declare
from verify.kernels._attention import Kernel, Shifted
from verify.kernels.textbook_packed import varlen


@control("sees-neighbour", "one key of the next sequence is seen", operation="attention_varlen")
def sees_neighbour() -> Kernel:
    """The end of each sequence of keys is one too late."""
    right = varlen(Shifted())

    def attention_varlen(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        *,
        scale: float | None = None,
        return_lse: bool = False,
    ) -> Any:
        """Without causal and window: nothing but the border is wrong."""
        o, lse = right(q, k, v, cu_seqlens_q, cu_seqlens_k, scale=scale, return_lse=True)
        for number in range(len(cu_seqlens_q) - 2):
            q0, q1 = cu_seqlens_q[number : number + 2].tolist()
            k0, k1 = cu_seqlens_k[number : number + 2].tolist()
            alone = cu_seqlens_q.new_tensor([0, q1 - q0]), cu_seqlens_k.new_tensor([0, k1 + 1 - k0])
            parts = q[q0:q1], k[k0 : k1 + 1], v[k0 : k1 + 1]
            if k1 < len(k) and q1 > q0:
                o[q0:q1], lse[:, q0:q1] = right(*parts, *alone, scale=scale, return_lse=True)
        return (o, lse) if return_lse else o

    return declare(operation="attention_varlen", deterministic=True)(attention_varlen)
