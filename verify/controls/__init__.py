"""Kernels that test the judge: broken on purpose, cheating, and unusual but right.

Registered with `verify.kernels.kernel`, one module each; `attncert selftest` runs them all, and
kills.json beside them holds the families and properties that must refute each negative control.
"""

from __future__ import annotations

# The honest twin of a cheat: what the cheat pretends to be, and must pass.
TWINS = {
    "cheat-uninitialised": "right-writes-everything",
    "cheat-writes-a-part": "right-writes-everything",
    "cheat-input-view": "right-works-on-a-copy",
    "cheat-changes-inputs": "right-works-on-a-copy",
    "cheat-static-buffer": "right-scratch-buffer",
    "cheat-caches-by-pointer": "right-caches-a-plan",
    "cheat-caches-by-fingerprint": "right-caches-a-plan",
}
