"""Shapes and ladders: sizes, and work counted by hand."""

from __future__ import annotations

import pytest

from verify.bench import ladder
from verify.bench.shape import Shape
from verify.errors import UsageError
from verify.formats import format_named


def test_prefill_counts_two_products_and_every_tensor_once() -> None:
    """(2, 3, 5, 7): 2 heads x 3 of (5x7).(7x5) and (5x5).(5x7), 4 tensors of 2 bytes."""
    shape = Shape.parse("prefill:2x3x5x7")
    assert shape.flops == 2 * 3 * (2 * 5 * 5 * 7 + 2 * 5 * 5 * 7)
    assert shape.bytes(format_named("bf16"), "attention") == 4 * 2 * 3 * 5 * 7 * 2
    assert shape.tokens == 10
    assert shape.sizes == (2, 3, 5, 5, 7)


def test_decode_has_one_query_for_each_head() -> None:
    shape = Shape.parse("decode:2x3x100x8")
    assert shape.tensors == {"q": (2, 3, 1, 8), "k": (2, 3, 100, 8), "v": (2, 3, 100, 8)}
    assert shape.tokens == 2
    assert shape.flops == 2 * 3 * (2 * 100 * 8) * 2


def test_rows_count_no_product_and_the_output_of_a_logsumexp_is_a_column() -> None:
    shape, fmt = Shape.parse("rows:10x100"), format_named("fp32")
    assert shape.flops == 0
    assert shape.bytes(fmt, "softmax") == 2 * 10 * 100 * 4
    assert shape.bytes(fmt, "logsumexp") == (10 * 100 + 10) * 4


@pytest.mark.parametrize(
    "text", ["prefill:1x2x3", "rows:0x4", "rows:4", "scan:1x2", "", "rows:ax2"]
)
def test_a_shape_of_no_known_form_names_the_known_ones(text: str) -> None:
    with pytest.raises(UsageError, match="prefill:BATCHxHEADSxNxD"):
        Shape.parse(text)


def test_ladders_reach_from_64_to_8192_prefill_and_decode_and_rows_of_a_million() -> None:
    """What was promised: n from 64 to 8192 on a CPU, longer on CUDA, decode, rows up to 1e6."""
    shapes = ladder.shapes("attention", "cpu")
    lengths = {s.axes.n_k for s in shapes if s.axes and s.kind == "prefill"}
    assert (min(lengths), max(lengths)) == (64, 8192)
    assert any(s.kind == "decode" for s in shapes)
    cuda = ladder.shapes("attention", "cuda")
    assert max(s.axes.n_k for s in cuda if s.axes) > 8192
    assert max(max(s.rows) for s in ladder.shapes("softmax", "cpu") if s.rows) == 1_000_000


def test_a_list_without_a_shape_of_the_operation_is_a_usage_error() -> None:
    assert [s.label for s in ladder.shapes("softmax", "cpu", "rows:2x3,prefill:1x1x2x2")] == [
        "rows:2x3"
    ]
    with pytest.raises(UsageError, match="no shape of softmax"):
        ladder.shapes("softmax", "cpu", "prefill:1x1x2x2")
