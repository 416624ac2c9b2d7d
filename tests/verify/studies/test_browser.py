"""The page of a study in a browser: it draws, asks for nothing and fits narrow screens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.verify.report.browser import MISSING, Browser, browser
from tests.verify.studies.test_command import document
from verify import studies

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("study")
    studies.write(document(), folder)
    with browser(tmp_path_factory.mktemp("profile")) as window:
        window.log("performance")
        window.open(folder / "scaling.html")
        yield window


def test_study_page_draws_without_a_message_or_a_request(page: Browser) -> None:
    """No console message, and nothing is fetched but the file."""
    assert page.log("browser") == []
    asked = {a for a in page.requests() if not a.startswith(("chrome", "data:"))}
    assert [a.rpartition("/")[2] for a in asked] == ["scaling.html"]


def test_study_picture_has_a_visible_line_and_its_title(page: Browser) -> None:
    """The line of the chart has a length, and the caption says what it shows."""
    length = "return document.querySelector('svg.plot [data-series] path').getTotalLength()"
    assert page.run(length) > 50
    box = "const b = document.querySelector('svg.plot').getBoundingClientRect(); return b.height"
    assert page.run(box) > 200
    caption = page.run("return document.querySelector('figcaption').textContent")
    assert caption == "Up & <away>. A line."


@pytest.mark.parametrize("width", [320, 1280])
def test_study_page_never_scrolls_sideways(page: Browser, width: int) -> None:
    page.resize(width, 800, mobile=width < 500)
    assert page.run("return document.documentElement.scrollWidth") <= width
