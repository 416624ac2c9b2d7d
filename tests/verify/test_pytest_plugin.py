"""The plugin: fixture, conformance suite and report, as a user's pytest sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
QUIET = ("-p", "no:cacheprovider", "-q")


@pytest.fixture
def inside(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of its own, where our package can be imported."""
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    return pytester


def plugin(inside: pytest.Pytester) -> tuple[str, ...]:
    """The option that loads the plugin where attncert is not installed."""
    import importlib.metadata

    loaded = importlib.metadata.entry_points(group="pytest11")
    installed = any(e.value == "verify.pytest_plugin" for e in loaded)
    return () if installed else ("-p", "verify.pytest_plugin")


def test_fixture_passes_a_right_kernel_and_fails_a_wrong_one(inside: pytest.Pytester) -> None:
    """The failure shows the worst case, not our frames."""
    inside.makepyfile(
        test_mine=f"""
        import sys
        sys.path.insert(0, {str(EXAMPLES)!r})
        import softmax_naive, softmax_stable

        def test_right(certify):
            assert certify(softmax_stable.softmax, dtype="fp16").verdict == "PASS"

        def test_wrong(certify):
            certify(softmax_naive.softmax, dtype="fp16", families=("seed_case",))
        """
    )
    result = inside.runpytest_subprocess(*plugin(inside), *QUIET)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*FAIL*softmax_naive.py:softmax fp16*", "*truth *", "*bits 0x*"])
    result.stdout.no_fnmatch_line("*certify_all*")


def test_closure_runs_in_process_and_the_certificate_says_so(inside: pytest.Pytester) -> None:
    """A lambda cannot be sent to a worker."""
    inside.makepyfile(
        """
        import torch

        def test_closure(certify):
            dim = -1
            def softmax(x):
                return torch.softmax(x.float(), dim).to(x.dtype)
            certificate = certify(softmax, dtype="bf16", families=("seed_case",))
            assert certificate.isolation == "in-process"
        """
    )
    inside.runpytest_subprocess(*plugin(inside), *QUIET).assert_outcomes(passed=1)


def test_conformance_suite_runs_on_a_users_kernel_and_writes_the_report(
    inside: pytest.Pytester,
) -> None:
    """Families and throughput under pytest; error bounds and times in one report."""
    kernel = f"{EXAMPLES / 'softmax_stable.py'}:softmax"
    arguments = ["--pyargs", "verify.conformance", "--kernel", kernel, "--dtype", "bf16"]
    arguments += ["--attncert-profile", "smoke", "--attncert-report", "out"]
    result = inside.runpytest_subprocess(*plugin(inside), *QUIET, *arguments)
    assert result.ret == 0, result.stdout.str()
    page = (inside.path / "out" / "report.html").read_text()
    assert "softmax_stable.py" in page
    certificate = next((inside.path / "out").glob("softmax_stable*.json")).read_text()
    assert "seconds_median" in certificate


def test_a_benchmark_in_a_users_own_suite_is_in_the_report(inside: pytest.Pytester) -> None:
    """In the test that certifies the kernel, or by extra_info; any other is told, not dropped."""
    inside.makepyfile(
        test_mine=f"""
        import sys
        sys.path.insert(0, {str(EXAMPLES)!r})
        import softmax_stable, torch

        x = torch.ones(4, 8, dtype=torch.float16)

        def test_same_test(certify, benchmark):
            certify(softmax_stable.softmax, dtype="fp16", families=("seed_case",))
            benchmark.pedantic(softmax_stable.softmax, (x,), rounds=4)

        def test_named(benchmark):
            benchmark.extra_info["kernel"] = softmax_stable.__file__ + ":softmax"
            benchmark.extra_info["dtype"] = "fp16"
            benchmark.pedantic(softmax_stable.softmax, (x,), rounds=3)

        def test_stranger(benchmark):
            benchmark.pedantic(len, ("",), rounds=3)
        """
    )
    result = inside.runpytest_subprocess(*plugin(inside), *QUIET, "--attncert-report=out")
    result.assert_outcomes(passed=3)
    (path,) = (p for p in (inside.path / "out").glob("softmax_stable*.json"))
    timings = json.loads(path.read_text())["throughput"]
    assert [(t["label"], t["rounds"]) for t in timings] == [
        ("test_same_test", 4),
        ("test_named", 3),
    ]
    assert timings[0]["seconds_median"] > 0
    assert "test_same_test" in (inside.path / "out" / "report.html").read_text()
    result.stdout.fnmatch_lines(["*not in the report: test_stranger*"])


def test_conformance_suite_fails_on_a_wrong_kernel(inside: pytest.Pytester) -> None:
    """The family that refutes it is the red test's name; pytest's exit status is 1."""
    kernel = f"{EXAMPLES / 'softmax_naive.py'}:softmax"
    arguments = ["--pyargs", "verify.conformance.test_kernel", "--kernel", kernel]
    arguments += ["--dtype", "fp16", "--attncert-profile", "smoke"]
    result = inside.runpytest_subprocess(*plugin(inside), *QUIET, *arguments)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED *fp16-seed_case*"])


def test_conformance_suite_without_a_kernel_is_a_usage_error(inside: pytest.Pytester) -> None:
    """The message names the option."""
    result = inside.runpytest_subprocess(*plugin(inside), "--pyargs", "verify.conformance")
    assert result.ret == pytest.ExitCode.USAGE_ERROR or "needs --kernel" in result.stdout.str()
    assert "needs --kernel" in result.stdout.str() + result.stderr.str()


def test_plugin_stays_out_of_the_way(inside: pytest.Pytester) -> None:
    """A project that does not use us sees no header, no summary, and no import of ours."""
    inside.makepyfile(
        """
        import sys

        def test_nothing():
            assert "verify.pipeline" not in sys.modules
            assert "torch" not in sys.modules
        """
    )
    result = inside.runpytest_subprocess(*plugin(inside), *QUIET)
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*attncert*")
