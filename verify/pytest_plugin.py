"""pytest plugin: the `certify` fixture and the report of a test run.

Loaded by pytest in every session where attncert is installed, so it imports nothing of ours until
it is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from verify.certificate import Certificate

REPORT_OPTION = "--attncert-report"
KERNEL_OPTION = "--kernel"
CERTIFICATES: pytest.StashKey[list[Certificate]] = pytest.StashKey()
MADE_IN: pytest.StashKey[dict[str, list[Certificate]]] = pytest.StashKey()
LEFT_OUT: pytest.StashKey[list[str]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the fixture and of the conformance suite."""
    group = parser.getgroup("attncert", "accuracy of attention and softmax kernels")
    group.addoption(
        REPORT_OPTION,
        metavar="DIR",
        default=None,
        help="write certificates and the error-bound (and throughput) report of this run to DIR",
    )
    group.addoption(
        KERNEL_OPTION,
        dest="attncert_kernel",
        metavar="KERNEL",
        default=None,
        help="kernel for verify.conformance: a name, package.module:function or file.py:function",
    )
    group.addoption("--dtype", dest="attncert_dtype", metavar="LIST", default="all")
    group.addoption("--device", dest="attncert_device", metavar="NAME", default="cpu")
    group.addoption("--attncert-profile", metavar="NAME", default="standard")
    group.addoption("--attncert-model", metavar="PRESET", default=None)
    group.addoption(
        "--attncert-declare",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="attncert_declare",
    )
    _add_bench_options(group)


def _add_bench_options(group: Any) -> None:
    """Options of what is timed: by verify.bench.suite and by verify.conformance."""
    group.addoption(
        "--attncert-bench",
        dest="attncert_bench",
        metavar="KERNEL",
        action="append",
        default=[],
        help="kernel for verify.bench.suite; may be given several times",
    )
    group.addoption("--attncert-shapes", metavar="LIST", default=None)
    group.addoption("--attncert-against", metavar="KERNEL", default="auto")
    group.addoption("--attncert-rounds", metavar="N", type=int, default=0)
    group.addoption("--attncert-seconds", metavar="S", type=float, default=2.0)
    group.addoption("--attncert-budget", metavar="S", type=float, default=210.0)
    group.addoption("--attncert-wait", metavar="S", type=float, default=0.0)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CERTIFICATES] = []
    config.stash[MADE_IN] = {}
    config.stash[LEFT_OUT] = []


def pytest_report_header(config: pytest.Config) -> str | None:
    kernel = config.getoption("attncert_kernel")
    if kernel is None:
        return None
    from verify import __version__

    profile = config.getoption("--attncert-profile")
    return f"attncert {__version__}: kernel {kernel}, profile {profile}"


@pytest.fixture
def certify(request: pytest.FixtureRequest) -> Callable[..., Certificate]:
    """Certify a kernel inside a test; the test fails with the worst case where it is refuted.

        def test_mine(certify):
            certify(my_attention, dtype="bf16")

    An importable function is sent to a worker process by name; a closure or lambda cannot be, and
    runs in this process: the certificate says so.
    """
    from verify.certifying import Request, certify_all

    config = request.config

    def run(
        kernel: str | Callable[..., Any],
        dtype: str = "all",
        *,
        device: str = "cpu",
        profile: str = "smoke",
        model: str | None = None,
        families: tuple[str, ...] | None = None,
        operation: str | None = None,
        **declared: Any,
    ) -> Certificate:
        __tracebackhide__ = True
        if model is not None:
            declared["model"] = model
        asked = Request(
            kernels=(kernel if isinstance(kernel, str) else importable_name(kernel) or "",),
            formats=dtype,
            device=device,
            profile=profile,  # type: ignore[arg-type]
            operation=operation,
            declared=declared,
            only=families,
            function=None if isinstance(kernel, str) or importable_name(kernel) else kernel,
        )
        certificates = certify_all(asked)
        config.stash[CERTIFICATES] += certificates
        config.stash[MADE_IN].setdefault(request.node.nodeid, []).extend(certificates)
        for certificate in certificates:
            require(certificate)
        return certificates[0]

    return run


def require(certificate: Certificate) -> None:
    """Fail the running test unless the certificate's kernel is certified."""
    __tracebackhide__ = True
    from verify.judge import Verdict
    from verify.terminal import explanations, line

    if certificate.verdict is not Verdict.PASS:
        texts = [line(certificate), *explanations(certificate, Path())]
        pytest.fail("\n".join(texts), pytrace=False)


def importable_name(function: Callable[..., Any]) -> str | None:
    """`module:name` or `file.py:name` of a function that a fresh process can import, or None."""
    name = getattr(function, "__qualname__", "")
    if not name or "<" in name or not inspect.isfunction(inspect.unwrap(function)):
        return None
    try:
        path = inspect.getsourcefile(inspect.unwrap(function))
    except TypeError:
        return None
    return f"{path}:{name}" if path and Path(path).is_file() else None


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Write the report of everything that was certified and timed in this run."""
    yield
    folder = session.config.getoption(REPORT_OPTION)
    if folder is None or hasattr(session.config, "workerinput"):
        return
    from verify.session_report import benchmarked, write_session_report

    config = session.config
    timings = benchmarked(config, config.stash[MADE_IN])
    left_out = write_session_report(timings, certificates_of(config), Path(folder))
    config.stash[LEFT_OUT] = left_out


def certificates_of(config: pytest.Config) -> list[Certificate]:
    """What the fixture and the conformance suite certified in this run."""
    found = [*config.stash[CERTIFICATES]]
    if config.getoption("attncert_kernel") is not None:
        from verify.conformance.suite import SUITE

        suite = config.stash.get(SUITE, None)
        found += suite.certificates() if suite else []
    return found


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    certificates = certificates_of(config)
    if not certificates:
        return
    from verify.terminal import line

    terminalreporter.section("attncert")
    for certificate in certificates:
        terminalreporter.line(line(certificate))
    folder = config.getoption(REPORT_OPTION)
    if folder:
        terminalreporter.line(f"report: {Path(folder) / 'report.html'}")
    for name in config.stash[LEFT_OUT]:
        terminalreporter.line(
            f"timed, but not in the report: {name} (its extra_info names no certified kernel)"
        )
