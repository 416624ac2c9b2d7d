"""Heat map family x kernel: verdict and tightness; a cell opens the card of its worst case."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from verify.certificate import Certificate, Record
from verify.judge import Verdict
from verify.report import facts, refutation
from verify.report.matrix import Square, matrix
from verify.report.section import Section
from verify.report.template import render
from verify.report.words import decimal, is_finite, number, ratio, words

SHADES = (0.25, 0.5, 0.75)  # a PASS is shaded by which of these its tightness exceeds
NAMES = (
    *("Verdict", "Case", "Decided by", "Element", "Value", "As a hex float", "Bits", "Truth"),
    *("Error", "Bound", "Largest part of the bound"),
)
SHARED = (0, 2, 10)  # the texts among them that recur

TEMPLATE = """
<p>Each cell is the worst case of a family. A number is the largest error divided by the bound: at
most 1 where the kernel passes, and the nearer to 1 the darker. Press a cell for the case, its bits,
its truth and the command that runs it again.</p>
<p class="note">✓ PASS &nbsp; ✗ FAIL (error / bound, or the output that is not finite) &nbsp;
! ERROR &nbsp; ? INCONCLUSIVE &nbsp; ○ out of scope &nbsp; ∅ not certifiable &nbsp; – not run</p>
{% for map in maps %}{{ map }}{% endfor %}
<dialog id="card" aria-labelledby="card-title"><h3 id="card-title"></h3><dl class="card"></dl>
<button type="button" class="close" autofocus>Close</button></dialog>
<script type="application/gzip" id="worst-cases">{{ data }}</script>
"""


@dataclass
class Cards:
    """Cards as compact data: texts that recur are stored once and referred to by number."""

    kernels: list[tuple[str, str]] = field(default_factory=list)
    cards: list[list[Any]] = field(default_factory=list)
    texts: dict[str, int] = field(default_factory=dict)

    def add(self, record: Record) -> int:
        """Store the card of a record of the last kernel; returns its number."""
        values = [self._shared(v) if at in SHARED else v for at, v in enumerate(_values(record))]
        quoted = facts.quoted(record.case)
        self.cards.append([len(self.kernels) - 1, "" if quoted == record.case else quoted, *values])
        return len(self.cards) - 1

    def _shared(self, text: str) -> int | str:
        return self.texts.setdefault(text, len(self.texts)) if text else ""

    def packed(self) -> str:
        """JSON, compressed, in base64: a third of the size, and safe inside a script element."""
        plain = {"texts": list(self.texts), "kernels": self.kernels, "cards": self.cards}
        text = json.dumps({**plain, "names": NAMES}, separators=(",", ":"), ensure_ascii=False)
        return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _values(record: Record) -> list[str]:
    status = facts.record_status(record)
    found = record.finding
    word = f"{status.symbol} {status.word}"
    if record.verdict is not Verdict.PASS:
        word += f": {refutation.sentence(record)}"
    head = [word, record.case, refutation.check(record)]
    if found is None:
        return head
    ulps = "" if found.ulps is None else f" = {number(found.ulps)} ulp"
    return [
        *head,
        f"{found.output}[{', '.join(map(str, found.index))}]",
        decimal(found.value),
        found.value_hex if is_finite(found.value) else "",
        found.value_bits,
        f"{decimal(found.truth)} ± {number(found.truth_radius)}",
        number(found.error, 6) + ulps,
        number(found.bound, 6),
        words(found.stage or ""),
    ]


def _square(record: Record | None, cards: Cards) -> Square | None:
    if record is None:
        return None
    status = facts.record_status(record)
    text = f"{status.symbol} {_size(record)}".strip()
    if record.verdict is Verdict.PASS:
        shade = sum((record.tightness or 0.0) > s for s in SHADES)
        return Square(text, f"p{shade}", card=cards.add(record))
    return Square(text, status.css, status.word, cards.add(record))


def _size(record: Record) -> str:
    if (
        record.verdict is Verdict.FAIL
        and record.finding is not None
        and facts.nonfinite(record.finding)
    ):
        return decimal(record.finding.value)
    if record.verdict is Verdict.FAIL and record.check == "class":
        return "NaN or inf"
    if record.verdict in (Verdict.PASS, Verdict.FAIL):
        return "" if record.tightness is None else ratio(record.tightness, 2)
    return ""


def _map(key: tuple[str, str], certificates: Sequence[Certificate], cards: Cards) -> str:
    grouped = [facts.by_family(c) for c in certificates]
    families = sorted({family for found in grouped for family in found})
    columns: list[list[Square | None]] = []
    titles = facts.titles(certificates)
    for certificate, title, found in zip(certificates, titles, grouped, strict=True):
        cards.kernels.append((title, facts.reproduce(certificate, "")))
        columns.append([_square(facts.worst(found.get(f, ())), cards) for f in families])
    caption = f"{facts.group_title(key).capitalize()}: family by kernel and format"
    rows = [(words(f), [c[i] for c in columns]) for i, f in enumerate(families)]
    return matrix(caption, "Family", certificates, rows)


def _html(certificates: Sequence[Certificate]) -> str:

    cards = Cards()
    maps = [_map(key, found, cards) for key, found in facts.groups(certificates).items()]
    if not cards.cards:
        return ""
    return render(TEMPLATE, maps=maps, data=cards.packed())


SECTION = Section(60, "Family by kernel", _html)
