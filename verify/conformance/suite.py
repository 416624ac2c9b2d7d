"""Suite: what the conformance tests share - the loaded kernel, one bench, the records so far."""

from __future__ import annotations

import atexit
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from verify import families
from verify.bench import ladder
from verify.bench.asking import ask_of, opened
from verify.bench.session import Session
from verify.calling import Bench
from verify.campaign import Campaign, certify, planned_cases
from verify.certificate import Certificate, Record, Skipped
from verify.certifying import Request, campaign_of, loaded
from verify.declaration import from_words
from verify.errors import AttncertError
from verify.formats import format_named
from verify.judge import Verdict, worst
from verify.kernel import Kernel, formats_named
from verify.pipeline import examine
from verify.terminal import explain
from verify.truth import Oracle
from verify.worker import Worker

SUITE: pytest.StashKey[Suite] = pytest.StashKey()
TIMED: pytest.StashKey[Session] = pytest.StashKey()


@dataclass
class Suite:
    """One kernel under pytest, family by family."""

    kernel: Kernel
    request: Request
    worker: Worker
    bench: Bench
    records: dict[str, list[Record]] = field(default_factory=dict)
    skipped: dict[str, list[Skipped]] = field(default_factory=dict)

    def pairs(self) -> list[tuple[str, str]]:
        """(format, family) for every family that has cases for the kernel's operation."""
        formats = formats_named(self.request.formats, self.kernel)
        return [(f.name, name) for f in formats for name in self._families(f.name)]

    def _families(self, fmt: str) -> list[str]:
        cases, skipped = planned_cases(self.campaign(fmt, None))
        found = {c.family for c in cases} | {s.family for s in skipped}
        return [name for name in families.names() if name in found]

    def campaign(self, fmt: str, only: tuple[str, ...] | None) -> Campaign:
        return campaign_of(self.kernel, format_named(fmt), self.request, only)

    def check(self, fmt: str, family: str) -> None:
        """Run one family; fail with the worst case, skip where the kernel claims none of it."""
        __tracebackhide__ = True
        cases, skipped = planned_cases(self.campaign(fmt, (family,)))
        self.skipped.setdefault(fmt, []).extend(skipped)
        records = [examine(case, self.kernel, self.bench) for case in cases]
        self.records.setdefault(fmt, []).extend(records)
        if not records:
            pytest.skip("; ".join(sorted({s.reason for s in skipped})))
        verdict = worst(r.verdict for r in records)
        if verdict in (Verdict.PASS, Verdict.OUT_OF_SCOPE):
            return
        record = next(r for r in records if r.verdict is verdict)
        pytest.fail(explain(record, self.certificate(fmt), Path()), pytrace=False)

    def certificate(self, fmt: str) -> Certificate:
        """What has been found so far in a format."""
        records = tuple(self.records.get(fmt, ()))
        skipped = tuple(self.skipped.get(fmt, ()))
        campaign = self.campaign(fmt, None)
        cases, skipped_all = planned_cases(campaign)
        planned = len(cases) + len(skipped_all)
        return certify(campaign, records, skipped, planned, self.bench, 0.0)

    def certificates(self) -> list[Certificate]:
        return [self.certificate(fmt) for fmt in self.records]

    def require_evidence(self) -> None:
        """Fail where no case of a format was judged."""
        __tracebackhide__ = True
        for fmt, records in self.records.items():
            if not any(r.verdict is Verdict.PASS for r in records):
                pytest.fail(f"{self.kernel.name} {fmt}: nothing was certified", pytrace=False)
        if not self.records:
            pytest.fail(f"{self.kernel.name}: no family was run", pytrace=False)


def suite_of(config: pytest.Config) -> Suite:
    """The suite of this session; made on first use. A user's mistake ends the session in a line."""
    if SUITE not in config.stash:
        try:
            config.stash[SUITE] = _make(config)
        except AttncertError as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[SUITE]


def _make(config: pytest.Config) -> Suite:
    name = config.getoption("attncert_kernel")
    if name is None:
        raise pytest.UsageError(
            "verify.conformance needs --kernel module:function or file.py:function"
        )
    model: str | None = config.getoption("--attncert-model")
    declared: dict[str, Any] = from_words(model, tuple(config.getoption("attncert_declare")))
    request = Request(
        kernels=(name,),
        formats=config.getoption("attncert_dtype"),
        device=config.getoption("attncert_device"),
        profile=config.getoption("--attncert-profile"),
        declared=declared,
    )
    worker = Worker()
    atexit.register(worker.close)
    kernel = loaded(worker, name, request)
    return Suite(kernel, request, worker, Bench(Oracle(), worker, request.device))


def timed_of(config: pytest.Config) -> Session:
    """The bench session of the suite's kernel; made on first use, with a worker of its own."""
    if TIMED not in config.stash:
        kernel = suite_of(config).kernel.name
        session = config.stash[TIMED] = opened(ask_of(config, (kernel,), ladder.QUICK))
        atexit.register(session.close)
    return config.stash[TIMED]
