"""A cheat that speaks in the worker's name.

Caught by   the nonce of each call: an answer without it was not asked for.
"""

from __future__ import annotations

import json
import os
import stat

import torch
from torch import Tensor

from verify.controls._control import cheat


@cheat("forges-answer", "writes an answer of its own into every open socket")
def forges_answer(x: Tensor) -> Tensor:
    """The forged line arrives before the worker's."""
    line = json.dumps({"outputs": [], "returned": 1, "seconds": 0.0, "nonce": "0" * 16})
    for descriptor in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, line.encode() + b"\n")
        except OSError:
            continue
    return torch.zeros_like(x)
