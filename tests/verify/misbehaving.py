"""Kernels that do to their process what a kernel may never do; imported by the worker only."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

import torch
from torch import Tensor


def stable(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def raises(x: Tensor) -> Tensor:
    raise ValueError("no such luck")


def leaves(x: Tensor) -> Tensor:
    os._exit(7)


def system_exit(x: Tensor) -> Tensor:
    sys.exit(0)


def segfaults(x: Tensor) -> Tensor:
    ctypes.string_at(0)
    return x


def kills_itself(x: Tensor) -> Tensor:
    os.kill(os.getpid(), signal.SIGKILL)
    return x


def hangs(x: Tensor) -> Tensor:
    time.sleep(3600)
    return x


def hoards(x: Tensor) -> Tensor:
    return torch.ones(40 * 2**30 // 4)


def changes_input(x: Tensor) -> Tensor:
    x.zero_()
    return x.clone()


def wrong_shape(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)[:, :-1].clone()


def wrong_type(x: Tensor) -> object:
    return torch.softmax(x, -1).tolist()


def wrong_format(x: Tensor) -> Tensor:
    return torch.softmax(x.double(), -1)


def prints(x: Tensor) -> Tensor:
    print("a forged answer: {}")
    return torch.softmax(x, -1)


class Lazy(Tensor):
    pass


def subclass(x: Tensor) -> Tensor:
    return torch.softmax(x, -1).as_subclass(Lazy)


def spawns(x: Tensor) -> Tensor:
    if os.fork() == 0:
        time.sleep(3600)
    return torch.softmax(x, -1)


def needs_more(x: Tensor, temperature: float) -> Tensor:
    return torch.softmax(x / temperature, -1)


def anything(x: Tensor, **kwargs: object) -> Tensor:
    return torch.softmax(x, -1)
