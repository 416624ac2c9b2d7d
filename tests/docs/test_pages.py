"""What the pages show is true: commands exist, blocks of Python run, and so does the tutorial."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from mktestdocs import check_md_file

from verify import commands

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(?:console|bash|shell|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def lines(page: Path) -> Iterator[str]:
    """Lines of the console blocks of a page, continued ones joined, comments cut off."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            yield re.sub(r"\s+#\s.*$", "", line).strip()


def wrong_with(line: str) -> str | None:
    """What an `attncert` command line names that does not exist."""
    line = line.partition(" -- ")[0]  # what follows is another program's
    words = shlex.split(line.removeprefix("$ ").partition("|")[0])
    if words[:1] != ["attncert"] or len(words) < 2 or words[1].startswith("-"):
        return None
    command = commands.load(words[1])
    if command is None:
        return f"no command {words[1]!r}"
    context = click.Context(command)
    known = {o for p in command.get_params(context) for o in (*p.opts, *p.secondary_opts)}
    given = {word.partition("=")[0] for word in words[2:] if word.startswith("-")}
    return f"{words[1]} has no {sorted(given - known)}" if given - known else None


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_and_options_exist(page: Path) -> None:
    """Every `attncert` line of a console block."""
    assert [w for w in map(wrong_with, lines(page)) if w] == []


def test_a_command_or_option_that_does_not_exist_is_found() -> None:
    """The check above, seen to fail."""
    assert wrong_with("attncert certfy mine.py:f") == "no command 'certfy'"
    assert wrong_with("$ attncert certify mine.py:f --dtyp bf16") == "certify has no ['--dtyp']"
    assert wrong_with("attncert certify mine.py:f --dtype bf16 | head") is None


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_blocks_run(page: Path) -> None:
    """Each block of a page on its own."""
    check_md_file(page, memory=False)


LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)(#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    """Relative links; anchors and the site are checked by `tox run -e docs`."""
    targets = [m[0] for m in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [t for t in targets if not (page.parent / t).exists()] == []


SITE = [page for page in PAGES if page.is_relative_to(ROOT / "docs")]


@pytest.mark.parametrize("page", SITE, ids=[str(page.relative_to(ROOT)) for page in SITE])
def test_links_of_the_site_stay_in_the_site(page: Path) -> None:
    """What lies outside docs/ is not part of the site, which would not be built."""
    targets = [m[0] for m in LINK.findall(page.read_text(encoding="utf-8"))]
    inside = [(page.parent / t).resolve().is_relative_to(ROOT / "docs") for t in targets]
    assert all(inside), [t for t, within in zip(targets, inside, strict=True) if not within]


def run_as_shown(page: Path, folder: Path) -> list[str]:
    """Run every `$ attncert` line in a folder with examples/; a following `$ echo $?` is compared.

    CERTIFICATE stands for a certificate that an earlier line wrote.
    """
    shutil.copytree(ROOT / "examples", folder / "examples")
    shown, said = list(lines(page)), []
    for at, line in enumerate(shown):
        if not line.startswith("$ attncert "):
            continue
        made = sorted((folder / "out/attncert").glob("*-cpu.json"))  # not the report's summary.json
        if made:
            line = line.replace("CERTIFICATE.json", made[-1].name)
        words = shlex.split(line.removeprefix("$ attncert "))
        done = subprocess.run(
            [sys.executable, "-m", "verify", *words],
            cwd=folder, check=False, capture_output=True, text=True,
        )  # fmt: skip
        asked = [n for n in range(at + 1, len(shown)) if shown[n] == "$ echo $?"]
        following = [n for n in range(at + 1, len(shown)) if shown[n].startswith("$ attncert ")]
        shows = asked and (not following or asked[0] < following[0])
        wanted = int(shown[asked[0] + 1]) if shows else 0
        if done.returncode != wanted:
            said.append(f"{line}: {done.returncode} instead of {wanted}: {done.stderr[-500:]}")
    return said


def test_tutorial_runs_as_shown(tmp_path: Path) -> None:
    """Each command, with the exit status that the page shows."""
    assert run_as_shown(ROOT / "docs/tutorial.md", tmp_path) == []


@pytest.mark.slow
def test_readme_runs_as_shown(tmp_path: Path) -> None:
    """Each command, with the exit status that the page shows."""
    assert run_as_shown(ROOT / "README.md", tmp_path) == []


@pytest.mark.parametrize("name", ["attention_written_out", "attention_in_binary32"])
def test_tutorial_shows_the_examples(name: str) -> None:
    """The body of the function is that of the file."""

    def body(text: str) -> list[str]:
        found = text[text.index("def attention(") :].split("\n")[1:]
        code = [line.strip() for line in found if line.startswith("    ")]
        return [line for line in code if not line.startswith('"""')]

    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    blocks = [b for b in page.split("```") if b.startswith("python") and "def attention(" in b]
    source = (ROOT / f"examples/{name}.py").read_text(encoding="utf-8")
    assert body(source) in [body(b) for b in blocks]
