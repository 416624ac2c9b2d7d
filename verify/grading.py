"""Grade: outputs that were computed elsewhere from an exported corpus, judged like any others.

The inputs are made anew from their recipes and must have the digests that the index names; the
outputs must name the corpus that they answer.  A case without outputs is INCONCLUSIVE, an output of
another shape or format, or an unreadable file, is an ERROR of its case.  Properties need calls that
differ by one thing, so none is tried, and the certificate says so.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from verify import properties
from verify.calling import Bench
from verify.campaign import (
    Campaign,
    certify,
    command_line,
    prepare_folder,
)
from verify.case import Case
from verify.certificate import Certificate, Record, Skipped, write
from verify.certifying import Listener, Silence
from verify.errors import UsageError
from verify.exporting import INDEX, Corpus, corpus_digest, described, read_index
from verify.formats import Format, format_named
from verify.journal import Journal
from verify.kernel import Kernel
from verify.pipeline import examine
from verify.returned import Returned, outputs_digest, read_answers
from verify.tensor_files import sha256
from verify.truth import Oracle
from verify.waivers import Waiver

WAY = "graded outputs"


@dataclass(frozen=True)
class Grading:
    """What to grade: a corpus and the outputs for it, under what their kernel declares.

    name     the kernel, as the certificate calls it ('': as `outputs.json` says)
    device   the device, as the certificate calls it ('': as `outputs.json` says)
    """

    corpus: Path
    outputs: Path
    declared: Mapping[str, Any] = field(default_factory=dict)
    formats: str = "all"
    name: str = ""
    device: str = ""
    waivers: tuple[Waiver, ...] = ()
    folder: Path | None = None
    resume: bool = False


def grade_all(grading: Grading, listener: Listener | None = None) -> list[Certificate]:
    """One certificate for each format of the corpus (or of those chosen).

    Raises      UsageError for files that are not there or do not belong together.
    """
    listener = listener or Silence()
    corpus, index = read_index(grading.corpus)
    said = read_answers(grading.outputs, index["corpus"])
    kernel = _kernel(grading, corpus, said)
    formats = _formats(grading, corpus)
    folder = prepare_folder(grading.folder) if grading.folder else None
    plans = [(fmt, *_checked_plan(grading, corpus, index, fmt)) for fmt in formats]
    with threadpool_limits(limits=1, user_api="blas"):
        return _graded(grading, corpus, kernel, plans, said["device"], folder, listener)


def _graded(
    grading: Grading,
    corpus: Corpus,
    kernel: Kernel,
    plans: list[tuple[Format, list[Case], list[Skipped]]],
    device: str,
    folder: Path | None,
    listener: Listener,
) -> list[Certificate]:
    oracle = Oracle()
    certificates = []
    for fmt, cases, skipped in plans:
        bench = Bench(oracle, Returned(grading.outputs, ""), device)
        campaign = _campaign(grading, corpus, kernel, fmt, device)
        listener.starting(campaign)
        certificate = _grade(campaign, bench, cases, skipped, grading, folder, listener)
        listener.finished(certificate)
        certificates.append(certificate)
    return certificates


def _grade(
    campaign: Campaign,
    bench: Bench,
    cases: list[Case],
    skipped: list[Skipped],
    grading: Grading,
    folder: Path | None,
    listener: Listener,
) -> Certificate:
    started = time.perf_counter()
    path = folder / f"{campaign.stem}.jsonl" if folder else None
    journal = Journal(path, campaign.identity(), resume=campaign.resume) if path else None
    done = journal.records() if journal else {}
    claimed, left_out = _claimed(campaign.kernel, cases)
    records: list[Record] = []
    for number, case in enumerate(claimed, 1):
        record = done.get(case.id)
        if record is None:
            place = f"{case.id}.safetensors"
            runner = Returned(grading.outputs / place, place)
            record = examine(case, campaign.kernel, replace(bench, runner=runner))
            if journal:
                journal.append(record)
        records.append(record)
        listener.progress(number, len(claimed), record)
    everything = (*skipped, *left_out, *_untried())
    certificate = certify(
        campaign,
        tuple(records),
        everything,
        len(claimed) + len(everything),
        bench,
        time.perf_counter() - started,
    )
    if folder:
        write(certificate, folder / f"{campaign.stem}.json")
    return certificate


def _claimed(kernel: Kernel, cases: list[Case]) -> tuple[list[Case], list[Skipped]]:
    """The cases that the kernel claims under what is declared now."""
    reasons = [(case, kernel.out_of_scope(case)) for case in cases]
    left_out = [Skipped(c.id, c.family, why) for c, why in reasons if why is not None]
    return [c for c, why in reasons if why is None], left_out


def _untried() -> list[Skipped]:
    why = "a property compares calls; outputs that were computed elsewhere allow none"
    return [Skipped(name, name, why) for name in properties.names()]


def _kernel(grading: Grading, corpus: Corpus, said: dict[str, Any]) -> Kernel:
    said["device"] = grading.device or said["device"]
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,60}", said["device"]):
        raise UsageError(
            f"device {said['device']!r} is no name: letters, digits, dots and dashes only"
        )
    identity = {
        "file": grading.outputs.name,
        "sha256": outputs_digest(grading.outputs),
        "as_its_maker_says": {k: v for k, v in said.items() if k != "corpus"},
    }
    name = grading.name or said["kernel"]
    summary = "outputs computed elsewhere"
    return corpus.kernel(grading.declared, name=name, identity=identity, summary=summary, way=WAY)


def _formats(grading: Grading, corpus: Corpus) -> list[Format]:
    names = corpus.formats
    if grading.formats != "all":
        names = tuple(format_named(text).name for text in grading.formats.split(","))
    missing = [name for name in names if name not in corpus.formats]
    if missing:
        raise UsageError(f"the corpus has no {missing[0]}; it has {', '.join(corpus.formats)}")
    return [format_named(name) for name in names]


def _campaign(
    grading: Grading, corpus: Corpus, kernel: Kernel, fmt: Format, device: str
) -> Campaign:
    kernel.models(fmt)  # an unknown model is a usage error before anything is judged
    notes = []
    if corpus.profile == "smoke":
        notes.append("profile smoke: a quick look, not sufficient for a certificate of accuracy")
    if corpus.only:
        notes.append(f"only the families {', '.join(corpus.only)} were exported")
    return Campaign(
        kernel=kernel,
        format=fmt,
        device=device,
        profile=corpus.profile,
        seed=corpus.seed,
        only=corpus.only,
        command=command_line(),
        warnings=tuple(notes),
        resume=grading.resume,
        waivers=grading.waivers,
        way=kernel.way,
    )


def _checked_plan(
    grading: Grading, corpus: Corpus, index: dict[str, Any], fmt: Format
) -> tuple[list[Case], list[Skipped]]:
    """The cases of the index, made anew; each must have the inputs that were exported.

    Raises      UsageError where this version makes other inputs, or a file was changed.
    """
    kernel = corpus.kernel()
    if corpus_digest(corpus, index["cases"]) != index["corpus"]:
        raise UsageError(f"{grading.corpus / INDEX} was changed: its digest does not fit its cases")
    listed = {e["case"]: e for e in index["cases"] if e["format"] == fmt.name}
    cases, skipped = _exported(corpus.plan(kernel, fmt), listed, index)
    for case in cases:
        entry, _ = described(case, kernel)
        same = (entry[key] == listed[case.id][key] for key in ("digest", "sha256"))
        if not all(same):
            raise UsageError(f"{case.id}: this version makes other inputs; {_again(index)}")
        path = grading.corpus / entry["inputs"]
        if path.is_file() and sha256(path.read_bytes()) != entry["sha256"]:
            raise UsageError(f"{path} is not the file that was exported: its SHA-256 differs")
    return cases, skipped


def _exported(
    plan: tuple[list[Case], list[Skipped]], listed: Mapping[str, Any], index: Mapping[str, Any]
) -> tuple[list[Case], list[Skipped]]:
    """The cases that the index lists, out of what this version and machine plan.

    Raises      UsageError where the two differ by more than families that the machine of the export
                did not have.
    """
    cases, skipped = plan
    absent = {s["family"]: s["reason"] for s in index["skipped"] if s["case"] == s["family"]}
    planned = {case.id for case in cases}
    odd = sorted(set(listed) - planned)
    odd += [case.id for case in cases if case.id not in listed and case.family not in absent]
    if odd:
        raise UsageError(f"the corpus and this version differ in {odd[0]}; {_again(index)}")
    here = {s.family for s in skipped if s.case == s.family}
    more = [Skipped(name, name, why) for name, why in absent.items() if name not in here]
    return [case for case in cases if case.id in listed], [*skipped, *more]


def _again(index: Mapping[str, Any]) -> str:
    return f"grade with attncert {index['attncert']}, or export the corpus again"


def count_missing(certificates: list[Certificate]) -> int:
    """How many cases have no outputs."""
    return sum(
        record.check == "run" and record.reason.startswith("no outputs:")
        for certificate in certificates
        for record in certificate.records
    )
