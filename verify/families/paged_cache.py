"""A cache of keys in pages, in an order of their own, with old contents in the slots without a key.

Slots behind a sequence's end, and page 0, hold a large number or NaN: a kernel that reads a page
too many, or multiplies what it masks, shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Axes, Case, Inputs, Plan, Profile, Tensor
from verify.family import Family
from verify.operation import Operation
from verify.packing import GARBAGE, cache_mask, shuffled_pages

NAME = "paged_cache"
# Lengths of the sequences, slots of a page, queries of each (more than one: a draft is checked).
LAYOUTS: dict[str, tuple[tuple[int, ...], int, int]] = {
    "decode": ((40, 1, 129, 64), 16, 1),
    "page-edges": ((15, 16, 17, 32, 33), 16, 1),
    "draft": ((20, 5, 48), 16, 4),
    "small-pages": ((7, 30), 4, 2),
    "no-keys": ((9, 0, 21), 8, 1),
    "long": ((1000, 77), 64, 1),
}


def _build(axes: Axes, name: str, operation: Operation, old: float, plan: Plan) -> Inputs:
    lengths, _, n_q = LAYOUTS[name]
    draws = plan.draws(NAME, name, str(operation.options()), old, axes.label)
    q, k, v = draws.normal(axes.q), draws.normal(axes.k), draws.normal(axes.v)
    v[..., 0] = 1.0
    for b, length in enumerate(lengths):
        k[b, :, length:] = v[b, :, length:] = old
    pages = axes.n_k // LAYOUTS[name][1]
    integers = {
        "block_table": shuffled_pages(draws, len(lengths), pages),
        "cache_seqlens": np.array(lengths, np.int32),
    }
    tensors = {n: Tensor.rounded(plan.format, x) for n, x in (("q", q), ("k", k), ("v", v))}
    return Inputs(tensors, cache_mask(lengths, n_q, axes.n_k, operation), integers)


def _case(plan: Plan, name: str, **options: object) -> Case:
    lengths, size, n_q = LAYOUTS[name]
    old = float("nan") if options.pop("nan", False) else GARBAGE
    heads, kv_heads = (4, 1) if options.pop("gqa", False) else (2, 2)
    slots = -(-max(lengths) // size) * size
    axes = Axes(n_q, slots, d=32, batch=len(lengths), heads=heads, kv_heads=kv_heads)
    operation = Operation(plan.operation, **options)  # type: ignore[arg-type]
    used = {
        "causal": operation.causal,
        "window": operation.window is not None,
        "softcap": operation.softcap is not None,
        "gqa": heads != kv_heads,
        "cross": True,
        "ragged": any(length % 16 for length in lengths),
        "nonfinite": np.isnan(old),
        "empty": 0 in lengths,
    }
    label = "-".join(filter(None, (name, "nan" * bool(used["nonfinite"]), *sorted(options))))
    smoke: Profile = "smoke" if name == "decode" and not options else "standard"
    return Case(
        NAME,
        f"{label}-{axes.label}",
        plan.format,
        operation,
        partial(_build, axes, name, operation, old, plan),
        frozenset(feature for feature, present in used.items() if present),
        axes.notes,
        smoke,
    )


def _cases(plan: Plan) -> Iterator[Case]:
    for name in LAYOUTS:
        yield _case(plan, name)
        yield _case(plan, name, nan=True)
    for name in ("decode", "draft", "small-pages"):
        yield _case(plan, name, causal=True)
        yield _case(plan, name, causal=True, gqa=True)
    yield _case(plan, "draft", causal=True, window=(6, 0))
    yield _case(plan, "decode", softcap=2.0)


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "The last page is read to its end, pages are taken in the wrong order, or what a slot held "
        "before leaks through a mask that multiplies."
    ),
    effect="A reused cache page brings words of another conversation, or NaN, into this one.",
    source=(
        "Kwon et al., Efficient Memory Management for Large Language Model Serving with "
        "PagedAttention, SOSP 2023; flash_attn_with_kvcache's documentation of block_table."
    ),
    cases=_cases,
    packed=("attention_paged",),
)
