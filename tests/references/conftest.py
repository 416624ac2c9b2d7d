"""`available()` imports the compiled parts with their cache, before a test module names one."""

from __future__ import annotations

from references import fast

REASON = fast.available()
assert REASON is None, f"the fast tier cannot be tested here: {REASON}"
