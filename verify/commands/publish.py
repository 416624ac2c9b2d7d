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
@click.option("--library", metavar="NAME", help="The adapters of another library, such as jax.")
@click.option(
    "--pages",
    type=click.Path(path_type=Path, file_okay=False),
    help="Copy report.md, report.html and summary.json here: the report without its certificates.",
)
@click.option("--dtype", "formats", metavar="LIST", help="Only these formats: fp16,bf16,fp32.")
@click.option("--family", "only", multiple=True, metavar="NAME", help="Only these families.")
@click.option(
    "--processes",
    default=0,
    type=click.IntRange(0),
    help="Formats certified side by side (0: one for each core).",
)
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only these kernels.")
@click.option(
    "--throughput/--no-throughput",
    "timed",
    default=False,
    help="Time the kernels too, one after another: throughput, and accuracy against speed.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted run of the same command.")
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    type=click.FloatRange(1),
    help="Seconds that one call of a kernel may take.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
def command(
    folder: Path,
    profile: Any,
    library: str | None,
    pages: Path | None,
    formats: str | None,
    only: tuple[str, ...],
    processes: int,
    kernels: tuple[str, ...],
    timed: bool,
    resume: bool,
    timeout: float,
    quiet: bool,
) -> None:
    """Certify every shipped kernel in every format on every device here, and write the report.

    Exits 0 when every verdict is the one that the kernel is shipped for: the naive kernels must be
    refuted, the others certified.  Adapters of other libraries are published one library at a time.
    Studies (`attncert study`) that lie in the output folder become sections of the report.
    """
    from verify.exit_status import report_unexpected
    from verify.publishing import copied
    from verify.publishing import publish as run
    from verify.studies import sections
    from verify.terminal import Terminal

    with Terminal(quiet=quiet) as terminal:
        certificates, files = run(
            folder,
            terminal,
            profile=profile,
            kernels=kernels or None,
            library=library,
            formats=formats.split(",") if formats else None,
            only=only or None,
            processes=processes,
            more=sections((folder,)),
            timed=timed,
            resume=resume,
            seconds=timeout,
        )
    if pages:
        files += copied(files, pages)
    for path in files:
        click.echo(path)
    status = report_unexpected(certificates)
    if not status:
        click.echo(f"{len(certificates)} verdicts, each the one that its kernel is shipped for")
    sys.exit(status)
