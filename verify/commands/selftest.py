"""`attncert selftest`: is the judge itself sound and sharp?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click


@click.command("selftest")
@click.option("--full", is_flag=True, help="Every family on every control (about an hour).")
@click.option("--format", "formats", default="fp16,bf16,fp32", show_default=True, metavar="LIST")
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only these kernels.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--jobs", default=0, type=click.IntRange(0), help="Processes (0: one per core, 2).")
@click.option("--json", "as_json", is_flag=True, help="Print the matrix as JSON.")
@click.option(
    "--output", "folder", type=click.Path(path_type=Path), help="Folder for selftest.json."
)
@click.option("--if-needed", is_flag=True, help="Nothing to do where this very code has passed.")
@click.option("--write-expected", is_flag=True, help="Write the table of expected kills anew.")
@click.option(
    "--peers", "other", flag_value="peers", help="What other projects' gates say instead."
)
@click.option(
    "--power", "other", flag_value="power", help="The smallest planted error that is refuted."
)
def command(**options: Any) -> None:
    """Judge the judge: refute every broken kernel, no right one, and catch every cheat.

    Prints the kill matrix, and exits 0 only if each negative control is refuted by two different
    families or properties (or the table says why not), no right kernel is, and every expected kill
    happens.
    """
    from verify.selftest.command import selftest as run
    from verify.selftest.command import tell_peers, tell_power
    from verify.selftest.running import Request

    folder, as_json = options["folder"], options["as_json"]
    if options["if_needed"] and passed_already():
        return
    formats = tuple(options["formats"].split(","))
    if options["other"] is not None:
        tell = tell_peers if options["other"] == "peers" else tell_power
        sys.exit(tell(formats, folder, as_json=as_json))
    request = Request(
        formats=formats,
        kernels=options["kernels"] or None,
        full=options["full"],
        seed=options["seed"],
        jobs=options["jobs"],
    )
    sys.exit(run(request, folder, as_json=as_json, write_expected=options["write_expected"]))


def passed_already() -> bool:
    """Whether the selftest of exactly this code, these libraries and this machine has passed."""
    from verify import backing

    found = backing.summary()
    if found is not None:
        click.echo(f"the selftest of this code passed already ({found['digest'][:12]})")
    return found is not None
