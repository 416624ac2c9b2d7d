"""JUnit XML: one test case per record, one suite per kernel, format and device.

What is refuted as it must be is `skipped` (an expected failure), so that a CI job turns red exactly
where a verdict is not the expected one.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from verify.certificate import WAIVABLE, Certificate, Record, waived_cases
from verify.judge import Verdict
from verify.report import facts
from verify.report.refutation import sentence

# What XML 1.0 cannot hold, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(certificates: Sequence[Certificate]) -> str:
    """The document as text."""
    root = ET.Element("testsuites", name="attncert")
    for certificate, title in zip(certificates, facts.titles(certificates), strict=True):
        root.append(_suite(certificate, title))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(certificate: Certificate, title: str) -> ET.Element:
    suite = ET.Element("testsuite", name=_clean(title))
    group = f"{facts.name(certificate)}.{certificate.format}.{certificate.device}"
    for record in certificate.records:
        suite.append(_case(certificate, record, group))
    for skipped in certificate.skipped:
        case = ET.SubElement(suite, "testcase", classname=_clean(group), name=_clean(skipped.case))
        ET.SubElement(case, "skipped", message=_clean(skipped.reason))
    _whole(suite, certificate, group)
    counted = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    suite.set("tests", str(len(suite)))
    for key, tag in counted.items():
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("time", f"{certificate.seconds:.3f}")
    return suite


def _case(certificate: Certificate, record: Record, group: str) -> ET.Element:
    name = f"{record.case} [{record.check}]"
    case = ET.Element("testcase", classname=_clean(group), name=_clean(name))
    case.set("time", f"{record.seconds:.3f}")
    message = _clean(sentence(record))
    if record.verdict is Verdict.PASS:
        return case
    if record.verdict is Verdict.OUT_OF_SCOPE:
        word = facts.record_status(record).word
        ET.SubElement(case, "skipped", message=f"{word}: {message}")
    elif record.case in waived_cases(certificate.waivers) and record.verdict in WAIVABLE:
        ET.SubElement(case, "skipped", message=f"{record.verdict}, waived: {message}")
    elif certificate.expected == "fail":
        ET.SubElement(case, "skipped", message=f"{record.verdict} as expected: {message}")
    else:
        tag = "failure" if record.verdict in (Verdict.FAIL, Verdict.INTEGRITY) else "error"
        found = ET.SubElement(case, tag, message=message, type=record.verdict.value)
        found.text = _clean(facts.reproduce(certificate, record.case))
    return case


def _whole(suite: ET.Element, certificate: Certificate, group: str) -> None:
    """The verdict as a whole: it can differ from what is expected where no single record does."""
    case = ET.SubElement(suite, "testcase", classname=_clean(group), name="verdict")
    if facts.as_expected(certificate):
        return
    if waived_cases(certificate.waivers) and certificate.exit_status == 0:
        ET.SubElement(case, "skipped", message="every failing case is waived")
        return
    wanted = "FAIL" if certificate.expected == "fail" else "PASS"
    message = f"the verdict is {facts.status(certificate).word}, expected {wanted}"
    ET.SubElement(case, "failure", message=message, type=certificate.verdict.value)


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
