"""A program behind stdin and stdout is certified like a function; its troubles cost cases."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from verify.case import Inputs, Tensor
from verify.certificate import check_schema, recheck
from verify.certifying import Request, certify_all
from verify.errors import KernelError, UnusableError, UsageError
from verify.formats import BINARY32
from verify.judge import Verdict
from verify.worker import Answer, Worker

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("misbehaving_command.py")
NODE = shutil.which("node")
ROWS = Inputs({"x": Tensor.of(BINARY32, np.array([[0.0, 1.0, 2.0], [-1.0, 4.0, 0.5]]))})
FAMILIES = ("seed_case", "standard_normal", "near_ties")


def spec(*words: object) -> str:
    return "command:" + shlex.join(map(str, words))


def misbehaving(mode: str) -> str:
    return spec(sys.executable, PROGRAM, mode)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(seconds=5.0) as shared:
        yield shared


def call(worker: Worker, mode: str) -> Answer:
    kernel = misbehaving(mode)
    worker.load(kernel)
    return worker.run(kernel, ROWS, {}, [((2, 3), BINARY32)])


@pytest.mark.parametrize(
    "only",
    [
        ("standard_normal", "grouped_heads", "boolean_masks", "empty_rows", "asymmetric_sizes"),
        pytest.param(None, marks=pytest.mark.slow, id="all families and properties"),
    ],
)
def test_attention_in_a_program_of_its_own_is_certified(
    only: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """Masks, groups, causal corner and log-sum-exp through files; the certificate says the way."""
    kernel = spec(sys.executable, ROOT / "examples/command/attention.py")
    request = Request((kernel,), formats="fp16", profile="smoke", only=only, folder=tmp_path)
    (certificate,) = certify_all(request)
    assert certificate.verdict is Verdict.PASS, [r for r in certificate.records if r.reason]
    assert certificate.evidence is not None
    assert certificate.evidence["way"] == "command"
    assert any("inputs unchanged" in text for text in certificate.evidence["cannot_prove"])
    assert certificate.kernel["identity"]["file"] == "attention.py"
    assert len(certificate.records) > (40 if only is None else 3)
    check_schema(certificate.to_json())
    assert recheck(certificate) == []


@pytest.mark.skipif(NODE is None, reason="no node on this machine")
def test_softmax_in_javascript_is_certified() -> None:
    """Node reads bfloat16 bits, answers in bfloat16 bits, and rounds correctly."""
    kernel = spec(NODE, ROOT / "examples/command/softmax.mjs")
    (certificate,) = certify_all(Request((kernel,), formats="bf16", profile="smoke", only=FAMILIES))
    assert certificate.verdict is Verdict.PASS
    assert certificate.grade is not None
    assert certificate.grade.letter in ("CR", "F")
    assert certificate.kernel["identity"]["version"].startswith("v")


def test_unshifted_program_is_refuted_and_the_right_one_is_not() -> None:
    """The same program but for the shift."""
    for mode, verdict in (("unshifted", Verdict.FAIL), ("right", Verdict.PASS)):
        request = Request((misbehaving(mode),), formats="fp32", profile="smoke", only=FAMILIES)
        assert certify_all(request)[0].verdict is verdict


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("crashes", "the command ended with exit status 7: out of luck"),
        ("killed", "the command was ended by signal 9"),
        ("garbage", "answered 'Loading model...'; an answer is one JSON object in one line"),
        ("list", r"answered '\[1, 2\]'; an answer is one JSON object"),
        ("other-id", "the id of the request is"),
        ("refuses", "the command says: rows are too long"),
        ("no-file", "wrote no file of outputs"),
        ("broken-file", "is not a safetensors file"),
        ("other-name", "the outputs have no tensor 'output', only"),
    ],
)
def test_misbehaviour_is_an_error_of_its_case(mode: str, message: str, worker: Worker) -> None:
    """Each with its own sentence; the next call finds a fresh program."""
    for _ in range(2):
        with pytest.raises(KernelError, match=message):
            call(worker, mode)
    assert call(worker, "right").outputs[0].shape == (2, 3)


def test_hanging_program_is_ended_with_its_worker() -> None:
    """The time limit holds, no process is left, and the next call works."""
    before = _running("right")
    with Worker(seconds=1.5) as worker:
        with pytest.raises(KernelError, match=r"did not answer within 1\.5 s"):
            call(worker, "hangs")
        assert _running("hangs") == 0
        assert call(worker, "right").outputs[0].shape == (2, 3)
        assert _running("right") == before + 1
    assert _running("right") == before


def _running(mode: str) -> int:
    """How many programs of that mode run."""
    words = f"{PROGRAM}\0{mode}\0".encode()
    found = 0
    for entry in Path("/proc").iterdir():
        try:
            found += words in (entry / "cmdline").read_bytes()
        except OSError:
            continue
    return found


def test_crash_in_some_cases_leaves_the_others_judged() -> None:
    """ERROR where it ended, PASS elsewhere."""
    kernels = (misbehaving("crashes-on-long-rows"),)
    request = Request(kernels, formats="fp32", only=("standard_normal", "seed_case"))
    (certificate,) = certify_all(request)
    assert {r.verdict for r in certificate.records} == {Verdict.ERROR, Verdict.PASS}
    assert certificate.exit_status == 1


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        ("command:", UsageError, "names no program that can be run here"),
        ("command:no-such-program --fast", UsageError, "names no program"),
        ("command:sh -c 'unclosed", UsageError, "cannot be read: No closing quotation"),
        (misbehaving("silent"), UnusableError, "does not describe itself: .* exit status 3"),
        (misbehaving("boasts"), UsageError, "describes 'colour'; it can: operation"),
    ],
)
def test_program_that_cannot_be_used(
    kernel: str, error: type[Exception], message: str, worker: Worker
) -> None:
    """No program, no description, a wrong description: each with its own sentence."""
    with pytest.raises(error, match=message):
        worker.load(kernel)


def test_loading_twice_starts_one_program(worker: Worker) -> None:
    """However many formats and directions are asked for."""
    worker.load(misbehaving("right"))
    before = _running("right")
    worker.load(misbehaving("right"))
    assert _running("right") == before


def test_strides_are_not_claimed(worker: Worker) -> None:
    """A file has none, so nothing about them is proved."""
    assert "strides" in worker.load(misbehaving("right"))["declaration"]["without"]
