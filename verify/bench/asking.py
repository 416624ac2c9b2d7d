"""Asking: the bench session of a pytest run, from its options; made on first use."""

from __future__ import annotations

from typing import Any

import pytest

from verify.bench import ladder
from verify.bench.session import Ask, Session
from verify.certifying import Request, worker_for
from verify.declaration import from_words
from verify.errors import AttncertError

SESSION: pytest.StashKey[Session] = pytest.StashKey()


def session_of(config: pytest.Config) -> Session:
    """The session; a user's mistake ends the run in a line."""
    if SESSION not in config.stash:
        if not config.getoption("attncert_bench"):
            raise pytest.UsageError("verify.bench.suite needs --attncert-bench KERNEL")
        try:
            made = opened(ask_of(config, tuple(config.getoption("attncert_bench")), ladder.FULL))
            made.plan()
        except AttncertError as error:
            raise pytest.UsageError(str(error)) from None
        config.stash[SESSION] = made
    return config.stash[SESSION]


def opened(ask: Ask) -> Session:
    """A session with a worker of its own."""
    return Session(ask, worker_for(ask.request))


def ask_of(config: pytest.Config, kernels: tuple[str, ...], shapes: str) -> Ask:
    """What the options ask for."""
    option: Any = config.getoption
    request = Request(
        kernels=kernels,
        formats=option("attncert_dtype"),
        device=option("attncert_device"),
        declared=from_words(option("--attncert-model"), tuple(option("attncert_declare"))),
    )
    return Ask(
        request,
        shapes=option("--attncert-shapes") or shapes,
        against=option("--attncert-against"),
        rounds=option("--attncert-rounds"),
        seconds=option("--attncert-seconds"),
        budget=option("--attncert-budget"),
        wait=option("--attncert-wait"),
    )
