"""attncert.toml: what it declares is what is judged, and a waiver hides nothing and ends."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import pytest

from tests.verify.test_cli import EXAMPLES, attncert
from verify.certificate import Certificate, check_schema, exit_status, recheck
from verify.certifying import Request, certify_all, declared
from verify.declaration import Declaration, from_words
from verify.declared_file import chosen, find, read, the_one
from verify.errors import UsageError
from verify.judge import Verdict
from verify.report import write_report
from verify.waivers import applied, problems

TODAY = date.today()
PASSES = "p_unit_fraction"  # a family that the naive softmax passes
SOON = TODAY + timedelta(days=30)
WAIVER = """
[[waivers]]
{about}
reason = "exp overflows; issue 12"
owner = "Ada"
expires = {expires}
"""


def write(folder: Path, text: str, name: str = "attncert.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def waived(about: str, expires: date = SOON) -> str:
    return WAIVER.format(about=about, expires=expires.isoformat())


def naive(folder: Path, *waivers: str) -> Path:
    """A folder with the naive softmax and a file that declares it in binary16."""
    shutil.copy(EXAMPLES / "softmax_naive.py", folder)
    head = 'kernel = "softmax_naive.py:softmax"\nformats = ["fp16"]\n'
    return write(folder, head + "".join(waivers))


@cache
def _records() -> Certificate:
    """One run of the naive softmax in binary16: seed_case fails, the other family does not."""
    kernel = f"{EXAMPLES / 'softmax_naive.py'}:softmax"
    return certify_all(Request((kernel,), formats="fp16", only=("seed_case", PASSES)))[0]


def certified(path: Path) -> Certificate:
    """That run under the waivers of a file, as `verify.campaign.certify` applies them."""
    run = _records()
    told = applied(read(path)[0].waivers, run.records)
    return replace(run, waivers=told, exit_status=exit_status(run.verdict, run.records, told))


def test_file_says_kernel_formats_features_model_and_declarations(tmp_path: Path) -> None:
    """Everything that the command line can say, and the kernel's file as seen from here."""
    path = write(
        tmp_path,
        'kernel = "kernels.py:attention"\noperation = "attention"\nformats = ["float16", "bf16"]\n'
        'without = ["gqa", "sinks"]\nmodel = "eager"\n'
        '[declare]\ncorner = "top-left"\nd = [16, 128]\n',
    )
    (entry,) = read(path)
    assert Path(entry.kernel.rpartition(":")[0]).resolve() == tmp_path / "kernels.py"
    assert (entry.operation, entry.formats) == ("attention", ("fp16", "bf16"))
    declaration = Declaration().but(**entry.declared)
    assert (declaration.model, declaration.without) == ("eager", ("gqa", "sinks"))
    assert (declaration.corner, declaration.d) == ("top-left", (16, 128))


def test_command_line_comes_before_the_file(tmp_path: Path) -> None:
    """Format, operation and declarations given by hand win; the others stay."""
    path = write(tmp_path, 'kernel = "torch-softmax"\nmodel = "flash"\nformats = ["fp16"]\n')
    by_hand = Request((), formats="bf16", declared={"model": "half"})
    merged = declared(by_hand, read(path)[0])
    assert (merged.formats, merged.declared) == ("bf16", {"model": "half"})
    assert merged.kernels == ("torch-softmax",)


def test_table_of_pyproject_and_a_list_of_kernels(tmp_path: Path) -> None:
    """[tool.attncert] works like the file of its own, which comes first; a list of kernels."""
    text = '[project]\nname = "x"\n[[tool.attncert.kernels]]\nkernel = "a.b:f"\n'
    text += '[[tool.attncert.kernels]]\nkernel = "a.b:g"\nmodel = "eager"\n'
    path = write(tmp_path, text, "pyproject.toml")
    assert find(tmp_path) == path
    assert [entry.kernel for entry in read(path)] == ["a.b:f", "a.b:g"]
    assert [entry.kernel for entry in chosen(path, ("a.b:g",))] == ["a.b:g"]
    assert the_one(path, "a.b:g").declared == {"model": "eager"}
    for name, message in (("a.b:h", "declares no kernel 'a.b:h'; it has"), ("", "several kernels")):
        with pytest.raises(UsageError, match=message):
            the_one(path, name)
    own = write(tmp_path, 'kernel = "torch-softmax"\n')
    assert find(tmp_path) == own


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel = ", "is not TOML"),
        ("", "`kernel` is missing or empty"),
        ('kernel = "a:b"\ncolour = 1', "unknown key 'colour'; known: kernel, operation"),
        ('kernel = "a:b"\noperation = "gelu"', "unknown operation 'gelu'"),
        ('kernel = "a:b"\nformats = ["fp17"]', "unknown format 'fp17'"),
        ('kernel = "a:b"\nformats = "fp16"', "`formats` must be a list of words"),
        ('kernel = "a:b"\nwithout = ["dropout"]', "unknown feature 'dropout'"),
        ('kernel = "a:b"\n[declare]\nspeed = 1', "cannot declare 'speed'"),
        ('kernel = "a:b"\n[declare]\ncorner = "left"', "corner cannot be 'left'; it can be"),
        ('kernel = "a:b"\n[declare]\ndeterministic = "yes"', "must be true or false, not 'yes'"),
        ('kernel = "a:b"\n[declare]\nmodel = "flash"', "stands beside `declare`, not in it"),
        ('kernels = 3\nkernel = "a:b"', "'kernel' belongs into one of the"),
        ("kernels = 3", "must be a list of tables"),
        ('kernel = "a:b"\n[[waivers]]\ncase = "x"', "`reason` is missing or empty"),
        ('kernel = "a:b"\n' + waived(""), "must name exactly one of `case`"),
        ('kernel = "a:b"\n' + waived('family = "no"'), "unknown family 'no'"),
        (
            'kernel = "a:b"\n[[waivers]]\ncase = "x"\nreason = "r"\nowner = "o"\nexpires = "soon"',
            "`expires` must be a day such as 2027-01-31, not 'soon'",
        ),
    ],
)
def test_mistake_in_the_file_is_named_with_its_place(
    text: str, message: str, tmp_path: Path
) -> None:
    """File, key, value and what would be right."""
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=r"attncert\.toml") as caught:
        read(path)
    assert message in str(caught.value)


def test_numbers_on_the_command_line_can_be_words() -> None:
    """lse_base=2 and empty_row=0 are the words '2' and '0', not numbers that nothing knows."""
    found = Declaration().but(**from_words(None, ("lse_base=2", "empty_row=0", "d=16,64")))
    assert (found.lse_base, found.empty_row, found.d) == ("2", "0", (16, 64))
    with pytest.raises(UsageError, match="lse_base cannot be '10'; it can be 'e', '2'"):
        Declaration().but(**from_words(None, ("lse_base=10",)))


def test_waived_failure_stays_visible_and_leaves_the_exit_status(tmp_path: Path) -> None:
    """FAIL in certificate, terminal, report and results; only the exit status is 0."""
    path = naive(tmp_path, waived('family = "seed_case"'))
    certificate = certified(path)
    failing = [r.case for r in certificate.records if r.verdict is Verdict.FAIL]
    assert failing
    assert (certificate.verdict, certificate.exit_status) == (Verdict.FAIL, 0)
    assert certificate.waivers[0]["state"] == "used"
    assert certificate.waivers[0]["cases"] == failing
    check_schema(certificate.to_json())
    assert recheck(certificate) == []
    assert problems(read(path)[0].waivers, [certificate], complete=True) == []
    files = {p.name: p.read_text() for p in write_report([certificate], tmp_path)}
    for text in ("issue 12", "Ada", SOON.isoformat()):
        assert text in files["report.html"]
        assert text in files["report.md"]
    assert "waived" in next(text for name, text in files.items() if name.endswith(".xml"))


def test_waiver_of_some_cases_does_not_cover_the_others(tmp_path: Path) -> None:
    """Exit 1 while anything fails that is not waived."""
    path = naive(tmp_path, waived('case = "seed_case/fp16/positive-1x3"'))
    certificate = certified(path)
    assert certificate.waivers[0]["cases"] == ["seed_case/fp16/positive-1x3"]
    assert (certificate.verdict, certificate.exit_status) == (Verdict.FAIL, 1)


def test_forged_waiver_does_not_recheck(tmp_path: Path) -> None:
    """An exit status that its waivers do not support is found out."""
    path = naive(tmp_path, waived('family = "seed_case"'))
    certificate = certified(path)
    entry = {**certificate.waivers[0], "cases": certificate.waivers[0]["cases"][:1]}
    assert recheck(replace(certificate, waivers=(entry,)))


def test_failed_integrity_check_cannot_be_waived(tmp_path: Path) -> None:
    """A kernel that tampers ends with 3, whatever the file says."""
    path = naive(tmp_path, waived('family = "seed_case"'))
    certificate = certified(path)
    first = replace(certificate.records[0], verdict=Verdict.INTEGRITY)
    records = (first, *certificate.records[1:])
    told = applied(read(path)[0].waivers, records)
    assert first.case not in told[0]["cases"]
    assert exit_status(Verdict.INTEGRITY, records, told) == 3


@pytest.mark.parametrize(
    ("about", "expires", "complete", "message"),
    [
        ('family = "seed_case"', TODAY, False, None),
        ('family = "seed_case"', TODAY - timedelta(days=1), False, "ended on"),
        ('case = "p_unit_fraction/*"', SOON, False, "is no longer needed"),
        ('case = "no_such/*"', SOON, True, "fits no case"),
        ('case = "no_such/*"', SOON, False, None),
    ],
    ids=["last day", "ended", "not needed", "no such case", "not run"],
)
def test_waiver_that_ended_or_is_not_needed_fails_the_run(
    about: str, expires: date, complete: bool, message: str | None, tmp_path: Path
) -> None:
    """Each with a sentence; a part of the cases decides nothing about the others."""
    path = naive(tmp_path, waived(about, expires))
    waivers = read(path)[0].waivers
    found = problems(waivers, [certified(path)], complete=complete)
    assert len(found) == (message is not None)
    if message is not None:
        assert message in found[0]
        assert "Ada" in found[0]


def test_certify_without_a_kernel_uses_the_file(tmp_path: Path) -> None:
    """Exit 0 with a waiver that is needed; 1, and why, with one that is not; 2 without a file."""
    naive(tmp_path, waived('family = "seed_case"'))
    arguments = ["certify", "--family", "seed_case", "--family", PASSES, "--json"]
    done = attncert(*arguments, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["waived"]
    naive(tmp_path, waived('family = "seed_case"'), waived('family = "p_unit_fraction"'))
    done = attncert(*arguments, folder=tmp_path)
    assert done.returncode == 1
    assert "the waiver of Ada for family p_unit_fraction is no longer needed" in done.stderr
    done = attncert("certify", folder=EXAMPLES)
    assert done.returncode == 2
    assert "no KERNEL is given" in done.stderr


def test_missing_values(tmp_path: Path) -> None:
    """A file that is not there, and a pyproject.toml without the table."""
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "attncert.toml")
    path = write(tmp_path, "[tool.ruff]\n", "pyproject.toml")
    with pytest.raises(UsageError, match="has no table"):
        read(path)
    with pytest.raises(UsageError, match="no KERNEL is given"):
        find(tmp_path)
