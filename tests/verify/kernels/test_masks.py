"""Masks: what an operator with a single mask is handed means causal, mask and bias together."""

from __future__ import annotations

import pytest
import torch

from verify.kernels._masks import Corner, joined, numbers, one_mask, seen

Q, K = torch.zeros(1, 2, 2, 4), torch.zeros(1, 2, 3, 4)
MASK = torch.tensor([[True, False, True], [False, True, True]])
BIAS = torch.tensor([[0.5, 1.0, 2.0]])
REMOVED = float("-inf")


@pytest.mark.parametrize(("corner", "rows"), [("top-left", (1, 2)), ("bottom-right", (2, 3))])
def test_causal_follows_its_corner(corner: Corner, rows: tuple[int, int]) -> None:
    """Two queries on three keys: how many keys each sees."""
    assert seen(Q, K, None, corner).sum(dim=1).tolist() == list(rows)
    assert torch.equal(seen(Q, K, MASK, corner), seen(Q, K, None, corner) & MASK)


def test_without_a_mask_tensor_the_operator_is_told_causal() -> None:
    assert one_mask(Q, K, True, None, None) is None
    assert one_mask(Q, K, False, None, None) is None


def test_boolean_masks_stay_boolean_and_a_bias_is_removed_from() -> None:
    """Four axes in each case; -inf where a key is removed, the bias elsewhere, in its format."""
    both = one_mask(Q, K, True, MASK, BIAS.half())
    assert both is not None
    assert both.dtype is torch.float16
    assert both.tolist() == [[[[0.5, REMOVED, REMOVED], [REMOVED, 1.0, REMOVED]]]]
    alone = one_mask(Q, K, True, MASK, None)
    assert alone is not None
    assert alone.tolist() == [[[[True, False, False], [False, True, False]]]]
    with_bias = one_mask(Q, K, True, None, BIAS)
    assert with_bias is not None
    assert with_bias[0, 0].tolist() == [[0.5, REMOVED, REMOVED], [0.5, 1.0, REMOVED]]
    bias = joined(None, BIAS)
    assert bias is not None
    assert bias.shape == (1, 1, 1, 3)


def test_numbers_of_a_mask_are_0_and_minus_infinity() -> None:
    found = numbers(MASK, torch.bfloat16)
    assert found.dtype is torch.bfloat16
    assert found[0].tolist() == [0.0, REMOVED, 0.0]
