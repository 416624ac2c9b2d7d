"""The bench as a pytest suite on top of pytest-benchmark, whose options all apply:

    pytest --pyargs verify.bench.suite --attncert-bench torch-sdpa --benchmark-json=now.bench.json
    ... --benchmark-compare --benchmark-compare-fail=median:10%

`attncert bench` is the same with our exit statuses.  pytest-benchmark's seconds are those of the
call inside the kernel's process: its timer is a clock that stands still outside of calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from verify.bench.pedantic import kernel_clock, time_with

if TYPE_CHECKING:
    from verify.bench.session import Session


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    from verify.bench.asking import session_of

    items = session_of(metafunc.config).plan()
    metafunc.parametrize("item", items, ids=[item.id for item in items])


@pytest.fixture(scope="session")
def bench_session(pytestconfig: pytest.Config) -> Iterator[Session]:
    from verify.bench.asking import session_of

    session = session_of(pytestconfig)
    yield session
    session.close()


@pytest.mark.benchmark(timer=kernel_clock)
def test_throughput(item: Any, bench_session: Session, benchmark: Any) -> None:
    """Fresh inputs in every round; sampled rows of random rounds are within the bound."""
    time_with(benchmark, bench_session, item)
