"""A row of every truth is made again by mpmath; a difference ends the run as our own error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import references
from references.enclosure import Enclosure
from verify import cli
from verify.case import Inputs, Plan
from verify.declaration import Declaration
from verify.errors import OracleError
from verify.families import cases
from verify.formats import FORMATS
from verify.operation import Operation, OperationName
from verify.truth import Oracle

ROWS: list[OperationName] = ["softmax", "log_softmax", "logsumexp"]


def attention(n_q: int, n_k: int, d: int = 8) -> Inputs:
    rng = np.random.default_rng(1)
    shapes = {"q": (1, 2, n_q, d), "k": (1, 1, n_k, d), "v": (1, 1, n_k, d)}
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return Inputs.rounded(FORMATS["fp32"], arrays)


def rows(n: int) -> Inputs:
    x = np.random.default_rng(2).standard_normal((3, n))
    return Inputs.rounded(FORMATS["fp16"], {"x": x})


def moved(found: Enclosure) -> Enclosure:
    """Off by 2^-60 of itself, with the radius as it was."""
    return replace(found, lo=found.lo + found.hi * 2.0**-60)


def go_wrong(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The fast tier of this function of `references` is off; mpmath's is not."""
    right = getattr(references, name)

    def wrong(*tensors: Any, tier: str, **options: Any) -> Any:
        found = right(*tensors, tier=tier, **options)
        if tier == "exact":
            return found
        return moved(found) if name in ROWS else replace(found, output=moved(found.output))

    monkeypatch.setattr(references, name, wrong)


@pytest.mark.parametrize(("n_q", "n_k", "d"), [(5, 9, 8), (2, 4096, 64), (1, 20, 1024)])
def test_attention_is_audited(n_q: int, n_k: int, d: int) -> None:
    """One row, also where it is long or wide."""
    oracle = Oracle()
    oracle.truth(Operation("attention"), attention(n_q, n_k, d), Declaration())
    assert oracle.audits == 1


@pytest.mark.parametrize("name", ROWS)
def test_functions_of_rows_are_audited(name: OperationName) -> None:
    oracle = Oracle()
    oracle.truth(Operation(name), rows(4096 if name == "softmax" else 30), Declaration())
    assert oracle.audits == 1


@pytest.mark.parametrize("name", [*ROWS, "attention"])
def test_a_wrong_truth_stops_the_run(monkeypatch: pytest.MonkeyPatch, name: OperationName) -> None:
    """The radius would let it pass: only mpmath contradicts it."""
    go_wrong(monkeypatch, name)
    inputs = attention(5, 9) if name == "attention" else rows(30)
    with pytest.raises(OracleError, match="disagree"):
        Oracle().truth(Operation(name), inputs, Declaration())


def test_a_wrong_truth_ends_certify_with_status_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No verdict about the kernel, and no certificate."""
    go_wrong(monkeypatch, "softmax")
    arguments = ["certify", "numpy-softmax", "--dtype", "fp32", "--profile", "smoke"]
    with pytest.raises(SystemExit) as end:
        cli.main([*arguments, "--output", str(tmp_path)])
    assert end.value.code == 70
    assert "disagree" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
def test_default_sizes_reach_4096_keys_and_256_features(fmt: str) -> None:
    """In `certify` without options; each such case has one row that is audited."""
    notes = [case.notes for case in cases(Plan("attention", FORMATS[fmt]))]
    assert max(note["n_k"] for note in notes) >= 4096
    assert max(note["d"] for note in notes) >= 256
