"""`attncert certify`: kernel -> certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from verify.operation import OPERATIONS

DEFAULT_OUTPUT = "out/attncert"


@click.command("certify")
@click.argument("kernels", nargs=-1, required=True, metavar="KERNEL...")
@click.option(
    "--dtype",
    "formats",
    default="all",
    metavar="LIST",
    help="fp16,bf16,fp32, or all that the kernel claims.",
)
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option(
    "--profile",
    type=click.Choice(["smoke", "standard", "extensive"]),
    default="standard",
    show_default=True,
)
@click.option(
    "--operation",
    type=click.Choice(OPERATIONS),
    help="Where the parameters do not tell.",
)
@click.option(
    "--direction",
    type=click.Choice(["forward", "backward", "both"]),
    help="backward: the gradients of a forward kernel, by torch.autograd.  [default: its own]",
)
@click.option(
    "--model", metavar="PRESET", help="Declared arithmetic model; see `attncert list models`."
)
@click.option(
    "--declare",
    "declared",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any other declaration, such as corner=top-left.",
)
@click.option("--family", "only", multiple=True, metavar="NAME", help="Only these families.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option(
    "--blind-seed",
    "blind",
    is_flag=True,
    help="Draw a seed after the kernel is loaded; print its hash before the run.",
)
@click.option(
    "--output",
    "folder",
    default=DEFAULT_OUTPUT,
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for certificates.",
)
@click.option("--resume", is_flag=True, help="Continue an interrupted run of the same command.")
@click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0.1),
    help="Seconds per call.",
)
@click.option(
    "--memory",
    default=24.0,
    show_default=True,
    type=click.FloatRange(0),
    help="GiB that the worker may use (0: no limit).",
)
@click.option(
    "--threads",
    default=0,
    type=click.IntRange(0),
    help="OpenMP and BLAS threads of the kernel (0: as the environment says).",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON summary instead of text.")
@click.option(
    "--in-process",
    is_flag=True,
    help="Run the kernel here, without isolation; recorded.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
def command(**options: Any) -> None:
    """Certify kernels: run every family, judge against the bound, write certificates."""
    from verify.certifying import Request, certify_all
    from verify.declaration import from_words
    from verify.exit_status import status_of

    request = Request(
        kernels=options["kernels"],
        formats=options["formats"],
        device=options["device"],
        profile=options["profile"],
        operation=options["operation"],
        direction=options["direction"],
        declared=from_words(options["model"], options["declared"]),
        only=options["only"] or None,
        seed=options["seed"],
        folder=options["folder"],
        resume=options["resume"],
        seconds=options["timeout"],
        memory_bytes=int(options["memory"] * 2**30),
        threads=options["threads"],
        in_process=options["in_process"],
        blind=options["blind"],
    )
    from verify.terminal import Terminal

    with Terminal(as_json=options["as_json"], quiet=options["quiet"]) as terminal:
        certificates = certify_all(request, terminal)
    terminal.summary(certificates, options["folder"])
    sys.exit(status_of(certificates))
