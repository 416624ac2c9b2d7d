"""Which elements of a gradient a declaration takes out of judgement: those that a NaN can reach."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from verify.case import Inputs, Tensor
from verify.declaration import Declaration
from verify.formats import BINARY32
from verify.judge import Limits, Verdict, judge
from verify.metrics import error_interval
from verify.operation import Operation
from verify.parts import reached
from verify.truth import Oracle, Truth

torch.set_num_threads(1)

Arrays = dict[str, NDArray[np.float64]]
BACKENDS = (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION)
HEADS, KV_HEADS, N_Q, N_K, D = 4, 2, 5, 6, 8


def call(bad: str) -> Arrays:
    """Two batches, four heads on two kv heads.  Key 3 is removed from every row of heads 2 and 3,
    which share the second kv head; there its k or v holds a NaN, in the second batch only."""
    made = np.random.default_rng(2)
    shapes = {
        "q": (2, HEADS, N_Q, D), "k": (2, KV_HEADS, N_K, D), "v": (2, KV_HEADS, N_K, D),
        "do": (2, HEADS, N_Q, D),
    }  # fmt: skip
    found = {n: made.standard_normal(s).astype(np.float32).astype(float) for n, s in shapes.items()}
    found["bias"] = np.zeros((HEADS, N_Q, N_K))
    found["bias"][2:, :, 3] = -np.inf
    found[bad][1, 1, 3, 0] = np.nan
    return found


def truth_of(arrays: Arrays, declared: Declaration) -> Truth:
    tensors = {name: Tensor.of(BINARY32, x) for name, x in arrays.items()}
    operation = Operation("attention_backward", scale=0.25)
    return Oracle(audit=0).truth(operation, Inputs(tensors), declared)


def by_torch(arrays: Arrays, backend: SDPBackend) -> dict[str, NDArray[np.float64]]:
    """dq, dk, dv of torch, the kv heads repeated as torch does."""
    leaves = {n: torch.from_numpy(arrays[n]).float().requires_grad_() for n in "qkv"}
    bias = torch.from_numpy(arrays["bias"]).float()[None].repeat(2, 1, 1, 1)
    k, v = (leaves[n].repeat_interleave(2, dim=1) for n in "kv")
    with sdpa_kernel([backend]):
        out = scaled_dot_product_attention(leaves["q"], k, v, attn_mask=bias, scale=0.25)
    do = torch.from_numpy(arrays["do"]).float()
    grads = torch.autograd.grad(out, list(leaves.values()), do)
    return {f"d{n}": g.double().numpy() for n, g in zip(leaves, grads, strict=True)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("bad", ["k", "v"])
def test_torch_shows_nan_exactly_where_the_truth_is_unspecified(
    bad: str, backend: SDPBackend
) -> None:
    """No element less (it would be refuted), none more (an error there would pass unseen)."""
    arrays = call(bad)
    truth = truth_of(arrays, Declaration(masked_nonfinite="leaks"))
    for name, grad in by_torch(arrays, backend).items():
        taken = reached(name, truth, grad.shape)
        assert (np.isnan(grad) == taken).all(), name
        assert taken.any() == (name != "dv" or bad == "k")
        assert not taken[0].any()
        assert not taken[1, 0].any()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 5.0])
def test_an_error_beside_what_can_leak_is_refuted(wrong: float) -> None:
    """A removed value that is NaN: dv of its kv head, dk and dq of the others, and dbias of the
    other heads are judged, where all of the head, or the whole of dbias, was taken out before."""
    truth = truth_of(call("v"), Declaration(masked_nonfinite="leaks"))
    places = {
        "dv": (1, 1, 3, 0), "dk": (1, 0, 3, 0), "dq": (1, 1, 1, 0), "dbias": (1, 0, 0),
    }  # fmt: skip
    for name, place in places.items():
        enclosure = truth.gradients[name]
        for value, verdict in ((enclosure.hi[place], Verdict.PASS), (wrong, Verdict.FAIL)):
            values = np.where(np.isfinite(enclosure.hi), enclosure.hi, 0.0)
            values[place] = value
            ignored = reached(name, truth, values.shape)
            bound, none = np.full(values.shape, 1e-3), np.zeros(values.shape, np.bool_)
            limits = Limits(bound, bound, none, none, ignored, None)
            found = judge(values, enclosure, error_interval(values, enclosure), limits)
            assert found.verdict is verdict, (name, value)


def test_a_row_reaches_the_bias_and_the_sinks_that_it_is_summed_into() -> None:
    """Every way to broadcast a bias: the axes along which it was broadcast join, the others do
    not."""
    rows = np.zeros((2, HEADS, N_Q), np.bool_)
    rows[1, 2, 3] = True
    truth = Truth(truth_of(call("v"), Declaration()).output, unspecified=rows)
    taken = reached("dbias", truth, (2, HEADS, N_Q, N_K))
    assert np.argwhere(taken.any(axis=-1)).tolist() == [[1, 2, 3]]
    assert taken[1, 2, 3].all()
    assert np.argwhere(reached("dbias", truth, (HEADS, 1, N_K))[:, 0, 0]).tolist() == [[2]]
    assert np.argwhere(reached("dbias", truth, (N_Q, N_K))[:, 0]).tolist() == [[3]]
    assert np.argwhere(reached("dbias", truth, (2, 1, 1, 1))[:, 0, 0, 0]).tolist() == [[1]]
    assert reached("dbias", truth, (N_K,)).all()
    assert np.argwhere(reached("dsinks", truth, (HEADS,))).tolist() == [[2]]
    assert not reached("dv", truth, (2, KV_HEADS, N_K, D)).any()
