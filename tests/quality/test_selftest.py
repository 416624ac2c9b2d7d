"""Does the suite find what it should? The selftest passes, and fails when a check is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from references.enclosure import FINITE, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY
from verify import backing, families, judge, metrics, parts, properties
from verify.commands.selftest import command
from verify.judge import Limits
from verify.properties import Property
from verify.selftest.expected import Expected, table
from verify.selftest.gate import failures, worth_keeping
from verify.selftest.hunt import Kill, Outcome
from verify.selftest.matrix import summary
from verify.selftest.plan import FORMATS
from verify.selftest.running import Request, Result, run

TABLE = table()
SPECIAL = NAN | POSITIVE_INFINITY | NEGATIVE_INFINITY


def _those(kernels: tuple[str, ...], formats: tuple[str, ...] = ("bf16",)) -> Result:
    """A selftest of some kernels in this process, where a check can be broken."""
    return run(Request(formats=formats, kernels=kernels, jobs=1))


@pytest.fixture(scope="module")
def default() -> Result:
    """The default run, in two processes."""
    return run(Request())


@pytest.fixture(scope="module")
def bfloat16() -> Result:
    """The default run in one format: a third of the time."""
    return run(Request(formats=("bf16",)))


def require_sound_and_sharp(result: Result, formats: int) -> None:
    """N of N controls by two checks with a margin or a reason, M of M right kernels, each cheat."""
    assert result.failures == ()
    assert len(result.of("control")) > 60 * formats
    assert len(result.of("right")) > 25 * formats
    for outcome in result.of("control"):
        shortfall = TABLE.exception(outcome.kernel, outcome.format)
        assert len(outcome.kills) >= (2 if shortfall is None else shortfall.at_least)
        assert outcome.margin >= 2.0 or (shortfall is not None and shortfall.why)


def test_run_in_bfloat16_refutes_every_control_and_no_right_kernel(bfloat16: Result) -> None:
    """What every change is tried on; the other formats follow in `slow`."""
    require_sound_and_sharp(bfloat16, 1)


@pytest.mark.slow
def test_default_run_refutes_every_control_and_no_right_kernel(default: Result) -> None:
    """Exit status 0, in three formats, cheats included."""
    require_sound_and_sharp(default, 3)
    assert len(default.of("cheat")) > 20


def test_summary_of_a_run_backs_certificates(
    bfloat16: Result, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found again under the digest of the code, and only there."""
    monkeypatch.setenv("ATTNCERT_CACHE", str(tmp_path))
    assert backing.summary() is None
    told = summary(bfloat16)
    assert told["verdict"] == "passed"
    backing.keep(told)
    assert backing.summary() == told
    monkeypatch.setattr(backing, "digest", lambda device="cpu": "0" * 64)
    assert backing.summary() is None


def test_selftest_that_passed_is_not_repeated_where_only_that_is_needed(
    bfloat16: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this code; of any other it is run."""
    monkeypatch.setenv("ATTNCERT_CACHE", str(tmp_path))
    asked: list[Any] = []

    def selftest(request: Request, folder: Path | None, **more: Any) -> int:
        asked.append(request)
        return 0

    monkeypatch.setattr("verify.selftest.command.selftest", selftest)
    assert CliRunner().invoke(command, ["--if-needed"]).exit_code == 0
    assert len(asked) == 1
    backing.keep(summary(bfloat16))
    done = CliRunner().invoke(command, ["--if-needed"])
    assert (done.exit_code, len(asked)) == (0, 1)
    assert "passed already" in done.output
    assert CliRunner().invoke(command, []).exit_code == 0
    assert len(asked) == 2


def test_table_names_what_exists() -> None:
    """Families and properties of the table, and a format for each."""
    known = {*families.names(), *properties.names()}
    for formats in TABLE.expected.values():
        assert set(formats) <= set(FORMATS)
        assert {name for kills in formats.values() for name in kills} <= known
    assert {entry["where"] for entry in TABLE.cheats.values()} <= known


def test_every_exception_says_why() -> None:
    """A sentence, for a control that exists."""
    for control, formats in TABLE.exceptions.items():
        assert control in TABLE.expected
        for fmt in formats:
            shortfall = TABLE.exception(control, "bf16" if fmt == "all" else fmt)
            assert shortfall is not None
            assert len(shortfall.why) > 40


# -- breaking one check at a time ---------------------------------------------------------------


def _controls_of(check: str, number: int = 1) -> tuple[str, ...]:
    """Controls whose table rests on a check in bfloat16, the ones that rest on it most."""
    weight = {
        control: list(formats.get("bf16", {}).values()).count(check)
        for control, formats in TABLE.expected.items()
        if control not in TABLE.unpredictable
    }
    ranked = sorted((c for c in weight if weight[c]), key=lambda c: (-weight[c], c))
    return tuple(ranked[:number])


def _never_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = judge.judge

    def blind(values: Any, truth: Any, error: Any, limits: Limits) -> Any:
        return whole(values, truth, error, replace(limits, bound=np.full_like(limits.bound, 1e308)))

    monkeypatch.setattr(parts, "judge", blind)


def _accepted_as(monkeypatch: pytest.MonkeyPatch, finite: int, special: int) -> None:
    """Count finite outputs as `finite` classes too, and the others as `special` ones."""
    whole = metrics.output_classes

    def lenient(values: Any) -> Any:
        more = np.where(np.isfinite(values), finite, special)
        return (whole(values) | more).astype(np.uint8)

    monkeypatch.setattr("verify.judge.output_classes", lenient)


def _break(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if check == "bound":
        _never_beyond(monkeypatch)
    elif check == "finite":
        _accepted_as(monkeypatch, 0, FINITE)
    else:
        _accepted_as(monkeypatch, SPECIAL, SPECIAL)


@pytest.mark.parametrize("check", ["bound", "finite", "class"])
def test_judge_without_one_check_fails_the_selftest(
    check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the controls that rest on the check are run again."""
    controls = _controls_of(check)
    assert controls, f"no control rests on {check}"
    assert _those(controls).failures == ()
    _break(check, monkeypatch)
    assert _those(controls).failures


def _resting_on(name: str) -> tuple[str, tuple[str, ...]]:
    """A control or cheat that the table lets a property refute, with a format."""
    for control, formats in TABLE.expected.items():
        for fmt, kills in formats.items():
            if name in kills:
                return control, (fmt,)
    for cheat, entry in TABLE.cheats.items():
        if entry["where"] == name:
            return cheat, ("fp16",)
    raise AssertionError(f"nothing rests on property {name}: it has not been seen to fail")


def _silent(found: Property) -> Property:
    def nothing(_: Any) -> Iterator[Any]:
        return iter(())

    return replace(found, records=nothing)


@pytest.mark.parametrize("name", properties.names())
def test_property_that_says_nothing_fails_the_selftest(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each property has a kernel that only a working property refutes as the table says."""
    kernel, formats = _resting_on(name)
    whole = properties.property_named

    def broken(wanted: str) -> Property:
        found = whole(wanted)
        return _silent(found) if wanted == name else found

    monkeypatch.setattr(properties, "property_named", broken)
    assert _those((kernel,), formats).failures


# -- the gate itself ----------------------------------------------------------------------------

KILL = Kill("bound", 3.0, "needle/bf16/x")
OUTCOME = Outcome("control-zeros", "bf16", "attention", {"needle": KILL}, ("needle",))


def test_gate_demands_two_families_a_margin_and_the_expected_kills() -> None:
    """One sentence for each thing that is missing."""
    empty = Expected()
    assert failures(OUTCOME, empty) == ["control-zeros bf16: refuted by 1 of 2 checks"]
    weak = replace(OUTCOME, kills={"needle": replace(KILL, margin=1.5), "causal": KILL})
    assert failures(weak, empty) == []
    weak = replace(OUTCOME, kills=dict.fromkeys(("needle", "causal"), replace(KILL, margin=1.5)))
    assert failures(weak, empty) == ["control-zeros bf16: largest margin 1.5, below 2"]
    named = empty.with_kills({"control-zeros": {"bf16": {"windows": "bound"}}})
    tried = replace(weak, kills={"needle": KILL, "causal": KILL}, tried=("needle", "windows"))
    assert failures(tried, named) == ["control-zeros bf16: no longer refuted by windows"]


def test_gate_lets_no_right_kernel_fail_or_err() -> None:
    """A refutation and an error are both failures."""
    right = Outcome("right-two-pass", "bf16", "attention", {}, ("needle",))
    assert failures(right, TABLE) == []
    assert failures(replace(right, kills={"needle": KILL}), TABLE)
    assert failures(replace(right, problems=("ERROR in needle/bf16/x: no",)), TABLE)


def test_table_keeps_one_kill_of_each_kind_of_check() -> None:
    """So that breaking a check breaks the table."""
    kills = {f"family{i}": replace(KILL, margin=10.0 + i) for i in range(9)}
    kills |= {"nan": Kill("finite", float("inf"), ""), "inf": Kill("class", float("inf"), "")}
    kept = worth_keeping(replace(OUTCOME, kills=kills))
    assert set(kept.values()) == {"bound", "finite", "class"}
    assert kept["family8"] == "bound"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_right_kernel_is_refuted_over_three_seeds(seed: int) -> None:
    """All families, all formats."""
    result = run(Request(kernels=("right-",), full=True, seed=seed))
    assert result.failures == ()


@pytest.mark.slow
def test_full_matrix_holds() -> None:
    """Every family on every control."""
    assert run(Request(kernels=("control-",), full=True)).failures == ()
