"""What `attncert list` prints: kernels, families, models, formats, as rows of plain data."""

from __future__ import annotations

from typing import Any

from verify.formats import BFLOAT16, FORMATS
from verify.presets import FLUSHING, PRESET_NAMES, preset

Rows = list[dict[str, Any]]


def rows(what: str) -> Rows:
    """The rows of one list."""
    return {
        "kernels": _kernels,
        "families": _families,
        "properties": _properties,
        "models": _models,
        "formats": _formats,
    }[what]()


def text(found: Rows) -> str:
    """Aligned columns; the last column is free text."""
    cells = [[str(value) for value in row.values()] for row in found]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]) - 1)]
    return "\n".join(
        "  ".join(
            [*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]
        ).rstrip()
        for row in cells
    )


def _kernels() -> Rows:
    """Every shipped kernel; where one cannot run here, the reason."""
    from verify.worker import Worker

    with Worker() as worker:
        return [
            {
                "name": k["name"] + ("[...]" if k["factory"] else ""),
                "operation": k["operation"],
                "formats": ",".join(k["formats"]),
                "about": f"not available: {k['unavailable']}" if k["unavailable"] else k["summary"],
            }
            for k in worker.list_kernels()
        ]


def _families() -> Rows:
    from verify import families

    found = [families.family(name) for name in families.names()]
    return [{"name": f.name, "hunts": f.hypothesis} for f in found]


def _properties() -> Rows:
    from verify import properties

    found = [properties.property_named(name) for name in properties.names()]
    return [{"name": p.name, "hunts": p.hypothesis} for p in found]


def _models() -> Rows:
    found = [{"name": n, "meaning": preset(n, BFLOAT16).meaning} for n in PRESET_NAMES]
    return [
        *found,
        {"name": f"NAME{FLUSHING}", "meaning": "NAME; subnormals read and written as 0"},
    ]


def _formats() -> Rows:
    return [
        {
            "name": f.name,
            "precision": f"p = {f.p}",
            "roundoff": f"u = 2^-{f.p}",
            "exponents": f"2^{f.emin} .. 2^{f.emax}",
            "largest": f"largest {f.largest:.6g}",
        }
        for f in FORMATS.values()
    ]
