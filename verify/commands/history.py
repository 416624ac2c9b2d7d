"""`attncert history`: several versions of kernels -> how accuracy and speed changed."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("history")
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FOLDER..."
)
@click.option("--label", "labels", multiple=True, metavar="NAME", help="One for each folder.")
@click.option(
    "--output",
    "folder",
    default="out/history",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for history.html and history.md.",
)
def command(folders: tuple[Path, ...], labels: tuple[str, ...], folder: Path) -> None:
    """Show the trend over versions: FOLDERs of certificates and timings, oldest first.

    Tightness, grade, accuracy and throughput of each version, as a page with pictures and a table.
    It judges nothing: `attncert compare` does.
    """
    from verify.campaign import prepare_folder
    from verify.history.drawing import told
    from verify.history.trend import trends, versions
    from verify.history.writing import write_history

    found = versions(folders, labels)
    lines = trends(found)
    for trend in lines:
        click.echo(trend.title)
        for version, state in zip(found, trend.states, strict=True):
            verdict, grade, tightness, rate, ratio = told(state)
            click.echo(
                f"  {version.name:<20} {verdict:<14} grade {grade:<3} tightness {tightness:<9} "
                f"tokens/s {rate:<9} ratio {ratio}"
            )
    for path in write_history(found, lines, prepare_folder(folder)):
        click.echo(path)
