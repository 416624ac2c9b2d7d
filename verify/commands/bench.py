"""`attncert bench`: kernels -> throughput, beside the machine's roofline and torch's own kernel."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

DEFAULT_OUTPUT = "out/attncert"


@click.command("bench")
@click.argument("kernels", nargs=-1, required=True, metavar="KERNEL... [-- PYTEST OPTIONS]")
@click.option("--dtype", "formats", default="all", metavar="LIST", help="fp16,bf16,fp32, or all.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option(
    "--shapes",
    default="full",
    show_default=True,
    metavar="LIST",
    help="quick, full, or labels such as prefill:1x4x1024x64,decode:4x4x8192x64,rows:256x4096.",
)
@click.option(
    "--against",
    default="auto",
    show_default=True,
    metavar="KERNEL",
    help="Reference, timed in turns: a kernel, auto (torch's own), or none.",
)
@click.option("--rounds", default=0, type=click.IntRange(0), help="Timed rounds (0: by --seconds).")
@click.option(
    "--seconds",
    default=2.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Time for each shape; at least 5 rounds are made.",
)
@click.option(
    "--budget",
    default=210.0,
    show_default=True,
    type=click.FloatRange(1),
    help="Seconds for all; shapes predicted to overrun their share are left out, and listed.",
)
@click.option(
    "--wait",
    default=60.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to wait, in all, until nothing else runs on this machine.",
)
@click.option("--seed", type=click.IntRange(0), help="Of the inputs (default: drawn).")
@click.option("--model", metavar="PRESET", help="Declared arithmetic model.")
@click.option("--declare", "declared", multiple=True, metavar="KEY=VALUE", help="As in certify.")
@click.option(
    "--output",
    "folder",
    default=DEFAULT_OUTPUT,
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for throughput.bench.json; `attncert report` reads it beside certificates.",
)
def command(**options: Any) -> None:
    """Time kernels: tokens, FLOP and bytes per second, share of the roofline, ratio to torch.

    What follows `--` goes to pytest, so that pytest-benchmark's options work:

    \b
        attncert bench mine.py:flash -- --benchmark-autosave
        attncert bench mine.py:flash -- --benchmark-compare --benchmark-compare-fail=median:10%

    Exits 6 where a limit of speed is passed, 1 where an output is refuted, 3 where a time cannot be
    true.
    """
    from verify.bench import require_pytest_benchmark

    require_pytest_benchmark()
    from verify.bench.running import FILE, bench
    from verify.bench.session import Ask
    from verify.bench.table import lines
    from verify.campaign import prepare_folder
    from verify.certifying import Request
    from verify.declaration import from_words

    kernels, more = split(options["kernels"])
    request = Request(
        kernels=kernels,
        formats=options["formats"],
        device=options["device"],
        declared=from_words(options["model"], options["declared"]),
    )
    ask = Ask(
        request,
        options["shapes"],
        options["against"],
        options["rounds"],
        options["seconds"],
        options["budget"],
        options["wait"],
        options["seed"],
    )
    file = prepare_folder(options["folder"]) / FILE
    status, session = bench(ask, file, more)
    for text in lines(session):
        click.echo(text)
    click.echo(f"{file}    next: attncert report {options['folder']}")
    sys.exit(status)


def split(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Kernels, and from the first word with a dash on what goes to pytest."""
    first = next((i for i, word in enumerate(words) if word.startswith("-")), len(words))
    if not first:
        from verify.errors import UsageError

        raise UsageError("no kernel before `--`; write attncert bench KERNEL -- PYTEST OPTIONS")
    return words[:first], words[first:]
