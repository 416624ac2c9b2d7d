"""Why a record has its verdict, in one sentence and as the card of its deciding element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verify.certificate import Certificate, Finding, Record
from verify.judge import Verdict
from verify.report import facts
from verify.report.words import decimal, is_finite, number, ratio, words


def sentence(record: Record) -> str:
    """What was seen, with numbers where there are any."""
    found = record.finding
    if record.verdict is Verdict.FAIL and facts.nonfinite(found):
        assert found is not None
        return f"{_what(found)} is {decimal(found.value)}, truth is {short(found.truth)}"
    if record.verdict is Verdict.FAIL and found is not None and found.error is not None:
        return f"{_what(found)} has error {number(found.error)} above the bound {_bound(found)}"
    return record.reason or facts.record_status(record).meaning


def _what(found: Finding) -> str:
    return "log-sum-exp" if found.output == "lse" else found.output


def _bound(found: Finding) -> str:
    if found.bound and found.error:
        return f"{number(found.bound)} ({ratio(found.error / found.bound)} times)"
    return number(found.bound)


def short(text: str, digits: int = 6) -> str:
    """A decimal of the certificate cut to a few digits."""
    shown = decimal(text)
    if shown != text:
        return shown
    try:
        return f"{float(text):.{digits}g}"
    except ValueError:
        return text


def card(certificate: Certificate, record: Record) -> Mapping[str, Any]:
    """Everything about the deciding element that a reader may want, as (name, text) pairs."""
    found = record.finding
    status = facts.record_status(record)
    lines = [("Verdict", f"{status.symbol} {status.word} — {sentence(record)}")]
    lines += [("Case", record.case), ("Decided by", check(record))]
    if found is not None:
        lines += _element(found)
    if "repeated" in record.metrics:
        lines.append(("A second call gave", str(record.metrics["repeated"])))
    return {"lines": lines, "command": facts.reproduce(certificate, record.case)}


def _element(found: Finding) -> list[tuple[str, str]]:
    place = f"{found.output}[{', '.join(map(str, found.index))}]"
    ulps = "" if found.ulps is None else f" = {number(found.ulps)} ulp"
    return [
        ("Element", place),
        ("Value", _value(found)),
        ("Truth", f"{decimal(found.truth)} ± {number(found.truth_radius)}"),
        ("Error", f"{number(found.error, 6)}{ulps}"),
        ("Bound", number(found.bound, 6)),
        ("Largest part of the bound", words(found.stage) if found.stage else "—"),
    ]


def _value(found: Finding) -> str:
    """Decimal, hex float (of a finite one) and bits."""
    hexadecimal = f"   {found.value_hex}" if is_finite(found.value) else ""
    return f"{decimal(found.value)}{hexadecimal}   bits {found.value_bits}"


CHECKS = {
    "bound": "error against bound",
    "finite": "finite truth must give a finite output",
    "class": "NaN and infinity where, and only where, the truth has them",
    "run": "the run itself",
    "integrity": "integrity of the run",
    "truth": "the truth itself",
}


def check(record: Record) -> str:
    """The deciding check in words."""
    if record.check.startswith(facts.PROPERTY):
        return f"property {words(record.check.removeprefix(facts.PROPERTY))}"
    return CHECKS.get(record.check, record.check)
