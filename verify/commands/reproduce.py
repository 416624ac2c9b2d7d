"""`attncert reproduce`: one case of a certificate again."""

from __future__ import annotations

import sys

import click


@click.command("reproduce")
@click.argument("target", metavar="CERTIFICATE.json[#CASE]")
@click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(0.1))
def command(target: str, timeout: float) -> None:
    """Run one case of a certificate again and print it in decimal, hex and bits.

    CASE is a case id or `worst` (the default).
    """
    from verify.reproducing import reproduce as again

    result = again(target, seconds=timeout)
    click.echo(result.text)
    sys.exit(result.exit_status)
