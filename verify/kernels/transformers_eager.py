"""transformers' eager attention functions, as BERT and Llama call them.

Read in transformers 5.24.0, models/bert/modeling_bert.py and models/llama/modeling_llama.py:

bert    softmax(q k^T * scale + mask) in the input format; torch.softmax on 16-bit input computes
        in binary32 and rounds once, so that P is normalised and stored in the input format.
llama   the same, but softmax(..., dtype=float32).to(input format), which has the same roundings;
        key and value heads are repeated.

Every tensor between is stored in the input format; products are accumulated in binary32 (torch on a
CPU), which reads subnormal bf16 operands as zero where the processor has bf16 units.
`stored_row_sum` stands for the rounding of the reciprocal with which torch.softmax normalises.

The library's masks are additive: 0, or the lowest finite number of the format, which this adapter
makes out of boolean masks and `causal` as masking_utils.eager_mask does.  So a row whose keys are
all removed gives a mean; not exactly of V, where a score is as large as an ulp of that number
(binary16: 16 and more), so that nothing is declared of such rows.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from verify.kernels import kernel
from verify.kernels._eager import eager_model
from verify.kernels._installed import needs
from verify.kernels._masks import seen
from verify.kernels._precision import DTYPES

SOURCE = (
    "transformers 5.24.0: models/bert/modeling_bert.py, models/llama/modeling_llama.py, "
    "masking_utils.py; pytorch aten/src/ATen/native/cpu/SoftMaxKernel.cpp"
)

REFUTED = {
    "fp16": "a masked key whose score exceeds binary16 gives +inf, which the additive mask cannot "
    "take back: the row is NaN",
    **dict.fromkeys(
        ("bf16", "fp32"),
        "the mask adds the lowest finite number: a masked key at 2e38 beats visible ones at -2e38",
    ),
}


def additive(
    q: Tensor, k: Tensor, causal: bool, mask: Tensor | None, bias: Tensor | None
) -> Tensor | None:
    """The library's additive mask: 0 or the lowest finite number; a bias is added to it."""
    mask = seen(q, k, mask, "bottom-right") if causal else mask
    if mask is None:
        return bias
    lowest = torch.finfo(q.dtype).min
    kept = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias
    return torch.where(mask, kept, lowest)


def attend(
    function: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    mask: Tensor | None,
) -> Tensor:
    """One call of an eager function; it returns (batch, n_q, heads, d_v) and P."""
    module = SimpleNamespace(training=False, num_key_value_groups=q.shape[1] // k.shape[1])
    scaling = q.shape[-1] ** -0.5 if scale is None else scale
    out: Tensor = function(module, q, k, v, mask, scaling=scaling)[0]
    return out.transpose(1, 2)


@kernel(
    name="transformers-bert-eager",
    operation="attention",
    summary="transformers' eager attention of BERT",
    devices=("cpu",),
    model={n: eager_model("transformers-eager", n) for n in DTYPES},
    empty_row="any",
    masked_nonfinite="leaks",
    without=("gqa",),
    unavailable=needs("transformers", extra="transformers"),
    libraries=("transformers",),
    refuted=REFUTED,
    source=SOURCE,
)
def bert(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """q, k (batch, heads, n, d), v (batch, heads, n_k, d_v)."""
    from transformers.models.bert.modeling_bert import eager_attention_forward

    return attend(eager_attention_forward, q, k, v, scale, additive(q, k, causal, mask, bias))


@kernel(
    name="transformers-llama-eager",
    operation="attention",
    summary="transformers' eager attention of Llama",
    devices=("cpu",),
    model={n: eager_model("transformers-eager", n) for n in DTYPES},
    empty_row="any",
    masked_nonfinite="leaks",
    unavailable=needs("transformers", extra="transformers"),
    libraries=("transformers",),
    refuted=REFUTED,
    source=SOURCE,
)
def llama(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    causal: bool = False,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """q (batch, heads, n_q, d), k (batch, kv_heads, n_k, d), v (batch, kv_heads, n_k, d_v)."""
    from transformers.models.llama.modeling_llama import eager_attention_forward

    return attend(eager_attention_forward, q, k, v, scale, additive(q, k, causal, mask, bias))
