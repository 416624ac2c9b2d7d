"""`attncert front-page`: the table that compares all published reports."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("front-page")
@click.argument("folder", default="reports", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where README.md would change.")
def command(folder: Path, check: bool) -> None:
    """Write the table of all reports in FOLDER into its README.md.

    It is made from FOLDER/*/summary.json, which `attncert publish` writes, and links the findings
    in FOLDER/findings that name a kernel.
    """
    from verify.certificate import write_atomically
    from verify.front_page import page

    target = folder / "README.md"
    before = target.read_text(encoding="utf-8") if target.is_file() else "# Published reports\n"
    after = page(before, folder)
    if check:
        if after != before:
            click.echo(f"{target} is not what `attncert front-page {folder}` makes", err=True)
        sys.exit(after != before)
    write_atomically(target, after)
    click.echo(target)
