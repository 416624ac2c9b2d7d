"""`attncert compare`: two versions of a kernel -> what became worse."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("compare")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--max-growth",
    default=1.5,
    show_default=True,
    type=click.FloatRange(1.0),
    help="How many times the largest error of a family may grow; exit 1 past it.",
)
@click.option(
    "--fail-speed",
    "limits",
    multiple=True,
    metavar="EXPR",
    help="median:10%, min:0.001 (seconds) or ratio:5%; exit 6 past it.",
)
@click.option(
    "--markdown",
    "comment",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a comment for a pull request.",
)
def command(
    old: Path, new: Path, max_growth: float, limits: tuple[str, ...], comment: Path | None
) -> None:
    """Compare certificates and timings of OLD and NEW, files or folders.

    Exits 1 where accuracy became worse: a verdict, a grade, an error of a family past --max-growth,
    or cases that are judged no more; 6 where only a limit of speed is passed; 3 where a time cannot
    be true; 4 where nothing is in common; 2 where the two do not compare.
    """
    from verify.certificate import write_atomically
    from verify.compare.comparing import compare
    from verify.compare.speed import Limit
    from verify.compare.text import markdown, terminal

    outcome = compare(old, new, max_growth, [Limit.parse(text) for text in limits])
    click.echo(terminal(outcome))
    if comment is not None:
        write_atomically(comment, markdown(outcome))
    sys.exit(outcome.exit_status)
