"""Packing: attention whose tensors lie as serving kernels take them, and what it equals.

    attention_varlen   sequences one behind the other.  q (total_q, heads, d), k and v (total_k,
                       kv_heads, d and d_v), cu_seqlens_q and cu_seqlens_k (sequences + 1,) int32:
                       where each sequence begins.  Returns (total_q, heads, d_v), and with
                       return_lse (heads, total_q).
    attention_paged    a cache in pages.  q (batch, n_q, heads, d), k_cache and v_cache (pages,
                       page_size, kv_heads, d and d_v), block_table (batch, pages of a sequence)
                       int32, cache_seqlens (batch,) int32.  Returns (batch, n_q, heads, d_v), and
                       with return_lse (batch, heads, n_q).  Slots behind the end of a sequence,
                       and page 0, hold whatever was there before.

In a case the tensors lie as in `attention`, and its mask says which keys a query sees; causal and
window follow the bottom-right corner of each sequence.  So truth and bound are those of attention
with that mask (`Operation.judged`), and only the kernel is handed another layout.

A cross-entropy is lent the rows of log_softmax, with a target for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.case import Case, Inputs, Plan, Tensor
from verify.formats import BINARY32, Bits, Format
from verify.integers import Draws
from verify.operation import Operation, OperationName

PAGE = 16  # slots of a page of a lent case
GARBAGE = 96.0  # what slots without a key hold, where a case has no NaN in them
MOST_SCORES = 2**18  # of a lent case, so that its mask and truth are affordable
LENT = frozenset(("scale", "softcap", "causal", "window", "gqa", "d_v", "cross", "ragged"))
# Whose cases an operation borrows.
LENDERS: dict[str, OperationName] = {
    "attention_varlen": "attention",
    "attention_paged": "attention",
    "cross_entropy": "log_softmax",
}
Shape = tuple[int, ...]


def visible(n_q: int, n_k: int, operation: Operation) -> NDArray[np.bool_]:
    """(n_q, n_k): the keys that causal and window leave to a query; bottom-right corner."""
    gap = np.arange(n_k) - (np.arange(n_q)[:, None] + n_k - n_q)
    keep = np.ones((n_q, n_k), np.bool_)
    if operation.causal:
        keep &= gap <= 0
    if operation.window is not None:
        left, right = operation.window
        keep &= (gap >= -left) | (left < 0)
        keep &= (gap <= right) | (right < 0)
    return keep


def sequences_mask(
    lengths: Sequence[tuple[int, int]], operation: Operation
) -> tuple[NDArray[np.bool_], dict[str, NDArray[Any]]]:
    """The mask (1, 1, total_q, total_k) of sequences of (n_q, n_k) each, and where they begin."""
    starts = np.concatenate((np.zeros((1, 2), np.int32), np.cumsum(lengths, 0, np.int32)))
    mask = np.zeros((1, 1, *starts[-1]), np.bool_)
    for (q0, k0), (n_q, n_k) in zip(starts, lengths, strict=False):
        mask[0, 0, q0 : q0 + n_q, k0 : k0 + n_k] = visible(n_q, n_k, operation)
    return mask, {"cu_seqlens_q": starts[:, 0].copy(), "cu_seqlens_k": starts[:, 1].copy()}


def cache_mask(
    lengths: Sequence[int], n_q: int, slots: int, operation: Operation
) -> NDArray[np.bool_]:
    """The mask (batch, 1, n_q, slots) of sequences of these lengths in a cache of `slots` each."""
    mask = np.zeros((len(lengths), 1, n_q, slots), np.bool_)
    for row, length in zip(mask, lengths, strict=True):
        row[0, :, :length] = visible(n_q, length, operation)
    return mask


def shuffled_pages(draws: Draws, batch: int, pages: int) -> NDArray[np.int32]:
    """A block table (batch, pages) in which every page but page 0 belongs to one sequence."""
    order = np.argsort(draws.words((batch * pages,)), kind="stable")
    return (1 + order).astype(np.int32).reshape(batch, pages)


# --- what the kernel is handed, and what it returns ------------------------------------------


def packed(operation: Operation, inputs: Inputs) -> Inputs:
    """The inputs as the kernel takes them; the mask is what the numbers say, and stays here."""
    if operation.name == "attention_varlen":
        tensors = {n: Tensor(t.format, _tokens_first(t.bits[0])) for n, t in inputs.tensors.items()}
        return Inputs(tensors, None, inputs.integers)
    table, lengths = inputs.integers["block_table"], inputs.integers["cache_seqlens"]
    q = inputs["q"]
    tensors = {"q": Tensor(q.format, _tokens_first(q.bits))}
    for name in ("k", "v"):
        tensors[f"{name}_cache"] = _in_pages(inputs[name], table, lengths)
    return Inputs(tensors, None, inputs.integers)


def _tokens_first(bits: Bits) -> Bits:
    """(..., heads, n, d) as (..., n, heads, d)."""
    return np.ascontiguousarray(bits.swapaxes(-3, -2))


def _in_pages(tensor: Tensor, table: NDArray[Any], lengths: NDArray[Any]) -> Tensor:
    """(batch, kv_heads, slots, d) as (pages, page_size, kv_heads, d); other slots as page 0."""
    batch, pages = table.shape
    heads, slots, d = tensor.shape[1:]
    size = slots // pages
    old = np.nan if np.isnan(tensor.values).any() else GARBAGE
    fill = tensor.format.encode(np.asarray(old))
    cache = np.full((int(table.max(initial=0)) + 1, size, heads, d), fill)
    for b in range(batch):
        for p in range(-(-int(lengths[b]) // size)):
            here = tensor.bits[b, :, p * size : (p + 1) * size]
            cache[table[b, p]] = here.swapaxes(0, 1)
    return Tensor(tensor.format, cache)


def output_shapes(
    operation: Operation, inputs: Inputs, fmt: Format, lse: bool
) -> list[tuple[Shape, Format]]:
    """Shape and format of what a kernel returns."""
    batch, heads, n_q, _ = inputs["q"].shape
    d_v = inputs["v"].shape[3]
    if operation.name == "attention_varlen":
        shapes: list[tuple[Shape, Format]] = [((n_q, heads, d_v), fmt)]
        return [*shapes, ((heads, n_q), BINARY32)] if lse else shapes
    shapes = [((batch, n_q, heads, d_v), fmt)]
    return [*shapes, ((batch, heads, n_q), BINARY32)] if lse else shapes


def unpacked(operation: Operation, outputs: Sequence[Bits]) -> list[Bits]:
    """What came back, as (batch, heads, n_q, d_v) and (batch, heads, n_q)."""
    first, *rest = outputs
    if operation.name == "attention_varlen":
        return [_tokens_first(first)[None], *(lse[None] for lse in rest)]
    return [_tokens_first(first), *rest]


# --- cases that other families lend -------------------------------------------------------------


def lent(cases: Callable[[Plan], Iterable[Case]], plan: Plan) -> Iterator[Case]:
    """The cases of a family for a packed operation or a cross-entropy."""
    for case in cases(replace(plan, operation=LENDERS[plan.operation])):
        if plan.operation == "cross_entropy":
            fits = case.notes.get("n", 0) > 0
        else:
            fits = case.needs <= LENT and _scores(case, plan) <= MOST_SCORES
        if fits:
            yield lend(case, plan)


def lend(case: Case, plan: Plan) -> Case:
    """One case of attention or log_softmax, for the operation of the plan."""
    change = {
        "attention_varlen": _as_sequences,
        "attention_paged": _as_cache,
        "cross_entropy": _with_targets,
    }[plan.operation]
    operation = replace(case.operation, name=plan.operation)
    return replace(case, operation=operation, build=partial(change, case, plan), unrounded=None)


def _scores(case: Case, plan: Plan) -> float:
    """Scores of the packed case: sequences stand in one square."""
    notes = case.notes
    square = notes["batch"] if plan.operation == "attention_varlen" else 1.0
    return notes["batch"] * square * notes["heads"] * notes["n_q"] * notes["n_k"]


def _as_sequences(case: Case, plan: Plan) -> Inputs:
    """The entries of the batch one behind the other."""
    inputs = case.build()
    batch, _, n_q, _ = inputs["q"].shape
    lengths = [(n_q, inputs["k"].shape[2])] * batch
    mask, starts = sequences_mask(lengths, case.operation)
    tensors = {n: Tensor(t.format, _behind(t.bits)) for n, t in inputs.tensors.items()}
    return Inputs(tensors, mask, starts)


def _behind(bits: Bits) -> Bits:
    """(batch, heads, n, d) as (1, heads, batch n, d)."""
    batch, heads, n, d = bits.shape
    return np.ascontiguousarray(bits.swapaxes(0, 1)).reshape(1, heads, batch * n, d)


def _as_cache(case: Case, plan: Plan) -> Inputs:
    """The keys in pages of PAGE slots."""
    inputs = case.build()
    batch, _, n_q, _ = inputs["q"].shape
    n_k = inputs["k"].shape[2]
    pages = -(-n_k // PAGE)
    room = pages * PAGE - n_k
    tensors = dict(inputs.tensors)
    for name in ("k", "v"):
        tensors[name] = with_slots(tensors[name], room, GARBAGE)
    table = shuffled_pages(plan.draws(case.family, case.name, "pages"), batch, pages)
    mask = cache_mask([n_k] * batch, n_q, pages * PAGE, case.operation)
    return Inputs(
        tensors, mask, {"block_table": table, "cache_seqlens": np.full(batch, n_k, np.int32)}
    )


def with_slots(tensor: Tensor, room: int, value: float) -> Tensor:
    """`room` more slots behind the keys, which hold a value."""
    batch, heads, _, d = tensor.shape
    slots = np.full((batch, heads, room, d), tensor.format.encode(np.asarray(value)))
    return Tensor(tensor.format, np.concatenate((tensor.bits, slots), axis=2))


def _with_targets(case: Case, plan: Plan) -> Inputs:
    """For every second row its largest entry, for the others any."""
    inputs = case.build()
    rows, n = inputs["x"].shape
    target = plan.draws(case.family, case.name, "target").integers(0, n, (rows,))
    target[::2] = np.argmax(inputs["x"].values[::2], axis=1)
    return Inputs(inputs.tensors, None, {"target": target.astype(np.int64)})
