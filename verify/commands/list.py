"""`attncert list`: what is registered."""

from __future__ import annotations

import json

import click


@click.command("list")
@click.argument(
    "what", type=click.Choice(["kernels", "families", "properties", "models", "formats"])
)
@click.option("--json", "as_json", is_flag=True)
def command(what: str, as_json: bool) -> None:
    """List kernels, families, arithmetic models or formats."""
    from verify import listing

    rows = listing.rows(what)
    click.echo(json.dumps(rows, indent=1) if as_json else listing.text(rows))
