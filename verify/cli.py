"""The command `attncert`: the thin layer between a terminal and the engine.

Exit status: 0 certified; 1 wrong numerics; 2 usage; 3 the kernel tampered; 4 inconclusive,
incomplete or nothing run; 5 kernel or environment unusable; 6 performance gate; 7 certificate
invalid; 70 our own error; 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from verify import __version__
from verify.errors import AttncertError, UsageError

if TYPE_CHECKING:
    from verify.certificate import Certificate

DEFAULT_OUTPUT = "out/attncert"


class _Group(click.Group):
    """Commands in the order in which a user meets them."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


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


@app.command()
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
    type=click.Choice(["softmax", "log_softmax", "logsumexp", "attention"]),
    help="Where the parameters do not tell.",
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
@click.option("--json", "as_json", is_flag=True, help="Print a JSON summary instead of text.")
@click.option(
    "--in-process",
    is_flag=True,
    help="Run the kernel here, without isolation; recorded.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
def certify(**options: Any) -> None:
    """Certify kernels: run every family, judge against the bound, write certificates."""
    from verify.certifying import Request, certify_all

    request = Request(
        kernels=options["kernels"],
        formats=options["formats"],
        device=options["device"],
        profile=options["profile"],
        operation=options["operation"],
        declared=declarations(options["model"], options["declared"]),
        only=options["only"] or None,
        seed=options["seed"],
        folder=options["folder"],
        resume=options["resume"],
        seconds=options["timeout"],
        memory_bytes=int(options["memory"] * 2**30),
        in_process=options["in_process"],
        blind=options["blind"],
    )
    from verify.terminal import Terminal

    with Terminal(as_json=options["as_json"], quiet=options["quiet"]) as terminal:
        certificates = certify_all(request, terminal)
    terminal.summary(certificates, options["folder"])
    sys.exit(status_of(certificates))


@app.command()
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
def report(sources: tuple[Path, ...], folder: Path | None, expect: bool) -> None:
    """Make the HTML page and the Markdown summary from certificates."""
    from verify.campaign import prepare_folder
    from verify.certificate import read
    from verify.report import write_report

    certificates = [read(path) for path in _certificate_files(sources)]
    target = folder or (sources[0] if sources[0].is_dir() else sources[0].parent)
    for path in write_report(certificates, prepare_folder(target)):
        click.echo(path)
    if expect:
        sys.exit(report_unexpected(certificates))


@app.command()
@click.option(
    "--output", "folder", default="out/report", show_default=True, type=click.Path(path_type=Path)
)
@click.option(
    "--profile",
    type=click.Choice(["smoke", "standard", "extensive"]),
    default="standard",
    show_default=True,
)
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only these kernels.")
@click.option("--quiet", is_flag=True, help="No progress.")
def publish(folder: Path, profile: Any, kernels: tuple[str, ...], quiet: bool) -> None:
    """Certify every shipped kernel in every format on every device here, and write the report.

    Exits 0 when every verdict is the one that the kernel is shipped for: the naive kernels must be
    refuted, the others certified.
    """
    from verify.publishing import publish as run
    from verify.terminal import Terminal

    with Terminal(quiet=quiet) as terminal:
        certificates, files = run(folder, terminal, profile=profile, kernels=kernels or None)
    for path in files:
        click.echo(path)
    sys.exit(report_unexpected(certificates))


@app.command()
@click.option("--full", is_flag=True, help="Every family on every control (about an hour).")
@click.option("--format", "formats", default="fp16,bf16,fp32", show_default=True, metavar="LIST")
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Only these kernels.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--jobs", default=0, type=click.IntRange(0), help="Processes (0: one per core, 2).")
@click.option("--json", "as_json", is_flag=True, help="Print the matrix as JSON.")
@click.option(
    "--output", "folder", type=click.Path(path_type=Path), help="Folder for selftest.json."
)
@click.option("--write-expected", is_flag=True, help="Write the table of expected kills anew.")
@click.option(
    "--peers", "other", flag_value="peers", help="What other projects' gates say instead."
)
@click.option(
    "--power", "other", flag_value="power", help="The smallest planted error that is refuted."
)
def selftest(**options: Any) -> None:
    """Judge the judge: refute every broken kernel, no right one, and catch every cheat.

    Prints the kill matrix, and exits 0 only if each negative control is refuted by two different
    families or properties (or the table says why not), no right kernel is, and every expected kill
    happens.
    """
    from verify.selftest.command import selftest as run
    from verify.selftest.command import tell_peers, tell_power
    from verify.selftest.running import Request

    folder, as_json = options["folder"], options["as_json"]
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


@app.command("list")
@click.argument(
    "what", type=click.Choice(["kernels", "families", "properties", "models", "formats"])
)
@click.option("--json", "as_json", is_flag=True)
def list_(what: str, as_json: bool) -> None:
    """List kernels, families, arithmetic models or formats."""
    from verify import listing

    rows = listing.rows(what)
    click.echo(json.dumps(rows, indent=1) if as_json else listing.text(rows))


@app.command()
@click.argument("target", metavar="CERTIFICATE.json[#CASE]")
@click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(0.1))
def reproduce(target: str, timeout: float) -> None:
    """Run one case of a certificate again and print it in decimal, hex and bits.

    CASE is a case id or `worst` (the default).
    """
    from verify.reproducing import reproduce as again

    result = again(target, seconds=timeout)
    click.echo(result.text)
    sys.exit(result.exit_status)


@app.command()
@click.argument(
    "sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|FOLDER..."
)
def recheck(sources: tuple[Path, ...]) -> None:
    """Check that certificates agree with themselves: verdicts, errors, bounds, counts."""
    from verify.certificate import read
    from verify.certificate import recheck as check

    wrong = [f"{path}: {w}" for path in _certificate_files(sources) for w in check(read(path))]
    for line in wrong:
        click.echo(line, err=True)
    click.echo("all certificates agree with themselves" if not wrong else f"{len(wrong)} faults")
    sys.exit(7 if wrong else 0)


def declarations(model: str | None, declared: tuple[str, ...]) -> dict[str, Any]:
    """`--model` and `--declare KEY=VALUE` as fields of a Declaration (values: JSON or text)."""
    values: dict[str, Any] = {"model": model} if model else {}
    for item in declared:
        key, found, text = item.partition("=")
        if not found:
            raise UsageError(f"--declare {item!r} has no '='; write KEY=VALUE")
        try:
            values[key.strip()] = json.loads(text)
        except ValueError:
            values[key.strip()] = text.strip()
    for key in ("without", "d"):
        if isinstance(values.get(key), str):
            values[key] = tuple(values[key].split(","))
        elif isinstance(values.get(key), list):
            values[key] = tuple(values[key])
    return values


def _certificate_files(sources: tuple[Path, ...]) -> list[Path]:
    files: list[Path] = []
    for source in sources:
        found = sorted(source.glob("*.json")) if source.is_dir() else [source]
        files += [f for f in found if not f.name.startswith(".")]
    if not files:
        raise UsageError(f"no certificate (*.json) in {', '.join(map(str, sources))}")
    return files


def report_unexpected(certificates: list[Certificate]) -> int:
    """Name what is not as expected; 1 where there is any, 4 where nothing was run, else 0."""
    unexpected = [c for c in certificates if not as_expected(c)]
    for certificate in unexpected:
        click.echo(f"not as expected: {certificate.name}: {certificate.verdict}", err=True)
    if not any(c.records for c in certificates):
        return 4
    return 1 if unexpected else 0


def as_expected(certificate: Certificate) -> bool:
    """Whether a verdict is the one that the kernel is shipped for."""
    wanted = {"pass": "PASS", "fail": "FAIL", "unavailable": "INCONCLUSIVE"}
    return certificate.verdict.value == wanted[certificate.expected]


def status_of(certificates: list[Certificate]) -> int:
    """The exit status of several certificates: the worst of theirs."""
    order = (3, 1, 5, 4, 0)
    statuses = {c.exit_status for c in certificates} or {4}
    return next((s for s in order if s in statuses), max(statuses))


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
