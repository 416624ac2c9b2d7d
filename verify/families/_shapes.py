"""Shapes that several families share: small enough for the truth to cost milliseconds."""

from __future__ import annotations

from verify.case import Axes

SQUARE = Axes(64, 64)
SMALL = Axes(16, 16, d=16)
WIDE = Axes(16, 512)
LONG = Axes(8, 4096)
ODD = Axes(7, 131, d=40, d_v=24, heads=3)
DECODE = Axes(1, 257, d=128, heads=4)
ASYMMETRIC = Axes(5, 37, d=40, batch=2, heads=6, kv_heads=3, d_v=24)
LONGER = Axes(8, 16384)

ROWS_SQUARE = (16, 64)
ROWS_ODD = (5, 131)
ROWS_WIDE = (8, 1024)
ROWS_LONG = (2, 4096)
ROWS_LONGER = (2, 65536)
