"""Drawings stay small: neighbouring paths of one style are one path, and patterns are lines."""

from __future__ import annotations

import re

from verify.report.figure import _joined
from verify.report.sections.stages import HATCHES


def test_neighbours_of_one_style_are_one_path_and_others_are_not() -> None:
    """Two bars of a class and one of another; a group with an attribute stays a group."""
    bar = '<g><path d="M 1 2 L 3 4 z " class="a"/></g>'
    other = '<g><path d="M 5 6 L 7 8 z " class="b"/></g>'
    named = f'<g data-series="1">{bar}</g>'
    assert _joined(bar + bar + other) == (
        '<path d="M1 2L3 4zM1 2L3 4z" class="a"/><path d="M5 6L7 8z" class="b"/>'
    )
    assert _joined(named + bar) == (
        '<g data-series="1"><path d="M1 2L3 4z" class="a"/></g><path d="M1 2L3 4z" class="a"/>'
    )


def test_tight_paths_keep_their_numbers() -> None:
    """Spaces between two numbers are what keeps them apart."""
    assert _joined('<path d="M 1.5 -2 C 0 1 2 3 4 5 "/>') == '<path d="M1.5 -2C0 1 2 3 4 5"/>'


def test_hatches_are_lines_and_each_is_its_own() -> None:
    """A pattern of dots is 38 KB a drawing."""
    assert len(set(HATCHES)) == len(HATCHES)
    assert not [h for h in HATCHES if re.search(r"[.oO*]", h)]
