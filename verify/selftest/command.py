"""What `attncert selftest` does: run, print, keep; the exit status."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from verify import backing
from verify.certificate import write_atomically
from verify.formats import format_named
from verify.selftest import matrix, peers, power
from verify.selftest.expected import table, write
from verify.selftest.hunt import Outcome
from verify.selftest.running import Request, Result, run


def selftest(
    request: Request, folder: Path | None, *, as_json: bool = False, write_expected: bool = False
) -> int:
    """Run a selftest and tell of it; 0 where the judge is sound and sharp, else 1."""
    import click

    expected = table()

    def progress(outcome: Outcome) -> None:
        click.echo(matrix.line(outcome, expected), err=as_json)

    result = run(request, progress, expected)
    if write_expected:
        click.echo(write(table().with_kills(matrix.kept(result.outcomes))), err=as_json)
        expected = table()
    text = json.dumps(matrix.data(result, expected), indent=1)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "selftest.json", text + "\n")
    click.echo(text if as_json else "\n".join(matrix.totals(result)))
    _keep(result)
    return 1 if result.failures or not result.outcomes else 0


def tell_peers(formats: tuple[str, ...], folder: Path | None, *, as_json: bool = False) -> int:
    """Print what other projects' gates say of each control, beside what this suite says."""
    import click

    found = peers.table(formats)
    _tell(found, "peers", matrix.peers_lines(found), folder, as_json, click.echo)
    return 0


def tell_power(formats: tuple[str, ...], folder: Path | None, *, as_json: bool = False) -> int:
    """Print the smallest planted error that is refuted, by format, family and n."""
    import click

    found = {name: power.power(format_named(name)) for name in formats}
    _tell(found, "power", matrix.power_lines(found), folder, as_json, click.echo)
    return 0


def _tell(
    found: dict[str, Any],
    name: str,
    lines: list[str],
    folder: Path | None,
    as_json: bool,
    echo: Callable[[str], None],
) -> None:
    text = json.dumps(found, indent=1)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{name}.json", text + "\n")
    echo(text if as_json else "\n".join(lines))


def _keep(result: Result) -> None:
    if result.whole and not result.failures:
        backing.keep(matrix.summary(result))
