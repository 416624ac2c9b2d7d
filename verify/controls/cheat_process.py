"""Kernels that take their process down, or hold it up.

Caught by   time limit, memory limit, own process group; one case is lost, the run goes on.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

import torch
from torch import Tensor

from verify.controls._control import cheat


@cheat("crashes", "reads address 0")
def crashes(x: Tensor) -> Tensor:
    """Segmentation fault."""
    ctypes.string_at(0)
    return x


@cheat("exits-early", "ends its process with status 0")
def exits_early(x: Tensor) -> Tensor:
    """Success, as seen by a shell."""
    os._exit(0)


@cheat("raises-system-exit", "raises SystemExit")
def raises_system_exit(x: Tensor) -> Tensor:
    """An exception that `except Exception` does not see."""
    sys.exit(0)


@cheat("hangs", "never returns")
def hangs(x: Tensor) -> Tensor:
    """Sleeps for an hour."""
    time.sleep(3600)
    return x


@cheat("hoards", "asks for 40 GB and touches them")
def hoards(x: Tensor) -> Tensor:
    """One page after another, so that the memory is really taken."""
    return torch.ones(40 * 2**30 // 4)
