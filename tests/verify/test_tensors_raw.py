"""Raw tensors: every layout holds the same bits, and NaN where no element lies."""

from __future__ import annotations

import numpy as np
import pytest

from verify.formats import FORMATS
from verify.tensor_files import container
from verify.tensors_raw import address, from_memory, to_bytes
from verify.tensors_torch import LAYOUTS


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["fp16", "bf16", "fp32", "e4m3", "e5m2", "bool"])
def test_layout_changes_places_and_no_bits(layout: str, name: str) -> None:
    """Two heads of three rows of four elements, in the arena after 64 other bytes."""
    shape = (1, 2, 3, 4)
    bits = np.arange(24, dtype=container(name)).reshape(shape) % 2
    memory = memoryview(bytearray(b"\xaa" * 64 + bits.tobytes()))
    told = {"format": name, "shape": list(shape), "offset": 64}
    found = from_memory(memory, told, "cpu", layout)
    assert np.array_equal(found.bits, bits)
    assert (found.bits.strides != bits.strides) == (layout != "contiguous")
    facts, raw = to_bytes(found)
    assert (facts["format"], facts["shape"], raw) == (name, list(shape), bits.tobytes())
    if layout == "contiguous":
        assert address(found) is not None


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp32", "e4m3", "e5m2"])
def test_hole_between_rows_reads_as_nan(name: str) -> None:
    """A kernel that takes strides for contiguous ones meets NaN in every format."""
    bits = np.zeros((2, 3, 4), container(name))
    told = {"format": name, "shape": [2, 3, 4], "offset": 0}
    found = from_memory(memoryview(bytearray(bits.tobytes())), told, "cpu", "sliced").bits
    whole = found.base
    assert isinstance(whole, np.ndarray)
    values = FORMATS[name].decode(whole)
    assert np.isnan(values).sum() == values.size - bits.size
