"""Export and grade: a corpus tells no answer, and what comes back is judged like any kernel."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from verify.certificate import Certificate, check_schema, recheck
from verify.cli import main
from verify.errors import CertificateError, UsageError
from verify.exporting import Corpus, export, read_index
from verify.grading import Grading, grade_all
from verify.judge import Verdict
from verify.reproducing import reproduce
from verify.truth import Oracle

FAMILIES = (
    "standard_normal",
    "boolean_masks",
    "empty_rows",
    "seed_case",
    "near_ties",
    "needle",
    "decode",
)
WITHOUT = ("softcap", "sinks", "window", "bias")
ATTENTION = Corpus("attention", ("bf16",), "smoke", FAMILIES, without=WITHOUT)
SOFTMAX = Corpus("softmax", ("fp16", "e4m3"), "smoke", ("seed_case", "standard_normal"))


def attend(tensors: dict[str, torch.Tensor], options: dict[str, Any]) -> dict[str, torch.Tensor]:
    """A flash-like kernel of somebody else, who knows the index and nothing of us."""
    q, k, v = (tensors[name].float() for name in "qkv")
    groups = q.shape[1] // max(k.shape[1], 1)
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    n_q, n_k = q.shape[2], k.shape[2]
    s = (q @ k.transpose(2, 3)) * options["scale"]
    if "mask" in tensors:
        s = s.masked_fill(~tensors["mask"], float("-inf"))
    if options.get("causal"):
        seen = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
        s = s.masked_fill(~seen, float("-inf"))
    m = s.amax(-1, keepdim=True)
    p = torch.exp(s - m.clamp_min(torch.finfo(torch.float32).min))
    total = p.sum(-1, keepdim=True)
    output = (p.bfloat16().float() @ v) / total.clamp_min(torch.finfo(torch.float32).tiny)
    lse = (m + total.log()).squeeze(-1)
    return {"output": output.to(tensors["q"].dtype), "lse": lse}


def answer(corpus: Path, outputs: Path, **changes: Any) -> None:
    """Compute every output from the files alone, as a program in any language would."""
    index = json.loads((corpus / "index.json").read_text())
    for entry in index["cases"]:
        tensors = load_file(corpus / entry["inputs"])
        if index["operation"] == "attention":
            found = attend(tensors, entry["options"])
        else:
            wide = torch.softmax(tensors["x"].float(), -1)
            found = {"output": wide.to(getattr(torch, TORCH[entry["wanted"]["output"]["format"]]))}
        path = outputs / entry["outputs"]
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({k: found[k].contiguous() for k in entry["wanted"]}, path)
    told = {"corpus": index["corpus"], "kernel": "elsewhere", "device": "tpu-9", **changes}
    (outputs / "outputs.json").write_text(json.dumps(told))


TORCH = {"fp16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An exported attention corpus in bfloat16, and right outputs for it."""
    root = tmp_path_factory.mktemp("exchange")
    export(ATTENTION, root / "corpus")
    answer(root / "corpus", root / "outputs")
    return root / "corpus", root / "outputs"


@pytest.fixture
def outputs(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of the right outputs, to spoil."""
    return Path(shutil.copytree(folders[1], tmp_path / "outputs"))


def graded(corpus: Path, outputs: Path, **options: Any) -> Certificate:
    return grade_all(Grading(corpus, outputs, **options))[0]


def first(corpus: Path, family: str = "standard_normal") -> dict[str, Any]:
    entries = read_index(corpus)[1]["cases"]
    return dict(next(e for e in entries if e["family"] == family))


def test_two_runs_write_the_same_bytes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Every file of the corpus, the index included, in another folder."""
    export(ATTENTION, tmp_path / "again")
    names = sorted(p.relative_to(folders[0]) for p in folders[0].rglob("*") if p.is_file())
    assert len(names) > 5
    for name in names:
        assert (folders[0] / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_export_asks_for_no_truth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the oracle out of order a corpus is still written; no file holds an output."""

    def broken(*arguments: object) -> object:
        raise AssertionError("an answer was computed")

    for name in ("truth", "decomposition", "confirm"):
        monkeypatch.setattr(Oracle, name, broken)
    export(SOFTMAX, tmp_path / "corpus")
    for path in tmp_path.rglob("*.safetensors"):
        with safe_open(path, "np") as file:
            assert set(file.keys()) == {"x"}


def test_interrupted_export_is_completed_by_running_it_again(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """What is there stays as it is; the index is written last."""
    corpus = tmp_path / "corpus"

    def stop(done: int, total: int, case: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(ATTENTION, corpus, stop)
    assert not (corpus / "index.json").exists()
    kept = {p: p.stat().st_mtime_ns for p in corpus.rglob("*.safetensors")}
    assert kept
    export(ATTENTION, corpus)
    assert all(p.stat().st_mtime_ns == then for p, then in kept.items())
    assert (corpus / "index.json").read_bytes() == (folders[0] / "index.json").read_bytes()


def test_folder_of_another_corpus_is_not_overwritten(folders: tuple[Path, Path]) -> None:
    """A usage error that names the remedy."""
    with pytest.raises(UsageError, match="holds another corpus; choose another folder"):
        export(SOFTMAX, folders[0])


def test_right_outputs_are_certified_and_the_certificate_says_how_they_came(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    """PASS, by the way `graded outputs`, with what it cannot prove; the schema holds."""
    certificate = graded(*folders, folder=tmp_path)
    assert (certificate.verdict, certificate.exit_status) == (Verdict.PASS, 0)
    assert (certificate.kernel["name"], certificate.device) == ("elsewhere", "tpu-9")
    assert certificate.isolation == "computed elsewhere"
    assert certificate.evidence is not None
    assert certificate.evidence["way"] == "graded outputs"
    assert any("equal calls" in text for text in certificate.evidence["cannot_prove"])
    assert any(s.family == "equal_calls" for s in certificate.skipped)
    check_schema(certificate.to_json())
    assert recheck(certificate) == []
    with pytest.raises(CertificateError, match="computed elsewhere"):
        reproduce(str(next(tmp_path.glob("*.json"))))


def test_one_wrong_bit_pattern_refutes(folders: tuple[Path, Path], outputs: Path) -> None:
    """An element of one output is moved by 1 percent: FAIL on that case and on no other."""
    entry = first(folders[0])
    path = outputs / entry["outputs"]
    tensors = load_file(path)
    tensors["output"].view(-1)[3] *= 1.04
    tensors["output"].view(-1)[3] += 0.01
    save_file(tensors, path)
    certificate = graded(folders[0], outputs)
    assert certificate.verdict is Verdict.FAIL
    failed = [r for r in certificate.records if r.verdict is Verdict.FAIL]
    assert [r.case for r in failed] == [entry["case"]]
    assert failed[0].finding is not None


def test_outputs_under_another_declaration_are_judged_by_it(folders: tuple[Path, Path]) -> None:
    """The same bits contradict a kernel that declares NaN for empty rows, and a tighter model."""
    declared = {"empty_row": "nan"}
    assert graded(*folders, declared=declared).verdict is Verdict.FAIL
    assert graded(*folders, declared={"model": "single"}).verdict is Verdict.FAIL


def test_missing_outputs_are_inconclusive_and_named(
    folders: tuple[Path, Path], outputs: Path
) -> None:
    """The case that is not there is never green."""
    entry = first(folders[0])
    (outputs / entry["outputs"]).unlink()
    certificate = graded(folders[0], outputs)
    assert (certificate.verdict, certificate.exit_status) == (Verdict.INCONCLUSIVE, 4)
    missing = [r for r in certificate.records if r.verdict is Verdict.INCONCLUSIVE]
    assert [r.case for r in missing] == [entry["case"]]
    assert missing[0].reason == f"no outputs: {entry['outputs']} is missing"


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"output": torch.zeros(2, 2)}, "output has shape (2, 2) instead of"),
        ({"result": torch.zeros(2, 2)}, "has no tensor 'output', only result"),
        ("lse", "has no tensor 'lse', only output; grade with --declare without=return_lse"),
        (b"no tensors at all", "is not a safetensors file"),
    ],
)
def test_malformed_outputs_are_an_error_of_their_case(
    tensors: Any, message: str, folders: tuple[Path, Path], outputs: Path
) -> None:
    """Shape, name, missing LSE, bytes that are no file: each with its own sentence."""
    entry = first(folders[0])
    path = outputs / entry["outputs"]
    if isinstance(tensors, bytes):
        path.write_bytes(tensors)
    else:
        kept = {"output": load_file(path)["output"].clone()} if tensors == "lse" else tensors
        save_file(kept, path)
    certificate = graded(folders[0], outputs)
    failed = [r for r in certificate.records if r.verdict is Verdict.ERROR]
    assert [r.case for r in failed] == [entry["case"]]
    assert message in failed[0].reason


def test_kernel_without_lse_is_graded_without_it(folders: tuple[Path, Path], outputs: Path) -> None:
    """`without` at the time of grading takes the log-sum-exp and features away."""
    for path in outputs.rglob("*.safetensors"):
        save_file({"output": load_file(path)["output"].clone()}, path)
    declared = {"without": ("return_lse", "mask")}
    certificate = graded(folders[0], outputs, declared=declared)
    assert certificate.verdict is Verdict.PASS
    assert any(s.reason == "does not claim mask" for s in certificate.skipped)


def test_outputs_of_another_corpus_are_refused(folders: tuple[Path, Path], outputs: Path) -> None:
    """By the digest, before anything is judged."""
    told = json.loads((outputs / "outputs.json").read_text())
    (outputs / "outputs.json").write_text(json.dumps({**told, "corpus": "0" * 64}))
    with pytest.raises(UsageError, match=r"answers corpus 0000000000000000\.\.\., but this corpus"):
        graded(folders[0], outputs)
    (outputs / "outputs.json").unlink()
    with pytest.raises(UsageError, match="it says which corpus is answered"):
        graded(folders[0], outputs)


def test_changed_corpus_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Inputs that were made easier, and an index that was edited, are found by their digests."""
    corpus = Path(shutil.copytree(folders[0], tmp_path / "corpus"))
    path = corpus / first(corpus)["inputs"]
    tensors = load_file(path)
    save_file({name: torch.zeros_like(t) for name, t in tensors.items()}, path)
    with pytest.raises(UsageError, match="is not the file that was exported"):
        graded(corpus, folders[1])
    path.unlink()
    assert graded(corpus, folders[1]).verdict is Verdict.PASS, "inputs need not come back"
    index = json.loads((corpus / "index.json").read_text())
    index["cases"][0]["digest"] = "0" * 64
    (corpus / "index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match="its digest does not fit its cases"):
        graded(corpus, folders[1])


def test_cases_cannot_be_dropped_from_an_index(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Also where the digest was made to fit."""
    from verify.exporting import corpus_digest

    corpus = Path(shutil.copytree(folders[0], tmp_path / "corpus"))
    outputs = Path(shutil.copytree(folders[1], tmp_path / "outputs"))
    index = json.loads((corpus / "index.json").read_text())
    dropped = index["cases"].pop(0)
    index["corpus"] = corpus_digest(ATTENTION, index["cases"])
    (corpus / "index.json").write_text(json.dumps(index))
    (outputs / "outputs.json").write_text(json.dumps({"corpus": index["corpus"]}))
    with pytest.raises(UsageError, match="differ in " + dropped["case"]):
        graded(corpus, outputs)


def test_interrupted_grading_is_resumed(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """The journal is continued where the same outputs are graded, and only there."""
    whole = graded(*folders, folder=tmp_path)
    journal = next(tmp_path.glob("*.jsonl"))
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:3]))
    os.utime(journal)
    again = graded(*folders, folder=tmp_path, resume=True)
    assert [r.seconds for r in again.records[:2]] == [r.seconds for r in whole.records[:2]]
    assert len(journal.read_text().splitlines()) == len(lines)


def test_eight_bit_formats_travel(tmp_path: Path) -> None:
    """FP8 inputs have the type F8_E4M3 in the file and come back as the same bits."""
    export(SOFTMAX, tmp_path / "corpus")
    entry = next(e for e in read_index(tmp_path / "corpus")[1]["cases"] if e["format"] == "e4m3")
    assert entry["tensors"]["x"]["dtype"] == "F8_E4M3"
    with safe_open(tmp_path / "corpus" / entry["inputs"], "pt") as file:
        assert file.get_tensor("x").dtype is torch.float8_e4m3fn
    answer(tmp_path / "corpus", tmp_path / "outputs")
    found = grade_all(Grading(tmp_path / "corpus", tmp_path / "outputs"))
    assert [c.format for c in found] == ["fp16", "e4m3"]
    assert found[0].verdict is Verdict.PASS
    assert not any(r.verdict is Verdict.ERROR for r in found[1].records)


@pytest.mark.parametrize("factor", [1.0, 1.1], ids=["right", "scaled by 1.1"])
def test_gradients_are_exported_and_graded(factor: float, tmp_path: Path) -> None:
    """attention_backward: torch.autograd in binary64 is certified, the same times 1.1 refuted."""
    names = ("standard_normal", "near_ties")
    without = ("softcap", "sinks", "window", "bias", "mask", "gqa")
    export(Corpus("attention_backward", ("fp32",), "smoke", names, without=without), tmp_path / "c")
    index = read_index(tmp_path / "c")[1]
    assert len(index["cases"]) >= 1
    for entry in index["cases"]:
        assert list(entry["wanted"]) == ["dq", "dk", "dv"]
        tensors = {n: t.double() for n, t in load_file(tmp_path / "c" / entry["inputs"]).items()}
        leaves = [tensors[name].requires_grad_() for name in "qkv"]
        q, k, v = leaves
        s = (q @ k.transpose(2, 3)) * entry["options"]["scale"]
        if entry["options"].get("causal"):
            seen = torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[-1] - s.shape[-2])
            s = s.masked_fill(~seen, float("-inf"))
        found = torch.autograd.grad(torch.softmax(s, -1) @ v, leaves, tensors["do"])
        path = tmp_path / "o" / entry["outputs"]
        path.parent.mkdir(parents=True, exist_ok=True)
        told = {
            n: (factor * g).float().contiguous()
            for n, g in zip(("dq", "dk", "dv"), found, strict=True)
        }
        save_file(told, path)
    (tmp_path / "o/outputs.json").write_text(json.dumps({"corpus": index["corpus"]}))
    certificate = graded(tmp_path / "c", tmp_path / "o")
    assert certificate.verdict is (Verdict.PASS if factor == 1.0 else Verdict.FAIL)


def test_zeros_are_refuted(folders: tuple[Path, Path], outputs: Path) -> None:
    """The cheapest wrong answer."""
    for path in outputs.rglob("*.safetensors"):
        tensors = load_file(path)
        save_file({name: torch.zeros_like(t) for name, t in tensors.items()}, path)
    certificate = graded(folders[0], outputs)
    assert certificate.verdict is Verdict.FAIL
    assert sum(r.verdict is Verdict.FAIL for r in certificate.records) >= 3


def test_bits_of_a_file_are_those_of_the_case(folders: tuple[Path, Path]) -> None:
    """The values that another program reads are the exact inputs."""
    from verify import families
    from verify.case import Plan
    from verify.formats import BFLOAT16

    entry = first(folders[0])
    plan = Plan("attention", BFLOAT16, "smoke")
    case = next(c for c in families.cases(plan, [entry["family"]]) if c.id == entry["case"])
    tensors = load_file(folders[0] / entry["inputs"])
    for name in "qkv":
        assert np.array_equal(tensors[name].double().numpy(), case.build()[name].values)


def run(*arguments: str) -> int:
    """The command in this process: its exit status."""
    try:
        main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_commands_export_and_grade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The front doors: what they print, and 2, 4, 0 and 1 for what comes back."""
    monkeypatch.chdir(tmp_path)
    options = ("--dtype", "fp16", "--profile", "smoke", "--family", "seed_case")
    assert run("export", "corpus", "--operation", "softmax", *options) == 0
    assert "then attncert grade corpus OUTPUTS" in capsys.readouterr().out
    outputs = Path("outputs")
    outputs.mkdir()
    (outputs / "outputs.json").write_text(json.dumps({"corpus": "0" * 64}))
    assert run("grade", "corpus", "outputs") == 2
    assert "answers corpus 0000" in capsys.readouterr().err
    digest = read_index(Path("corpus"))[1]["corpus"]
    (outputs / "outputs.json").write_text(json.dumps({"corpus": digest}))
    assert run("grade", "corpus", "outputs") == 4
    assert "cases have no outputs" in capsys.readouterr().err
    answer(Path("corpus"), outputs)
    assert run("grade", "corpus", "outputs") == 0
    told = capsys.readouterr().out
    assert "model flash" in told
    assert "evidence: graded outputs" in told
    Path("attncert.toml").write_text(
        'kernel = "elsewhere"\nmodel = "single"\n[[waivers]]\nfamily = "seed_case"\n'
        'reason = "none"\nowner = "Ada"\nexpires = 2999-01-01\n'
    )
    assert run("grade", "corpus", "outputs", "--config", "attncert.toml") == 1
    captured = capsys.readouterr()
    assert "model single" in captured.out
    assert "the waiver of Ada for family seed_case is no longer needed" in captured.err
