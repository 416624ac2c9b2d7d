"""CSV: one line per record and per skipped case, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from verify.certificate import Certificate, Record
from verify.report import facts

COLUMNS = (
    *("kernel", "operation", "format", "device", "model", "profile", "expected"),
    *("family", "case", "check", "verdict", "reason"),
    *("tightness", "median_tightness", "max_ulp", "mean_ulp"),
    *("output", "index", "value", "value_bits", "value_hex", "truth", "error", "bound", "ulps"),
    *("stage", "digest", "seconds", "reproduce"),
)


def csv_text(certificates: Sequence[Certificate]) -> str:
    """The table as text with a header line."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for certificate in certificates:
        writer.writerows(_rows(certificate))
    return stream.getvalue()


def _rows(certificate: Certificate) -> Iterator[dict[str, Any]]:
    head = {
        "kernel": facts.name(certificate),
        "operation": facts.operation(certificate),
        "format": certificate.format,
        "device": certificate.device,
        "model": certificate.model["name"],
        "profile": certificate.profile,
        "expected": certificate.expected,
    }
    for record in certificate.records:
        yield head | _record(certificate, record)
    for skipped in certificate.skipped:
        yield head | {
            "family": skipped.family,
            "case": skipped.case,
            "verdict": "SKIPPED",
            "reason": skipped.reason,
        }


def _record(certificate: Certificate, record: Record) -> dict[str, Any]:
    found = record.finding
    element = {} if found is None else {k: getattr(found, k) for k in COLUMNS if hasattr(found, k)}
    if found is not None:
        element["index"] = " ".join(map(str, found.index))
    measured = facts.measures(record)
    return {
        "family": record.family,
        "case": record.case,
        "check": record.check,
        "verdict": facts.record_status(record).word,
        "reason": record.reason,
        "tightness": record.tightness,
        "median_tightness": record.median_tightness,
        "max_ulp": measured.get("max_ulp"),
        "mean_ulp": measured.get("mean_ulp"),
        "digest": record.digest,
        "seconds": record.seconds,
        "reproduce": facts.reproduce(certificate, record.case),
        **{k: v for k, v in element.items() if k not in ("check", "verdict")},
    }
