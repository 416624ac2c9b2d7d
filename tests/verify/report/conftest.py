"""One report of every verdict, shared by the tests that only read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.report.factory import several
from verify.report import write_report


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a report on `several()`."""
    folder = tmp_path_factory.mktemp("report")
    write_report(several(), folder)
    return folder
