"""One test per family, format and kernel: the family's cases are within the bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from verify.conformance.suite import Suite


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise over what the kernel claims; nothing is skipped silently."""
    if "family" not in metafunc.fixturenames:
        return
    from verify.conformance.suite import suite_of

    suite = suite_of(metafunc.config)
    pairs = suite.pairs()
    ids = [f"{fmt}-{family}" for fmt, family in pairs]
    metafunc.parametrize(("fmt", "family"), pairs, ids=ids)


@pytest.fixture(scope="session")
def suite(pytestconfig: pytest.Config) -> Suite:
    from verify.conformance.suite import suite_of

    return suite_of(pytestconfig)


def test_kernel_is_within_its_bound(fmt: str, family: str, suite: Suite) -> None:
    """Every case of the family agrees with the declared arithmetic."""
    suite.check(fmt, family)


def test_something_was_judged(suite: Suite) -> None:
    """A kernel of which nothing was judged is not certified: in every format one case at least."""
    suite.require_evidence()
