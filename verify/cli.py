"""The command `attncert`: the thin layer between a terminal and the engine.

Exit status: 0 certified; 1 wrong numerics; 2 usage; 3 the kernel tampered; 4 inconclusive,
incomplete or nothing run; 5 kernel or environment unusable; 6 performance gate; 7 certificate
invalid; 70 our own error; 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from verify import __version__, commands
from verify.errors import AttncertError


class _Group(click.Group):
    """The modules of `verify.commands`, loaded when asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return commands.names()

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        return commands.load(name)


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="attncert")
def app() -> None:
    """Prove how accurate an attention or softmax kernel is.

    \b
    A kernel is a name from `attncert list kernels`, package.module:function, or
    path/to/file.py:function - a plain function of tensors:
        def attention(q, k, v, *, scale, causal=False): ...   # axes (batch, heads, n, d)
        def softmax(x): ...                                   # last axis
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command; errors end in one line on stderr and the documented status."""
    try:
        app(args=arguments, standalone_mode=False)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; `--resume` continues", err=True)
        sys.exit(130)
    except AttncertError as error:
        click.echo(f"attncert: {error}", err=True)
        sys.exit(error.exit_status)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:  # ours, whatever it is: a user gets a line, a developer a file
        click.echo(f"attncert: internal error: {type(error).__name__}: {error}", err=True)
        click.echo(f"attncert: please report it with {_trace_file()}", err=True)
        sys.exit(70)


def _trace_file() -> Path:
    """The traceback of the current exception, in a file of its own."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="attncert-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return Path(file.name)


if __name__ == "__main__":
    main()
