"""Kernels that test the judge: broken on purpose, cheating, and unusual but right.

Registered with `verify.kernels.kernel`, one module each; `selftest` runs them all.

`OBLIGATIONS` says which families and properties must refute each negative control, in every format
that the control claims (`ONLY` narrows it where a fault does not exist, or cannot be shown by that
check, in some formats).  `TWINS` names the honest twin of each cheat.
"""

from __future__ import annotations
