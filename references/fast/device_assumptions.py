"""What the proof assumes of a torch device, tried before anything rests on it."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from references.fast.device_pairs import product_error, two_sum


@cache
def unusable(device: str) -> str | None:
    """
    Why float64 arithmetic on this device cannot carry the proof, or None.

    Definition  two_sum, product_error, rounding to nearest even, results and operands below
                2^-1022, and matrix products of integers up to 2^53, against known results.
    Guarantee   tried, not proved: a fixed set of sums and products.
    """
    try:
        one, small, tiny, least = torch.tensor(
            [1.0, 2.0**-30, 2.0**-60, 2.0**-1074], dtype=torch.float64, device=device
        )
    except (RuntimeError, AssertionError) as error:
        return f"no float64 on {device}: {str(error).splitlines()[0]}"
    half = 128.0 * tiny
    odd = one + 2.0 * half
    a = one + small
    held = {
        "the error of a product": product_error(a, a, a * a) == tiny,
        "two_sum": two_sum(one, tiny)[1] == tiny,
        "round to nearest": (one + half == one) & (odd + half == one + 4.0 * half),
        "gradual underflow": ((least * 2.0**52) * 0.5 != 0.0) & (least * 2.0**600 != 0.0),
    }
    lacking = [name for name, found in held.items() if not bool(found)]
    if lacking:
        return f"float64 arithmetic on {device} lacks {', '.join(lacking)}"
    return _products(device)


def _products(device: str) -> str | None:
    """Whether products of integers are exact there, plain, transposed and in batches."""
    generator = np.random.default_rng(20241)
    for rows, terms, columns in ((64, 64, 64), (256, 64, 128), (1024, 64, 64), (65, 33, 7)):
        bits = 53 - (terms - 1).bit_length()
        a = generator.integers(2 ** (bits // 2 - 1), 2 ** (bits // 2), (2, rows, terms))
        b = generator.integers(
            -(2 ** (bits - bits // 2)), 2 ** (bits - bits // 2), (2, terms, columns)
        )
        exact = torch.from_numpy((a @ b).astype(np.float64)).to(device)
        left, right = (torch.from_numpy(x.astype(np.float64)).to(device) for x in (a, b))
        other = right.transpose(1, 2).contiguous().transpose(1, 2)
        tried = (left @ right, left @ other, (left[0] @ right[0])[None], (left[0] @ other[0])[None])
        if not all(bool((found == exact[: len(found)]).all()) for found in tried):
            return f"float64 products ({rows}, {terms}) ({terms}, {columns}) on {device} not exact"
    return None
