"""`attncert certify`: kernel -> certificates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from verify.operation import OPERATIONS

DEFAULT_OUTPUT = "out/attncert"


@click.command("certify")
@click.argument("kernels", nargs=-1, metavar="[KERNEL...]")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="attncert.toml or pyproject.toml.  [default, without KERNEL: the one in this folder]",
)
@click.option(
    "--command",
    "programs",
    multiple=True,
    metavar="LINE",
    help="A kernel that is a program: the same as KERNEL 'command:LINE'.",
)
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
    """Certify kernels: run every family, judge against the bound, write certificates.

    Without KERNEL, those that attncert.toml or [tool.attncert] in pyproject.toml declares.
    """
    from verify.certifying import certify_all
    from verify.exit_status import report_waivers, status_of
    from verify.terminal import Terminal

    certificates, faults = [], 0
    with Terminal(as_json=options["as_json"], quiet=options["quiet"]) as terminal:
        for request in _requests(options):
            found = certify_all(request, terminal)
            certificates += found
            faults += report_waivers(request.waivers, found, complete=_complete(options))
    terminal.summary(certificates, options["folder"])
    sys.exit(status_of(certificates) or (1 if faults else 0))


def _complete(options: dict[str, Any]) -> bool:
    """Whether every case of a kernel is run, so that a waiver without a case is a mistake."""
    narrowed = options["only"] or options["direction"] or options["formats"] != "all"
    return not narrowed and options["profile"] != "smoke"


def _requests(options: dict[str, Any]) -> list[Any]:
    """One request for the kernels that are named, or one for each kernel of the file."""
    from verify import declared_file
    from verify.certifying import declared

    request = _request(options)
    path = options["config"]
    if path is None and request.kernels:
        return [request]
    path = path or declared_file.find(Path())
    return [declared(request, entry) for entry in declared_file.chosen(path, request.kernels)]


def _request(options: dict[str, Any]) -> Any:
    from verify.certifying import Request
    from verify.declaration import from_words

    return Request(
        kernels=(*options["kernels"], *(f"command:{line}" for line in options["programs"])),
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
