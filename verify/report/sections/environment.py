"""Where the certificates were made: what all share, and what differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from verify.certificate import Certificate
from verify.report import facts
from verify.report.section import Section
from verify.report.sections.selftest import flat
from verify.report.table import Cell, Column, table
from verify.report.template import render

TEMPLATE = """
{{ shared }}
{% if differing %}<p>What differs between the certificates:</p>{{ differing }}{% endif %}
{% if warnings %}<h3>Warnings</h3><ul>
{% for title, text in warnings %}<li><strong>{{ title }}</strong>: {{ text }}</li>{% endfor %}
</ul>{% endif %}
<details><summary>Kernels: files, digests, declarations</summary>{{ identities }}</details>
"""


def surroundings(certificate: Certificate) -> Mapping[str, str]:
    """Environment and oracle as flat names with text."""
    found: dict[str, Any] = {
        **dict(flat(certificate.environment)),
        **{f"oracle.{k}": v for k, v in flat(certificate.oracle)},
        "profile": certificate.profile,
        "seed": certificate.seed,
        "isolation": certificate.isolation,
        "evidence": certificate.evidence["way"] if certificate.evidence else "—",
        "device": certificate.device,
        "created": certificate.created,
        "schema": certificate.schema,
    }
    return {name: str(value) for name, value in found.items()}


def _identities(certificates: Sequence[Certificate], titles: Sequence[str]) -> str:
    columns = [Column("Kernel and format"), Column("Claims"), Column("Identity")]
    columns += [Column("Declares"), Column("Arithmetic model"), Column("Seconds", True)]
    rows = []
    for title, c in zip(titles, certificates, strict=True):
        rows.append(
            [
                Cell(title, heads_row=True),
                Cell(", ".join(c.kernel.get("features", ())) or "—"),
                Cell(_lines(c.kernel.get("identity", {})), css="wide"),
                Cell(_lines(_declared(c)), css="wide"),
                Cell(f"{c.model['name']}: {c.model['meaning']}", css="wide"),
                Cell(f"{c.seconds:.1f}", c.seconds, "num"),
            ]
        )
    return table("Kernels", columns, rows)


def _declared(certificate: Certificate) -> Mapping[str, Any]:
    """What the kernel declares, of its models that of the certificate's format."""
    declaration = dict(certificate.kernel.get("declaration", {}))
    model = declaration.get("model")
    if isinstance(model, Mapping) and certificate.format in model:
        declaration["model"] = model[certificate.format]
    return declaration


def _lines(values: Mapping[str, Any]) -> str:
    kept = {k: v for k, v in values.items() if v not in (None, [], (), "", False)}
    return "; ".join(f"{k} {_plain(v)}" for k, v in kept.items()) or "—"


def _plain(value: Any) -> str:
    """A value without the quotes of JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} {_plain(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_plain, value)) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def _html(certificates: Sequence[Certificate]) -> str:
    if not certificates:
        return ""
    titles = facts.titles(certificates)
    found = [surroundings(c) for c in certificates]
    names = list(dict.fromkeys(name for values in found for name in values))
    columns = {n: [values.get(n, "—") for values in found] for n in names}
    same = [n for n in names if len(set(columns[n])) == 1]
    other = [n for n in names if n not in same]
    shared = [[Cell(n, heads_row=True), Cell(columns[n][0])] for n in same]
    differing = [
        [Cell(t, heads_row=True), *(Cell(columns[n][i]) for n in other)]
        for i, t in enumerate(titles)
    ]
    heads = [Column("Kernel and format"), *map(Column, other)]
    return render(
        TEMPLATE,
        shared=table(
            "The same for all", (Column("What"), Column("Value")), shared, filterable=False
        ),
        differing=table("Differences", heads, differing) if other else "",
        warnings=[(t, w) for t, c in zip(titles, certificates, strict=True) for w in c.warnings],
        identities=_identities(certificates, titles),
    )


SECTION = Section(140, "Environment", _html)
