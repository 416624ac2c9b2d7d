"""Throughput of the kernel, timed by pytest-benchmark; outputs of timed rounds are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pytest_benchmark", reason="throughput needs pytest-benchmark")

from verify.bench.pedantic import kernel_clock, time_with

if TYPE_CHECKING:
    from verify.bench.session import Session


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "item" not in metafunc.fixturenames:
        return
    from verify.conformance.suite import timed_of

    items = timed_of(metafunc.config).plan()
    ids = [f"{item.format.name}-{item.shape.label}" for item in items]
    metafunc.parametrize("item", items, ids=ids)


@pytest.fixture(scope="session")
def timed(pytestconfig: pytest.Config) -> Session:
    from verify.conformance.suite import timed_of

    return timed_of(pytestconfig)


@pytest.mark.benchmark(timer=kernel_clock)
def test_kernel_throughput(item: Any, timed: Session, benchmark: Any) -> None:
    """Fresh inputs in every round; rows of random rounds are within the bound."""
    time_with(benchmark, timed, item)
