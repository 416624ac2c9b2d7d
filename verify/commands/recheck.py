"""`attncert recheck`: does a certificate agree with itself?"""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("recheck")
@click.argument(
    "sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|FOLDER..."
)
def command(sources: tuple[Path, ...]) -> None:
    """Check that certificates agree with themselves: verdicts, errors, bounds, counts."""
    from verify.certificate import certificate_files, read
    from verify.certificate import recheck as check

    wrong = [f"{path}: {w}" for path in certificate_files(sources) for w in check(read(path))]
    for line in wrong:
        click.echo(line, err=True)
    click.echo("all certificates agree with themselves" if not wrong else f"{len(wrong)} faults")
    sys.exit(7 if wrong else 0)
