"""Certificates and journals: what is written can be read, checked and continued."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from verify.calling import Bench
from verify.campaign import Campaign, execute, file_stem
from verify.certificate import (
    Certificate,
    Record,
    check_schema,
    overall,
    plain,
    read,
    recheck,
    write,
)
from verify.certifying import Request, certify_all, loaded
from verify.errors import CertificateError
from verify.formats import BINARY16
from verify.journal import Journal
from verify.judge import Verdict
from verify.properties import Trial, try_all
from verify.truth import Oracle
from verify.worker import Worker

FAMILIES = ("seed_case", "standard_normal")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> list[Certificate]:
    """torch.softmax and the naive one in binary16 on two families."""
    folder = tmp_path_factory.mktemp("certificates")
    names = ("torch-softmax", "textbook-softmax-naive")
    return certify_all(Request(names, formats="fp16", only=FAMILIES, folder=folder))


def test_verdicts_are_those_that_the_kernels_are_shipped_for(
    certificates: list[Certificate],
) -> None:
    """The stable kernel passes with exit 0, the naive one fails with exit 1."""
    stable, naive = certificates
    assert (stable.verdict, stable.exit_status, stable.expected) == (Verdict.PASS, 0, "pass")
    assert (naive.verdict, naive.exit_status, naive.expected) == (Verdict.FAIL, 1, "fail")
    assert naive.grade is not None
    assert naive.grade.letter == "U"


def test_seed_case_is_nan_naively_and_right_to_six_digits_stably(
    certificates: list[Certificate],
) -> None:
    """softmax([1000, 1001, 999]): truth 0.244728, 0.665241, 0.090031; naive: NaN."""
    seeds = [next(r for r in c.records if r.family == "seed_case") for c in certificates]
    assert [r.verdict for r in seeds] == [Verdict.PASS, Verdict.FAIL]
    assert seeds[1].finding is not None
    assert seeds[1].finding.value == "nan"
    assert seeds[1].finding.truth[:8] in ("0.244728", "0.665240", "0.090030")


def test_certificate_survives_writing_and_reading(
    certificates: list[Certificate], tmp_path: Path
) -> None:
    """Also where numbers are infinite or NaN; and the schema holds."""
    for certificate in certificates:
        write(certificate, tmp_path / "c.json")
        again = read(tmp_path / "c.json")
        assert again.to_json() == certificate.to_json()
        assert again.verdict is certificate.verdict
        assert recheck(again) == []


def test_infinite_numbers_are_words_in_json() -> None:
    """JSON has no infinity; reading gives the number back."""
    assert plain({"a": [float("inf"), float("-inf"), float("nan"), 1.5]}) == {
        "a": ["inf", "-inf", "nan", 1.5]
    }


def test_forged_certificate_does_not_recheck(certificates: list[Certificate]) -> None:
    """A record turned from FAIL to PASS, a removed record, a changed verdict: each is found."""
    naive = certificates[1]
    failed = next(r for r in naive.records if r.verdict is Verdict.FAIL)
    turned = tuple(replace(r, verdict=Verdict.PASS) if r is failed else r for r in naive.records)
    assert recheck(replace(naive, records=turned))
    assert recheck(replace(naive, records=naive.records[1:]))
    assert recheck(replace(naive, verdict=Verdict.PASS))
    assert recheck(replace(naive, isolation="computed elsewhere"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "made by another version"),
        ({"verdict": "GREEN"}, "verdict"),
        ({"surprise": 1}, "surprise"),
        ({"planned": -1}, "planned"),
    ],
)
def test_schema_refuses_what_is_no_certificate(
    certificates: list[Certificate], change: dict[str, object], message: str
) -> None:
    """The first violation is named."""
    with pytest.raises(CertificateError, match=message):
        check_schema({**certificates[0].to_json(), **change})


def test_missing_cases_make_a_certificate_inconclusive(certificates: list[Certificate]) -> None:
    """planned = executed + skipped, or the verdict is not PASS."""
    records = certificates[0].records
    assert overall(records, len(records), 0) is Verdict.PASS
    assert overall(records, len(records) + 1, 0) is Verdict.INCONCLUSIVE
    assert overall((), 0, 0) is Verdict.INCONCLUSIVE


def test_interrupted_run_resumes_where_it_stopped(tmp_path: Path) -> None:
    """A journal cut in the middle of a line is continued; no case runs twice, none is lost."""
    request = Request(("torch-softmax",), formats="fp16", only=FAMILIES)
    with Worker() as worker:
        kernel = loaded(worker, "torch-softmax", request)
        bench = Bench(Oracle(), worker, grading=False)
        campaign = Campaign(kernel, BINARY16, only=FAMILIES)
        whole = execute(campaign, bench, tmp_path)
        journal = tmp_path / f"{campaign.stem}.jsonl"
        text = journal.read_text()
        journal.write_text(text[: len(text) * 2 // 3])
        kept = len(Journal(journal, campaign.identity(), resume=True).records())
        executed: list[Record] = []
        again = execute(
            replace(campaign, resume=True),
            bench,
            tmp_path,
            lambda done, total, r: executed.append(r),
        )
    assert 0 < kept < len(whole.records)
    assert [r.case for r in again.records] == [r.case for r in whole.records]
    assert again.verdict is Verdict.PASS
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert len(lines) == 1 + len(whole.records)


def test_properties_are_resumed_as_wholes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was cut off is tried again from its start; the others are not called again."""
    request = Request(("torch-softmax",), formats="fp16")
    tried: list[str] = []

    def trying(trial: Trial, names: tuple[str, ...]) -> Iterator[Record]:
        tried.extend(names)
        return try_all(trial, names)

    monkeypatch.setattr("verify.campaign.try_all", trying)
    monkeypatch.setattr("verify.families.names", lambda: ["seed_case"])
    with Worker() as worker:
        kernel = loaded(worker, "torch-softmax", request)
        bench = Bench(Oracle(), worker, grading=False)
        campaign = Campaign(kernel, BINARY16, profile="smoke")
        steps: list[tuple[int, int]] = []

        def counted(done: int, total: int, record: Record) -> None:
            steps.append((done, total))

        whole = execute(campaign, bench, tmp_path, counted)
        everything = list(tried)
        journal = tmp_path / f"{campaign.stem}.jsonl"
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(lines[:-1]) + lines[-1][:40])
        tried.clear()
        again = execute(replace(campaign, resume=True), bench, tmp_path)
    assert len(everything) > 2
    assert tried == everything[-1:]
    assert [r.case for r in again.records] == [r.case for r in whole.records]
    assert again.verdict is whole.verdict is Verdict.PASS
    assert steps[-1][0] == steps[-1][1]
    assert len(steps) <= steps[-1][1]


def test_journal_of_another_judge_is_not_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of two states of our own code are not put into one certificate."""
    with Worker() as worker:
        kernel = loaded(worker, "torch-softmax", Request(("torch-softmax",), formats="fp16"))
    campaign = Campaign(kernel, BINARY16)
    before = campaign.identity()
    assert campaign.identity() == before
    monkeypatch.setattr("verify.backing.digest", lambda device="cpu": "0" * 64)
    assert campaign.identity() != before


def test_journal_of_another_run_is_not_continued(tmp_path: Path) -> None:
    """Another kernel file, declaration, seed or version starts anew."""
    path = tmp_path / "j.jsonl"
    path.write_text(json.dumps({"journal": "somebody else"}) + "\n")
    assert Journal(path, "mine", resume=True).records() == {}


def test_failed_write_leaves_the_old_file(
    certificates: list[Certificate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk half-way does not leave half a certificate."""
    target = tmp_path / "c.json"
    write(certificates[0], target)
    before = target.read_text()

    def full(self: Path, *args: object, **kwargs: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write(certificates[1], target)
    monkeypatch.undo()
    assert target.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


def test_file_names_are_safe_and_distinct() -> None:
    """Slashes, colons and spaces vanish; two kernels never share a file."""
    names = ["a/b.py:f", "c/b.py:f", "pkg.mod:f", "textbook-attention-online[block=32]"]
    stems = [file_stem(name, "fp16", "cpu") for name in names]
    assert len(set(stems)) == len(stems)
    assert all(c.isalnum() or c in "._-" for stem in stems for c in stem)


def test_schema_knows_every_operation() -> None:
    """A certificate of an operation that the schema does not know could not be read back."""
    from verify.operation import OPERATIONS

    text = resources.files("verify").joinpath("certificate.schema.json").read_text("utf-8")
    kernel = json.loads(text)["properties"]["kernel"]
    assert kernel["properties"]["operation"]["enum"] == list(OPERATIONS)
