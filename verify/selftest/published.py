"""Pack the published tables of peers and power, so that every report can show them.

    attncert selftest --peers --output FOLDER
    attncert selftest --power --output FOLDER
    python -m verify.selftest.published FOLDER

A report speaks of a kernel; these tables speak of the judge and of other projects' gates, and are
the same for every kernel.  They belong to the version that made them, which they name.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import verify
from verify.certificate import write_atomically

FILE = "published.json"


def packed(peers: dict[str, Any], power: dict[str, Any]) -> dict[str, Any]:
    """Both tables without what can be told from the rest; sizes to three digits."""
    return {
        "version": verify.__version__,
        "created": datetime.now(UTC).date().isoformat(),
        "gates": peers["gates"],
        "accepted": {
            kernel.removeprefix("control-"): {
                fmt: [gate for gate, word in answers.items() if word == "accepted"]
                for fmt, answers in formats.items()
            }
            for kernel, formats in peers["kernels"].items()
            if kernel.startswith("control-")
        },
        "right_rejected": {
            kernel.removeprefix("right-"): {
                fmt: [gate for gate, word in answers.items() if word == "rejected"]
                for fmt, answers in formats.items()
            }
            for kernel, formats in peers["kernels"].items()
            if kernel.startswith("right-")
        },
        "power": {
            fmt: {
                family: {n: {d: _short(size) for d, size in cell.items()} for n, cell in ns.items()}
                for family, ns in families.items()
            }
            for fmt, families in power.items()
        },
    }


def _short(size: float | str) -> float | str:
    return size if isinstance(size, str) else float(f"{size:.3g}")


def pack(folder: Path) -> Path:
    """Read peers.json and power.json of a folder; write them beside the controls."""
    found = [json.loads((folder / f"{name}.json").read_text()) for name in ("peers", "power")]
    path = Path(str(resources.files("verify.controls").joinpath(FILE)))
    write_atomically(path, json.dumps(packed(*found), indent=1, sort_keys=True) + "\n")
    return path


if __name__ == "__main__":
    print(pack(Path(sys.argv[1])))
