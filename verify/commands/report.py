"""`attncert report`: certificates -> HTML, Markdown, CSV, JUnit."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("report")
@click.argument(
    "sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|FOLDER..."
)
@click.option(
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder for the report (default: that of the first source).",
)
@click.option(
    "--expect",
    is_flag=True,
    help="Exit 0 when every verdict is the one that the kernel is shipped for.",
)
def command(sources: tuple[Path, ...], folder: Path | None, expect: bool) -> None:
    """Make the HTML page and the Markdown summary from certificates.

    A study (`attncert study`) that lies beside the certificates becomes a section of the report,
    and timings (`attncert bench`: *.bench.json) become its throughput.
    """
    from verify.campaign import prepare_folder
    from verify.certificate import certificate_files, read
    from verify.exit_status import report_unexpected
    from verify.report import write_report
    from verify.studies import sections
    from verify.timings import attached, files
    from verify.timings import read as read_timings

    certificates = [read(path) for path in certificate_files(sources)]
    timings = [t for path in files(sources) for t in read_timings(path)]
    certificates, homeless = attached(certificates, timings)
    for name in sorted({" ".join(t.key) for t in homeless}):
        click.echo(f"timed, but without a certificate here: {name}", err=True)
    target = folder or (sources[0] if sources[0].is_dir() else sources[0].parent)
    for path in write_report(certificates, prepare_folder(target), sections(sources)):
        click.echo(path)
    if expect:
        sys.exit(report_unexpected(certificates))
