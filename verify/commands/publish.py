"""`attncert publish`: every shipped kernel, certified and reported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click


@click.command("publish")
@click.option(
    "--output", "folder", default="out/report", show_default=True, type=click.Path(path_type=Path)
)
@click.option(
    "--profile",
    type=click.Choice(["smoke", "standard", "extensive"]),
    default="standard",
    show_default=True,
)
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only these kernels.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(folder: Path, profile: Any, kernels: tuple[str, ...], quiet: bool) -> None:
    """Certify every shipped kernel in every format on every device here, and write the report.

    Exits 0 when every verdict is the one that the kernel is shipped for: the naive kernels must be
    refuted, the others certified.
    """
    from verify.exit_status import report_unexpected
    from verify.publishing import publish as run
    from verify.terminal import Terminal

    with Terminal(quiet=quiet) as terminal:
        certificates, files = run(folder, terminal, profile=profile, kernels=kernels or None)
    for path in files:
        click.echo(path)
    sys.exit(report_unexpected(certificates))
