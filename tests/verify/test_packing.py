"""Packing: what serving kernels are handed equals attention with a mask, and comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import references
from references.enclosure import NEGATIVE_INFINITY, POSITIVE_INFINITY
from verify import families, packing
from verify.calling import Bench
from verify.case import Case, Plan
from verify.formats import BINARY32
from verify.in_process import InProcess
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.kernels import find
from verify.kernels.textbook_packed import paged_online, varlen_shifted
from verify.kernels.textbook_softmax import cross_entropy
from verify.operation import PACKED, Operation, OperationName
from verify.pipeline import examine
from verify.truth import Oracle

FAMILY: dict[OperationName, str] = {
    "attention_varlen": "packed_sequences",
    "attention_paged": "paged_cache",
    "cross_entropy": "standard_normal",
}
KERNELS: dict[OperationName, Any] = {
    "attention_varlen": varlen_shifted(),
    "attention_paged": paged_online(),
    "cross_entropy": cross_entropy(),
}


def cases(operation: OperationName, family: str | None = None) -> list[Case]:
    plan = Plan(operation, BINARY32, "standard", 0)
    return list(families.family(family or FAMILY[operation]).cases(plan))


def judged(function: Any, operation: OperationName, chosen: list[Case]) -> set[Verdict]:
    with InProcess({"mine": function}) as runner:
        kernel = Kernel.from_description(runner.load("mine", operation), {})
        bench = Bench(Oracle(), runner, grading=False)
        return {examine(c, kernel, bench).verdict for c in chosen if not kernel.out_of_scope(c)}


@pytest.mark.parametrize("operation", list(FAMILY))
def test_textbook_kernels_pass_their_family(operation: OperationName) -> None:
    """Every case of the operation's own family."""
    assert judged(KERNELS[operation], operation, cases(operation)) == {Verdict.PASS}


CONTROLS: dict[OperationName, str] = {
    "attention_varlen": "control-sees-neighbour",
    "attention_paged": "control-reads-last-page",
    "cross_entropy": "control-target-off-by-one",
}


@pytest.mark.parametrize("operation", list(CONTROLS))
def test_controls_are_refuted_by_the_family_of_their_operation(operation: OperationName) -> None:
    """A key of the next sequence; the last page to its end; the loss of the next class."""
    wrong = find(CONTROLS[operation])[0]
    plain = [c for c in cases(operation) if not c.needs & {"causal", "window"}]
    assert Verdict.FAIL in judged(wrong, operation, plain)


def test_packed_sequences_equal_each_sequence_by_itself() -> None:
    """The truth with the mask is that of the sequences one by one, causal from their own corner."""
    case = next(c for c in cases("attention_varlen") if "prefix-causal" in c.name)
    inputs = case.build()
    operation = case.operation.judged
    assert operation == Operation("attention")
    q, k, v = (inputs[name].values for name in "qkv")
    whole = references.attention(q, k, v, mask=inputs.mask, tier="arb")
    starts_q, starts_k = (inputs.integers[f"cu_seqlens_{x}"] for x in "qk")
    for i in range(len(starts_q) - 1):
        here, there = slice(*starts_q[i : i + 2]), slice(*starts_k[i : i + 2])
        alone = references.attention(
            q[:, :, here], k[:, :, there], v[:, :, there], causal=True, tier="arb"
        )
        assert np.array_equal(alone.output.hi, whole.output.hi[:, :, here])


@pytest.mark.parametrize("operation", PACKED)
def test_layouts_hold_the_same_numbers(operation: OperationName) -> None:
    """q, and every visible key and value, lie where the numbers say; outputs come back in place."""
    case = next(c for c in cases(operation) if "gqa" in c.needs)
    inputs = case.build()
    handed = packing.packed(case.operation, inputs)
    assert handed.mask is None
    if operation == "attention_varlen":
        assert np.array_equal(handed["k"].bits.swapaxes(0, 1), inputs["k"].bits[0])
    else:
        cache, table = handed["k_cache"].bits, inputs.integers["block_table"]
        for b, length in enumerate(inputs.integers["cache_seqlens"]):
            rows = cache[table[b]].reshape(-1, *cache.shape[2:])[:length]
            assert np.array_equal(rows.swapaxes(0, 1), inputs["k"].bits[b, :, :length])
        assert np.unique(table).size == table.size
    shape = packing.output_shapes(case.operation, inputs, BINARY32, lse=False)[0][0]
    bits = np.arange(np.prod(shape), dtype=np.uint32).reshape(shape)
    back = packing.unpacked(case.operation, [bits])[0]
    assert back.shape == (*inputs["q"].shape[:3], inputs["v"].shape[3])
    there = bits[-1, 1, 0] if operation == "attention_varlen" else bits[0, -1, 1, 0]
    assert back[0, 1, -1, 0] == there


@pytest.mark.parametrize("operation", list(FAMILY))
def test_other_families_lend_their_cases(operation: OperationName) -> None:
    """Scores of every height reach serving kernels, too; the lent case needs what it needed."""
    found = cases(operation, "exp_ladder")
    assert found
    assert {c.operation.name for c in found} == {operation}
    assert judged(KERNELS[operation], operation, found) <= {Verdict.PASS, Verdict.OUT_OF_SCOPE}


def test_lent_losses_ask_for_the_largest_entry_of_every_second_row() -> None:
    """Where the loss is small and its relative error is what counts."""
    case = next(c for c in cases("cross_entropy") if c.notes["n"] > 100)
    inputs = case.build()
    largest = np.argmax(inputs["x"].values, axis=1)
    assert np.array_equal(inputs.integers["target"][::2], largest[::2])
    assert not np.array_equal(inputs.integers["target"], largest)


def test_slots_without_a_key_hold_nan_where_the_case_has_some() -> None:
    """A canary stays one in pages; elsewhere a large number shows who reads too far."""
    for case in cases("attention_paged", "canary") + cases("attention_paged"):
        inputs = case.build()
        handed = packing.packed(case.operation, inputs)
        for name in ("k", "v"):
            page = handed[f"{name}_cache"].values[0]
            has_nan = np.isnan(inputs[name].values).any()
            assert np.isnan(page).all() if has_nan else (page == packing.GARBAGE).all()


def test_own_families_make_nothing_for_plain_attention() -> None:
    """Packed cases are not mistaken for attention."""
    assert cases("attention", "packed_sequences") == cases("attention", "paged_cache") == []


def test_top_left_corner_is_out_of_scope_for_packed_causal_cases() -> None:
    """Packed sequences follow the bottom-right corner."""
    with InProcess({"mine": varlen_shifted()}) as runner:
        kernel = Kernel.from_description(runner.load("mine", "attention_varlen"), {})
    kernel = replace(kernel, declaration=replace(kernel.declaration, corner="top-left"))
    cornered = [c for c in cases("attention_varlen") if {"causal", "cross"} <= c.needs]
    assert cornered
    assert all("bottom-right" in str(kernel.out_of_scope(c)) for c in cornered)


def test_loss_of_a_removed_class_is_infinite() -> None:
    """x_t = -inf: log_softmax -inf, loss +inf."""
    from verify.truth import _loss

    x = np.array([[0.0, -np.inf], [0.0, 1.0]])
    rows = references.log_softmax(x, tier="arb")
    assert rows.classes[0, 1] == NEGATIVE_INFINITY
    loss = _loss(rows, np.array([1, 0]))
    assert loss.classes[0] == POSITIVE_INFINITY
    assert loss.hi[0] == np.inf
    assert abs(loss.hi[1] - np.log(1 + np.e)) < 1e-15
