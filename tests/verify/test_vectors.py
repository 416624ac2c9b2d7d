"""The committed vectors: small, whole, made again bit for bit, and of use without this project."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from references.enclosure import Enclosure
from verify import vectors
from verify.audit import require_overlap
from verify.errors import OracleError
from verify.exporting import Corpus, export
from verify.grading import Grading, grade_all
from verify.judge import Verdict
from verify.tensor_files import DTYPES, Stored, container, deserialised, serialised, sha256

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = vectors.manifest()
NODE = shutil.which("node")


def test_corpus_is_small_and_has_the_digests_of_its_manifest() -> None:
    """A few hundred cases below 5 MB; every file is the one that the manifest names."""
    names = {p.name for p in vectors.FOLDER.glob("*.safetensors")}
    assert names == set(MANIFEST["files"])
    assert 200 <= len(MANIFEST["cases"]) <= 600
    total = 0
    for name, told in MANIFEST["files"].items():
        raw = (vectors.FOLDER / name).read_bytes()
        assert (len(raw), sha256(raw)) == (told["bytes"], told["sha256"])
        total += len(raw)
    assert total + (vectors.FOLDER / "manifest.json").stat().st_size < 5_000_000


def test_every_file_is_made_again_bit_for_bit() -> None:
    """All inputs and all truths of the committed cases, and the manifest itself.

    After a change that is meant (a family, the oracle): `python -m verify.vectors`.
    """
    files, manifest = vectors.corpus(MANIFEST["cases"])
    for name, raw in files.items():
        assert raw == (vectors.FOLDER / name).read_bytes(), name
    text = (vectors.FOLDER / "manifest.json").read_text(encoding="utf-8")
    assert vectors.text_of(manifest) == text


def test_every_operation_format_and_option_is_there() -> None:
    """Attention with each option alone and with all of them together."""
    kinds = {(c["operation"], c["format"]) for c in MANIFEST["cases"]}
    assert len(kinds) == 12
    attention = [c for c in MANIFEST["cases"] if c["operation"] == "attention"]
    options = {name for c in attention for name in c["options"]}
    assert options >= {"scale", "causal", "window", "softcap", "corner"}
    assert {n for c in attention for n in c["tensors"]} >= {"mask", "bias", "sinks", "magnitude"}
    assert any(c["options"].get("corner") == "top-left" for c in attention)
    assert any(c["options"].get("scale", 0) is None for c in attention)


def test_fast_tier_agrees_with_the_committed_truth() -> None:
    """A third route, over every case of the grid in bfloat16."""
    with safe_open(vectors.FOLDER / "attention-bf16.safetensors", "np") as file:
        names = [n for n in file.keys() if n.startswith("options/")]  # noqa: SIM118
        stored = {n: file.get_tensor(n) for n in names if n.split("/")[-1].startswith("output")}
    cases = [c for c in vectors.cases("attention", "bf16") if c.family == vectors.FAMILY]
    assert len(cases) == len(vectors.GRID)
    for case in cases:
        words = {w: stored[f"{case.id}/output.{w}"] for w in ("hi", "lo", "radius", "classes")}
        committed = Enclosure(**words, tier=np.zeros(words["hi"].shape[:-1], np.uint8))
        fast = vectors.truth(case.operation, case.build(), "fast")["output"]
        require_overlap(committed, fast, case.id)


def test_a_truth_that_arb_contradicts_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check between the two routes can fail."""
    right = vectors.truth

    def wrong(operation: object, inputs: object, tier: str) -> dict[str, object]:
        found = right(operation, inputs, tier)  # type: ignore[arg-type]
        if tier == "arb":
            found["output"].hi[0] += 2.0**-60
        return found

    monkeypatch.setattr(vectors, "truth", wrong)
    case = next(iter(vectors.cases("softmax", "fp16")))
    with pytest.raises(OracleError, match="mpmath and arb"):
        vectors.tensors(case)


def test_an_error_is_computed_from_the_files_alone() -> None:
    """Softmax in float64, with NumPy and the manifest: below 2^-50 wherever the truth is finite."""
    data = load_file(vectors.FOLDER / "softmax-fp16.safetensors")
    largest = 0.0
    for told in MANIFEST["cases"]:
        if (told["operation"], told["format"]) != ("softmax", "fp16"):
            continue
        x = data[f"{told['case']}/x"].astype(np.float64)
        if x.size == 0:
            continue
        hi, lo, kind = (data[f"{told['case']}/output.{w}"] for w in ("hi", "lo", "classes"))
        with np.errstate(invalid="ignore"):
            e = np.exp(x - x.max(-1, keepdims=True))
            error = np.abs((e / e.sum(-1, keepdims=True) - hi) - lo)
        largest = max(largest, float(error[kind == 1].max(initial=0.0)))
    assert 0.0 < largest < 2.0**-50


@pytest.mark.skipif(NODE is None, reason="no node on this machine")
def test_javascript_computes_an_error_from_the_vectors() -> None:
    """Binary32 and 16-bit softmax from float64 arithmetic: half an ulp, and not zero."""
    program = ROOT / "examples/javascript/vectors.mjs"
    done = subprocess.run(
        [str(NODE), program, vectors.FOLDER], capture_output=True, text=True, check=True
    )
    worst = json.loads(done.stdout)
    assert set(worst) == {"fp16", "bf16", "fp32"}
    for found in worst.values():
        assert found["elements"] > 500
        assert 0.25 < found["ulps"] < 0.5001


@pytest.mark.skipif(NODE is None, reason="no node on this machine")
def test_corpus_is_answered_in_javascript_and_certified(tmp_path: Path) -> None:
    """Export, node, grade: no Python kernel is involved."""
    families = ("seed_case", "standard_normal", "near_ties")
    export(Corpus("softmax", ("bf16", "fp16", "fp32"), "smoke", families), tmp_path / "corpus")
    program = ROOT / "examples/javascript/answer.mjs"
    command: list[str | Path] = [str(NODE), program, tmp_path / "corpus", tmp_path / "outputs"]
    subprocess.run(command, capture_output=True, check=True)
    found = grade_all(Grading(tmp_path / "corpus", tmp_path / "outputs"))
    assert [c.format for c in found] == ["bf16", "fp16", "fp32"]
    assert all(c.verdict is Verdict.PASS for c in found)
    assert {c.grade.letter for c in found if c.grade} <= {"CR", "F"}


def test_files_hold_what_the_library_reads_and_nothing_else() -> None:
    """Our writer and the library's reader agree on every type that we write."""
    tensors = {
        f"{name}-{len(shape)}-{count}": Stored(
            name, np.arange(count, dtype=container(name)).reshape(shape)
        )
        for name in DTYPES
        for shape, count in (((2, 3), 6), ((0, 3), 0), ((), 1))
    }
    again = deserialised(serialised(tensors), "test")
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert again[name].format == tensor.format
        assert again[name].bits.shape == tensor.bits.shape
        assert np.array_equal(again[name].bits, tensor.bits)
