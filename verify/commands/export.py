"""`attncert export`: a corpus of inputs without answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from verify.operation import OPERATIONS


def words(text: str | None) -> tuple[str, ...]:
    """The items of a comma-separated list."""
    return tuple(item.strip() for item in (text or "").split(",") if item.strip())


@click.command("export")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--operation",
    type=click.Choice(OPERATIONS),
    required=True,
)
@click.option(
    "--dtype",
    "formats",
    default="fp16,bf16,fp32",
    show_default=True,
    metavar="LIST",
    help="Also e4m3, e5m2.",
)
@click.option(
    "--profile",
    type=click.Choice(["smoke", "standard", "extensive"]),
    default="standard",
    show_default=True,
)
@click.option("--family", "only", multiple=True, metavar="NAME", help="Only these families.")
@click.option(
    "--without",
    metavar="LIST",
    help="Features that the kernel lacks, such as window,sinks,return_lse,gqa.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--quiet", is_flag=True, help="No progress.")
def command(folder: Path, **options: Any) -> None:
    """Write inputs for a kernel that cannot be called from here: index.json and safetensors files.

    Nothing in DIR tells an answer. Compute the outputs anywhere, in any language, and judge them
    with `attncert grade DIR OUTPUTS`. A run that was interrupted is completed by running it again.
    """
    from verify.exporting import Corpus, export
    from verify.formats import format_named
    from verify.terminal import Terminal

    corpus = Corpus(
        operation=options["operation"],
        formats=tuple(format_named(name).name for name in words(options["formats"])),
        profile=options["profile"],
        only=options["only"] or None,
        seed=options["seed"],
        without=words(options["without"]),
    )
    with Terminal(quiet=options["quiet"]) as terminal:
        terminal.counting(f"export {corpus.operation}")
        done = export(corpus, folder, terminal.counted)
    click.echo(f"{done.cases} cases, {done.size / 1e6:.1f} MB, {len(done.skipped)} skipped")
    click.echo(f"corpus: {done.digest}")
    click.echo(f"next: compute the outputs, then attncert grade {folder} OUTPUTS")
