"""Every cheat of the table is caught by the check that is named, and its honest twin passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from verify.calling import Bench
from verify.formats import BINARY16
from verify.selftest.expected import table
from verify.selftest.gate import failures
from verify.selftest.hunt import Ground, hunt
from verify.truth import Oracle
from verify.worker import Worker

TABLE = table()
# What each cheat must not be able to do, by what catches it.
CHECKS = {
    "poisoned memory": ("uninitialised", "writes-a-part"),
    "inputs compared before and after": ("input-view", "changes-inputs"),
    "two outputs that must both stay valid": ("static-buffer",),
    "new data at the same address": ("caches-by-pointer",),
    "one interior element changed": ("caches-by-fingerprint",),
    "many calls": ("drifts",),
    "shapes of the families": ("known-shapes",),
    "shape, type and format": (
        "empty-output",
        "broadcast-shape",
        "wider-format",
        "agreeing-subclass",
    ),
    "pattern of NaN": ("nan-everywhere",),
    "bytes copied at once": ("late-writer",),
    "clock, truth and verdict in another process": (
        "patched-torch",
        "patched-harness",
        "walks-frames",
    ),
    "operators watched": ("library-fallback",),
    "nonce": ("forges-answer",),
    "limits and an own process group": (
        "crashes",
        "exits-early",
        "raises-system-exit",
        "hangs",
        "hoards",
    ),
}
TWINS = ("writes-everything", "works-on-a-copy", "scratch-buffer", "caches-a-plan", "by-hand")
ATTENTION = ("library-fallback", "by-hand")
Grounds = dict[str, Ground]


@pytest.fixture(scope="module")
def grounds() -> Iterator[tuple[Grounds, Worker]]:
    with Worker(seconds=10.0, memory_bytes=24 * 2**30) as worker:
        bench = Bench(Oracle(audit=0), worker, grading=False)
        softmax, attention = (Ground(o, BINARY16, bench) for o in ("softmax", "attention"))
        yield {"softmax": softmax, "attention": attention}, worker


def _ground(name: str, grounds: Grounds) -> Ground:
    return grounds["attention" if name in ATTENTION else "softmax"]


def test_every_cheat_has_a_check() -> None:
    """The table, this page and the registry agree."""
    named = {f"cheat-{name}" for names in CHECKS.values() for name in names}
    with Worker() as worker:
        shipped = {k["name"] for k in worker.list_kernels() if k["name"].startswith("cheat-")}
    assert named == shipped == set(TABLE.cheats)


@pytest.mark.parametrize(
    ("check", "cheat"), [(check, name) for check, names in CHECKS.items() for name in names]
)
def test_cheat_is_caught_by_its_check(
    check: str, cheat: str, grounds: tuple[Grounds, Worker]
) -> None:
    """The record says so in the words of that check."""
    name = f"cheat-{cheat}"
    entry = TABLE.cheats[name]
    ground, worker = _ground(cheat, grounds[0]), grounds[1]
    outcome = hunt(name, ground, worker, [entry["where"]], patient=False)
    if entry.get("after") == "restart" or cheat == "hangs":
        worker.restart()
    assert failures(outcome, TABLE) == [], check


@pytest.mark.parametrize("twin", TWINS)
def test_honest_twin_passes_what_catches_the_cheats(
    twin: str, grounds: tuple[Grounds, Worker]
) -> None:
    """All families and properties that catch a cheat."""
    everywhere = sorted({entry["where"] for entry in TABLE.cheats.values()})
    outcome = hunt(f"right-{twin}", _ground(twin, grounds[0]), grounds[1], everywhere)
    assert outcome.kills == {}
    assert outcome.problems == ()
    assert outcome.records > 30
