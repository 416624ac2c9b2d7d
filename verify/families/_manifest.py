"""Writes manifest.json, the SHA-256 of every case's inputs: `python -m verify.families._manifest`.

Seed 0, standard profile, the three formats that kernels run in.  A change of the file is a change
of the inputs and has to be meant.
"""

from __future__ import annotations

import json
from pathlib import Path

from verify import families
from verify.case import Plan
from verify.formats import FORMATS
from verify.operation import OPERATIONS

FORMAT_NAMES = ("fp16", "bf16", "fp32")
INSTALLED = ("real_minilm",)  # its inputs come from installed packages


def digests() -> dict[str, dict[str, str]]:
    """Digest by operation and case id."""
    only = [name for name in families.names() if name not in INSTALLED]
    return {
        operation: {
            case.id: case.build().digest
            for name in FORMAT_NAMES
            for case in families.cases(Plan(operation, FORMATS[name]), only)
        }
        for operation in OPERATIONS
    }


if __name__ == "__main__":
    path = Path(__file__).with_name("manifest.json")
    path.write_text(json.dumps(digests(), indent=0, sort_keys=True) + "\n", encoding="utf-8")
