"""Keys past n_k, up to a whole tile, are zeros whose score is 0 instead of -inf.

Shows       n_k = block + 1 and every live score -20: the padding owns the row.
Report      https://github.com/NVIDIA/TransformerEngine/issues/1197; xformers test_nans_in_padding.
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor
from torch.nn.functional import pad

from verify.controls._control import control, honest
from verify.controls._rows import Rows
from verify.kernels._attention import Call, Kernel
from verify.kernels._attention_tiled import Online


class ScoresPadding(Online):
    """The last tile is filled up with zero keys, which are seen."""

    def attend(self, call: Call) -> tuple[Tensor, Tensor]:
        more = -call.n_k % self.block
        seen = call.visible.expand(*call.visible.shape[:-1], call.n_k)
        return super().attend(
            replace(
                call,
                k=pad(call.k, (0, 0, 0, more)),
                v=pad(call.v, (0, 0, 0, more)),
                visible=pad(seen, (0, more), value=True),
                bias=None if call.bias is None else pad(call.bias, (0, more)),
            )
        )


class ScoresPaddingRows(Rows):
    """The last tile is filled up with zeros, which are summed."""

    def softmax(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        return super().softmax(pad(x, (0, -n % self.block)))[..., :n].contiguous()


@control("padding-scored-zero", "keys past n_k count with s = 0")
def padding_scored_zero(block: int = 16) -> Kernel:
    """Tiles of `block` keys."""
    return honest(ScoresPadding(block=block))


@control("padding-scored-zero-softmax", "entries past n count as 0", operation="softmax")
def softmax(block: int = 16) -> Kernel:
    """Tiles of `block` entries."""
    return ScoresPaddingRows(block=block).kernel()
