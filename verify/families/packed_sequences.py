"""Sequences of different lengths one behind the other, each with keys that the others must not see.

Every sequence has scores at a level of its own and values of a size of its own, so that a key of a
neighbour takes over the row; empty sequences, single tokens, and lengths around a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from verify.case import Axes, Case, Inputs, Plan, Profile, Tensor
from verify.family import Family
from verify.integers import Draws
from verify.operation import Operation
from verify.packing import sequences_mask

NAME = "packed_sequences"
Lengths = tuple[tuple[int, int], ...]
SELF: dict[str, Lengths] = {
    "tiles": ((16, 16), (32, 32), (16, 16)),
    "ragged": ((1, 1), (17, 17), (33, 33), (15, 15), (2, 2)),
    "empty-between": ((5, 5), (0, 0), (12, 12), (0, 0)),
}
CROSS: dict[str, Lengths] = {
    "decode": ((1, 40), (1, 1), (1, 129), (1, 64)),
    "prefix": ((3, 20), (8, 8), (2, 65)),
    "without-keys": ((4, 6), (3, 0), (5, 31)),
}
LEVELS = {"": 1.0, "far-apart": 6.0}  # factor of q and k: scores within about 8, 300


def _build(axes: Axes, lengths: Lengths, operation: Operation, factor: float, plan: Plan) -> Inputs:
    name = f"{lengths}-{operation.options()}-{factor}-{axes.label}"
    draws: Draws = plan.draws(NAME, name)
    q, k, v = draws.normal(axes.q), draws.normal(axes.k), draws.normal(axes.v)
    mask, starts = sequences_mask(lengths, operation)
    for number in range(len(lengths)):
        here = slice(*starts["cu_seqlens_k"][number : number + 2])
        # Keys and values of a later sequence are larger: they win where they are seen.
        k[:, :, here] *= factor * (1 + number % 3)
        v[:, :, here] *= 4.0**number
    v[..., 0] = np.where(v[..., 0] < 0, -1.0, 1.0)
    tensors = {
        "q": Tensor.rounded(plan.format, factor * q),
        "k": Tensor.rounded(plan.format, k),
        "v": Tensor.rounded(plan.format, v),
    }
    return Inputs(tensors, mask, starts)


def _case(plan: Plan, name: str, lengths: Lengths, **options: object) -> Case:
    level = str(options.pop("level", ""))
    heads, kv_heads = (4, 2) if options.pop("gqa", False) else (2, 2)
    total_q, total_k = (sum(n) for n in zip(*lengths, strict=True))
    axes = Axes(total_q, total_k, d=32, heads=heads, kv_heads=kv_heads)
    operation = Operation(plan.operation, **options)  # type: ignore[arg-type]
    used = {
        "causal": operation.causal,
        "window": operation.window is not None,
        "softcap": operation.softcap is not None,
        "gqa": heads != kv_heads,
        "cross": any(a != b for a, b in lengths),
        "ragged": any(n % 16 for pair in lengths for n in pair),
        "empty": any(0 in pair for pair in lengths),
    }
    label = "-".join(filter(None, (name, level, "gqa" * used["gqa"], *sorted(options))))
    smoke: Profile = "smoke" if name in ("ragged", "decode") and not level else "standard"
    return Case(
        NAME,
        f"{label}-{axes.label}",
        plan.format,
        operation,
        partial(_build, axes, lengths, operation, LEVELS[level], plan),
        frozenset(feature for feature, present in used.items() if present),
        axes.notes,
        smoke,
    )


def _cases(plan: Plan) -> Iterator[Case]:
    for name, lengths in {**SELF, **CROSS}.items():
        yield _case(plan, name, lengths)
        yield _case(plan, name, lengths, causal=True)
        yield _case(plan, name, lengths, level="far-apart")
    yield _case(plan, "ragged", SELF["ragged"], causal=True, gqa=True)
    yield _case(plan, "ragged", SELF["ragged"], window=(3, 2))
    yield _case(plan, "prefix", CROSS["prefix"], causal=True, window=(7, 0))
    yield _case(plan, "prefix", CROSS["prefix"], causal=True, softcap=5.0, level="far-apart")


FAMILY = Family(
    name=NAME,
    hypothesis=(
        "A sequence of a packed batch sees keys of its neighbour, its causal diagonal starts at "
        "the wrong corner, or an empty sequence shifts those behind it."
    ),
    effect="One user's text changes another user's answer.",
    source=(
        "Dao-AILab/flash-attention issue 1570 (one sequence's length changes another's result); "
        "flash_attn_varlen_func's documentation of cu_seqlens and of the corner."
    ),
    cases=_cases,
    packed=("attention_varlen",),
)
