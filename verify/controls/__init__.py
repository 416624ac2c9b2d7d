"""Kernels that test the judge: broken on purpose, cheating, and unusual but right.

Registered with `verify.kernels.kernel`, one module each; `selftest` runs them all.
"""
