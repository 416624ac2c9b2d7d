"""`attncert study`: claims and published figures, measured with exact truth."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("study")
@click.argument("names", nargs=-1, required=True, type=click.Choice(["scaling", "papers"]))
@click.option(
    "--output",
    "folder",
    default="out/studies",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder for NAME.study.json, NAME.md and NAME.html.",
)
@click.option("--small", is_flag=True, help="A small version, which says that it shows nothing.")
def command(names: tuple[str, ...], folder: Path, small: bool) -> None:
    """Measure what others claim, with exact truth, and say of each claim whether it holds.

    scaling: why scores are divided by sqrt(d), and what the formats make of it; papers: published
    tables, reproduced.  A study explains; it certifies nothing and always ends with 0 when it ran.
    """
    from verify import studies
    from verify.campaign import prepare_folder

    prepare_folder(folder)
    for name in dict.fromkeys(names):
        document = studies.run(name, small=small)
        for claim in document.claims:
            click.echo(f"{claim.judgement.verdict.upper():17} {claim.says}")
            click.echo(f"{'':17} {claim.judgement.figure}")
            if claim.judgement.limits:
                click.echo(f"{'':17} limits: {claim.judgement.limits}")
        for path in studies.write(document, folder):
            click.echo(path)
