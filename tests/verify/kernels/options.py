"""What every attention adapter must get right: options mean what the definition says."""

from __future__ import annotations

import inspect

import numpy as np

from tests.verify.kernels.plain_attention import U, attention, sample
from tests.verify.kernels.test_attention_kernels import CASES, OPTIONS
from verify.kernels import find


def misread(name: str, fmt: str) -> list[str]:
    """Titles of the cases whose output is far from float64; rows without keys are left out.

    What is near is the suite's business; here no option may be misread.
    """
    function, found = find(name)
    claimed, without = set(inspect.signature(function).parameters), set(found.declaration.without)
    size = max(8, found.declaration.d_multiple, found.declaration.d[0])
    wrong, tried = [], 0
    for title, wanted in CASES.items():
        given = {"d": size, **wanted, **({"d_v": size} if "d_v" in without else {})}
        given |= {"kv_heads": 4} if "gqa" in without else {}
        if ("empty" in without and given.get("n_k") == 0) or not set(given) & OPTIONS <= claimed:
            continue
        made = sample(fmt, **given)
        if "bias" in made.options:
            made.options["bias"] = made.options["bias"].to(made.tensors["q"].dtype)
        out, _, empty = attention(made, found.declaration.corner)
        got = made.call(function)
        assert got.dtype == made.tensors["q"].dtype
        assert tuple(got.shape) == out.shape
        far = np.abs(got.double().numpy() - out)[~empty].max(initial=0.0)
        tried += 1
        if not far <= 64 * U[fmt]:
            wrong.append(f"{title}: {far:.3g}")
    assert tried > 3, f"{name} was hardly tried"
    return wrong
