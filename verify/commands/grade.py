"""`attncert grade`: outputs from elsewhere -> certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click


@click.command("grade")
@click.argument("corpus", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("outputs", type=click.Path(path_type=Path), metavar="OUTPUTS")
@click.option("--dtype", "formats", default="all", metavar="LIST", help="Formats to grade.")
@click.option("--kernel", "name", default="", metavar="NAME", help="Name in the certificate.")
@click.option("--device", default="", metavar="NAME", help="Device in the certificate.")
@click.option(
    "--model", metavar="PRESET", help="Declared arithmetic model; see `attncert list models`."
)
@click.option(
    "--declare",
    "declared",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other declaration, such as corner=top-left or without=return_lse.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="attncert.toml or pyproject.toml that declares the kernel, with its waivers.",
)
@click.option(
    "--output",
    "folder",
    default="out/attncert",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for certificates.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted run of the same command.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON summary instead of text.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(corpus: Path, outputs: Path, **options: Any) -> None:
    """Judge OUTPUTS, which some kernel computed from the corpus DIR of `attncert export`.

    OUTPUTS holds outputs.json, which names the corpus, and one safetensors file for each case.
    """
    from verify.declaration import from_words
    from verify.declared_file import the_one
    from verify.exit_status import report_waivers, status_of
    from verify.grading import Grading, count_missing, grade_all
    from verify.terminal import Terminal

    entry = the_one(options["config"], options["name"]) if options["config"] else None
    declared = from_words(options["model"], options["declared"])
    grading = Grading(
        corpus=corpus,
        outputs=outputs,
        declared={**entry.declared, **declared} if entry else declared,
        waivers=entry.waivers if entry else (),
        formats=options["formats"],
        name=options["name"],
        device=options["device"],
        folder=options["folder"],
        resume=options["resume"],
    )
    with Terminal(as_json=options["as_json"], quiet=options["quiet"]) as terminal:
        certificates = grade_all(grading, terminal)
    terminal.summary(certificates, options["folder"])
    missing = count_missing(certificates)
    if missing:
        click.echo(f"attncert: {missing} cases have no outputs; see the certificates", err=True)
    faults = report_waivers(grading.waivers, certificates, complete=False)
    sys.exit(status_of(certificates) or (1 if faults else 0))
