"""Tables: what a column sorts by."""

from __future__ import annotations

import math

from verify.report.table import Cell


def test_a_cell_has_a_key_only_where_its_text_does_not_sort_by_itself() -> None:
    """Rounded numbers, words and what is no number keep it."""
    assert Cell("518", 518.0).key is None
    assert Cell("1e-05", 1e-05).key is None
    assert Cell("0.378", 0.377529).key == "0.377529"
    assert Cell("3 458", 3458.0).key == "3458"
    assert Cell("-", -math.inf).key == "-Infinity"
    assert Cell("NaN", math.nan).key == "Infinity"
    assert Cell("PASS", "PASS").key == "PASS"
    assert Cell("x").key is None
