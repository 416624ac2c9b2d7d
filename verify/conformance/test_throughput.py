"""Throughput of the kernel, timed by pytest-benchmark; the outputs of timed rounds are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pytest_benchmark", reason="throughput needs pytest-benchmark")

if TYPE_CHECKING:
    from verify.conformance.suite import Suite


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shape" not in metafunc.fixturenames:
        return
    from verify.conformance.suite import suite_of

    rows = suite_of(metafunc.config).timed()
    ids = [f"{fmt}-{'x'.join(map(str, shape))}" for fmt, shape in rows]
    metafunc.parametrize(("fmt", "shape"), rows, ids=ids)


@pytest.fixture(scope="session")
def suite(pytestconfig: pytest.Config) -> Suite:
    from verify.conformance.suite import suite_of

    return suite_of(pytestconfig)


def test_kernel_throughput(fmt: str, shape: tuple[int, ...], suite: Suite, benchmark: Any) -> None:
    """Fresh inputs in every round; the last round's output is within the bound."""
    suite.time(fmt, shape, benchmark)
