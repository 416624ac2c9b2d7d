"""The page in a browser: it draws, asks for nothing, and what can be pressed works."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verify.report.browser import MISSING, Browser, browser

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

ESCAPE, ENTER = "\ue00c", "\ue007"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def page(window: Browser, report: Path) -> Browser:
    """The shared report, freshly loaded in a wide window with empty logs."""
    window.resize(1280, 1000)
    window.prefer("light")
    window.log("performance")
    window.open(report / "report.html")
    return window


def colours(image: bytes) -> int:
    """How many colours a screenshot has; an empty page has one."""
    from PIL import Image

    with Image.open(io.BytesIO(image)) as picture:
        found = picture.convert("RGB").getcolors(maxcolors=2**24)
    assert found is not None
    return len(found)


def test_the_page_draws_without_a_console_message_or_a_request(page: Browser, report: Path) -> None:
    assert page.log("browser") == []
    # the browser's own new tab asks for its own pages, and data: is no request to a network
    asked = {a for a in page.requests() if not a.startswith(("data:", "chrome:"))}
    assert asked == {(report / "report.html").as_uri()}
    assert colours(page.screenshot()) > 100


def test_both_themes_are_drawn_and_differ(page: Browser) -> None:
    background = "return getComputedStyle(document.body.parentNode).backgroundColor"
    ink = "return getComputedStyle(document.querySelector('svg.plot text')).fill"
    light = page.run(background), page.run(ink), page.screenshot()
    page.prefer("dark")
    dark = page.run(background), page.run(ink), page.screenshot()
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert colours(dark[2]) > 100


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_page_never_scrolls_sideways(page: Browser, width: int) -> None:
    page.resize(width, 800, mobile=width < 500)
    assert page.run("return document.documentElement.scrollWidth") <= width


def test_a_filter_leaves_the_rows_that_match(page: Browser) -> None:
    script = """
    const field = document.querySelector('#summary input[type=search]');
    field.value = arguments[0];
    field.dispatchEvent(new Event('input'));
    const rows = [...document.querySelectorAll('#summary tbody tr')];
    return [rows.filter(r => r.offsetParent !== null).length, rows.length,
            document.querySelector('#summary .count').textContent];
    """
    shown, total, told = page.run(script, "naive fp16")
    assert (shown, total, told) == (2, 21, "2 of 21 rows")
    assert page.run(script, "")[0] == 21
    assert page.run(script, "no such kernel")[0] == 0


def test_a_heading_sorts_its_column_by_number(page: Browser) -> None:
    script = """
    const heads = [...document.querySelectorAll('#summary thead th')];
    const at = heads.findIndex(h => h.textContent.startsWith('Worst ulp'));
    heads[at].querySelector('button').click();
    const rows = [...document.querySelectorAll('#summary tbody tr')];
    const key = (cell) => Number(cell.dataset.sort ?? cell.textContent);
    return [heads[at].getAttribute('aria-sort'), rows.map(r => key(r.cells[at]))];
    """
    order, values = page.run(script)
    assert len(set(values)) > 2
    assert None not in values  # what is no number in JavaScript arrives as None
    assert order == "ascending"
    assert values == sorted(values)
    order, values = page.run(script)
    assert order == "descending"
    assert values == sorted(values, reverse=True)


CARD = """
const dialog = document.getElementById('card');
return [dialog.open, dialog.querySelector('h3').textContent, dialog.textContent];
"""


def opened(page: Browser) -> tuple[bool, str, str]:
    """The card once it is open: it is unpacked first, and a busy machine is slow."""
    deadline = time.monotonic() + 10
    card = page.run(CARD)
    while not card[0] and time.monotonic() < deadline:
        card = page.run(CARD)
    assert card[0]
    return card[0], card[1], card[2]


def test_a_heat_cell_opens_the_card_of_its_worst_case(page: Browser) -> None:
    page.run("[...document.querySelectorAll('.heat button.fail')][0].click()")
    _, title, text = opened(page)
    assert title == "textbook-softmax-naive fp16"
    for part in (
        "FAIL: output is NaN, truth is 0.2501",
        "score_ladder/fp16/-1000-16x16-d64",
        "0x7e00",
        "attncert reproduce textbook-softmax-naive-fp16-cpu.json#score_ladder/fp16/-1000-16x16-d64",
    ):
        assert part in text
    assert page.run("return document.activeElement.className") == "close"
    page.keys(ESCAPE)
    assert page.run(CARD)[0] is False
    assert page.log("browser") == []


def test_a_heat_cell_can_be_opened_by_keyboard(page: Browser) -> None:
    page.run("document.querySelector('.heat button').focus()")
    page.keys(ENTER)
    opened(page)


def test_a_copy_button_takes_the_command(page: Browser) -> None:
    """The command is selected at once, so that Ctrl+C works where the clipboard is closed to us."""
    script = """
    const button = document.querySelector('#refutations button.copy');
    button.scrollIntoView();
    button.click();
    return getSelection().toString();
    """
    assert page.run(script).startswith("attncert reproduce ")


def test_a_legend_entry_brings_its_line_out(page: Browser) -> None:
    script = """
    const legend = document.querySelector('#score_range .legend');
    legend.querySelectorAll('button')[1].click();
    const plot = legend.closest('figure').querySelector('svg.plot');
    return [plot.classList.contains('picking'),
            [...plot.querySelectorAll('.picked')].map(l => l.dataset.series)];
    """
    picking, picked = page.run(script)
    assert picking
    assert set(picked) == {"1"}


def test_the_page_can_be_printed(page: Browser) -> None:
    printed = page.devtools("Page.printToPDF", {"printBackground": True})
    assert len(printed["data"]) > 50_000
