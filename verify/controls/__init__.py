"""Kernels that test the judge: broken on purpose, cheating, and unusual but right.

Registered with `verify.kernels.kernel`, one module each, by `control`, `cheat`, `right` and `twin`
of `_control.py`; `attncert selftest` runs them all.  What it demands of each is in kills.json:
which family or property must refute a control, why some are refuted by one only, and what must be
said of each cheat (`verify.selftest.expected` describes the file).
"""

from __future__ import annotations

# The honest twin of a cheat: what the cheat pretends to be, and must pass.  A cheat without one has
# no honest way to do what it does (a crash, a forged answer, a wrong shape).
TWINS = {
    "cheat-uninitialised": "right-writes-everything",
    "cheat-writes-a-part": "right-writes-everything",
    "cheat-input-view": "right-works-on-a-copy",
    "cheat-changes-inputs": "right-works-on-a-copy",
    "cheat-static-buffer": "right-scratch-buffer",
    "cheat-caches-by-pointer": "right-caches-a-plan",
    "cheat-caches-by-fingerprint": "right-caches-a-plan",
    "cheat-library-fallback": "right-by-hand",
}
