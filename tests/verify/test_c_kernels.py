"""The C interface: a library is certified, a broken one is refuted, a crash costs one case."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import verify
from verify.c_kernel import TYPES, CCall, CTensor
from verify.case import Inputs, Tensor
from verify.certificate import Certificate, check_schema, recheck
from verify.certifying import Request, certify_all
from verify.errors import IntegrityError, KernelError, UnusableError, UsageError
from verify.formats import BINARY32
from verify.judge import Verdict
from verify.worker import Answer, Worker

ROOT = Path(__file__).resolve().parents[2]
HEADER = Path(verify.__file__).parent
SOURCE = (ROOT / "examples/c/attention.c").read_text(encoding="utf-8")
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
ROWS = Inputs({"x": Tensor.of(BINARY32, np.array([[0.0, 1.0, 2.0], [-1.0, 4.0, 0.5]]))})
FAMILIES = ("standard_normal", "staircase_up", "boolean_masks", "empty_rows", "grouped_heads")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc, clang) here")


def compiled(folder: Path, name: str, source: str | Path) -> Path:
    """A shared library from C text or a file of it; every warning is an error."""
    path = source if isinstance(source, Path) else folder / f"{name}.c"
    if isinstance(source, str):
        path.write_text(source, encoding="utf-8")
    library = folder / f"{name}.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{HEADER}"]
    command = [str(COMPILER), *flags, "-o", str(library), str(path), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@pytest.fixture(scope="module")
def misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c")
    return compiled(folder, "misbehaving", Path(__file__).with_name("misbehaving.c"))


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(seconds=1.0) as shared:
        yield shared


def call(worker: Worker, library: Path, name: str) -> Answer:
    kernel = f"{library}:{name}"
    worker.load(kernel, "softmax")
    return worker.run(kernel, ROWS, {}, [((2, 3), BINARY32)])


def certified(library: Path, formats: str, families: tuple[str, ...]) -> list[Certificate]:
    return certify_all(Request((str(library),), formats=formats, profile="smoke", only=families))


def test_structures_are_those_of_the_header(misbehaving: Path) -> None:
    """Sizes and offsets, as a C compiler and as ctypes see them; and the types' numbers."""
    layout = ctypes.CDLL(str(misbehaving)).layout
    layout.restype = ctypes.c_int64
    tensor, told = CTensor, CCall
    expected = [ctypes.sizeof(tensor), tensor.shape.offset, tensor.stride.offset]
    expected += [ctypes.sizeof(told), told.x.offset, told.sinks.offset, told.scale.offset]
    expected += [told.softcap.offset, told.has_window.offset, told.window_left.offset]
    expected += [told.window_right.offset, told.output.offset, told.lse.offset]
    assert [layout(i) for i in range(len(expected))] == expected
    header = (HEADER / "attncert.h").read_text(encoding="utf-8")
    names = {"fp16": "F16", "bf16": "BF16", "fp32": "F32", "fp64": "F64", "bool": "BOOL"}
    names |= {"e4m3": "F8_E4M3", "e5m2": "F8_E5M2"}
    for name, number in TYPES.items():
        assert f"ATTNCERT_{names[name]} = {number}" in header


@pytest.mark.parametrize(
    ("formats", "only"),
    [
        ("bf16", FAMILIES),
        pytest.param("bf16,fp16,fp32", None, marks=pytest.mark.slow),
    ],
)
def test_example_is_certified_by_the_c_interface(
    formats: str, only: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """Strides, masks, groups, empty rows and the log-sum-exp included; 16 bits as raw words."""
    library = compiled(tmp_path, "attention", SOURCE)
    request = Request((str(library),), formats, profile="smoke", only=only, folder=tmp_path / "out")
    found = certify_all(request)
    assert ",".join(c.format for c in found) == formats
    for certificate in found:
        assert certificate.verdict is Verdict.PASS
        assert certificate.grade is not None
        assert certificate.grade.letter in ("F", "A", "A32")
        assert certificate.evidence is not None
        assert certificate.evidence["way"] == "C ABI"
        assert certificate.kernel["identity"]["file"] == "attention.so"
        assert len(certificate.kernel["identity"]["sha256"]) == 64
        assert only or any(r.family == "strided_inputs" for r in certificate.records)
        check_schema(certificate.to_json())
        assert recheck(certificate) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("total[c] *= rescale;", "total[c] *= 1.0f;", id="forgets to rescale"),
        pytest.param("largest + logf(sum)", "logf(sum)", id="wrong LSE", marks=pytest.mark.slow),
        pytest.param("h / (q->shape[1] / k->shape[1])", "h % k->shape[1]", id="wrong kv head"),
        pytest.param(
            "size += 0xfff + (size >> 13 & 1);", "", id="truncates", marks=pytest.mark.slow
        ),
    ],
)
def test_broken_variant_is_refuted(right: str, wrong: str, tmp_path: Path) -> None:
    """One line of the example is changed: FAIL, whatever the line."""
    assert SOURCE.count(right) == 1
    library = compiled(tmp_path, "attention", SOURCE.replace(right, wrong))
    certificate = certified(library, "fp16", FAMILIES)[0]
    assert certificate.verdict is Verdict.FAIL


@pytest.mark.slow
def test_variant_that_ignores_strides_is_refuted(tmp_path: Path) -> None:
    """It takes every tensor for a contiguous one: the families pass, the property does not."""
    right = "return a * t->stride[0] + b * t->stride[1] + c * t->stride[2] + d * t->stride[3];"
    wrong = "return ((a * t->shape[1] + b) * t->shape[2] + c) * t->shape[3] + d;"
    assert SOURCE.count(right) == 1
    library = compiled(tmp_path, "attention", SOURCE.replace(right, wrong))
    request = Request((str(library),), "fp16", profile="smoke")
    (certificate,) = certify_all(request)
    failing = {r.family for r in certificate.records if r.verdict is not Verdict.PASS}
    assert "strided_inputs" in failing
    assert "standard_normal" not in failing


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler (c++) here")
def test_header_is_valid_cpp(tmp_path: Path) -> None:
    """With every warning an error; the functions keep their C names."""
    source = tmp_path / "kernel.cpp"
    source.write_text(
        '#include "attncert.h"\nint attncert_kernel(const attncert_call *call) '
        "{ return call->causal; }\n"
    )
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
    library = tmp_path / "kernel.so"
    command = ["c++", *flags, f"-I{HEADER}", "-o", str(library), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    assert ctypes.CDLL(str(library)).attncert_kernel is not None


def test_unshifted_softmax_is_refuted_and_the_stable_one_is_not(misbehaving: Path) -> None:
    """The seed case, through the C interface, where the operation is named by the user."""
    for name, verdict in (("unshifted", Verdict.FAIL), ("stable", Verdict.PASS)):
        kernels = (f"{misbehaving}:{name}",)
        families = ("seed_case", "standard_normal")
        request = Request(kernels, formats="fp32", operation="softmax", only=families)
        assert certify_all(request)[0].verdict is verdict


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refuses", "refuses returned 42"),
        ("segfaults", "was ended by SIGSEGV"),
        ("aborts", "was ended by SIGABRT"),
        ("hangs", "did not answer within 1 s"),
        ("overruns", "overruns wrote outside its output"),
    ],
)
def test_misbehaviour_costs_the_case(
    name: str, message: str, worker: Worker, misbehaving: Path
) -> None:
    """Status, signal, hang and overrun each have their sentence, and the next call works."""
    with pytest.raises(KernelError, match=message):
        call(worker, misbehaving, name)
    output = call(worker, misbehaving, "stable").outputs[0].values
    assert np.abs(output.sum(-1) - 1).max() < 1e-6


def test_crash_in_some_cases_leaves_the_others_judged(misbehaving: Path) -> None:
    """ERROR where it crashed, PASS elsewhere, exit 1."""
    kernels = (f"{misbehaving}:segfaults_on_long_rows",)
    families = ("standard_normal", "near_ties", "seed_case")
    request = Request(kernels, formats="fp32", operation="softmax", only=families)
    certificate = certify_all(request)[0]
    verdicts = {r.verdict for r in certificate.records}
    assert verdicts == {Verdict.ERROR, Verdict.PASS}
    assert certificate.exit_status == 1


def test_unwritten_output_reads_as_nan(worker: Worker, misbehaving: Path) -> None:
    """A kernel that returns 0 and writes nothing does not inherit an earlier answer."""
    call(worker, misbehaving, "stable")
    assert np.isnan(call(worker, misbehaving, "writes_nothing").outputs[0].values).all()


def test_changed_input_is_an_integrity_failure(worker: Worker, misbehaving: Path) -> None:
    """C gets the memory that the parent compares."""
    with pytest.raises(IntegrityError, match="changed its inputs"):
        call(worker, misbehaving, "changes_input")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"operation": "attention", "speed": 9}', "describes 'speed'; it can: operation"),
        ('{"operation": "convolution"}', "unknown operation 'convolution'"),
        ('{"operation": "softmax", "features": ["dropout"]}', "unknown feature 'dropout'"),
        ('{"operation": "softmax", "formats": ["fp12"]}', "unknown format 'fp12'"),
        ('{"operation": "softmax", "declare": {"colour": 1}}', "cannot declare 'colour'"),
        ("{}", "does not say its operation; give --operation"),
        ("[]", "describes itself by list, not a JSON object"),
        ("operation: attention", "describes itself by no JSON"),
    ],
)
def test_wrong_description_is_a_usage_error(
    text: str, message: str, tmp_path: Path, worker: Worker
) -> None:
    """Each names the library, the value and what would be right."""
    quoted = text.replace('"', '\\"')
    source = '#include "attncert.h"\n'
    source += f'const char *attncert_describe(void) {{ return "{quoted}"; }}\n'
    source += "int attncert_kernel(const attncert_call *call) { return call->causal; }\n"
    library = compiled(tmp_path, "described", source)
    with pytest.raises(UsageError, match=message):
        worker.load(str(library))


def test_library_that_is_not_there_or_is_none(
    tmp_path: Path, worker: Worker, misbehaving: Path
) -> None:
    """Missing file, missing function, no library, contradiction: each with its own sentence."""
    with pytest.raises(UsageError, match="no such file"):
        worker.load(str(tmp_path / "nowhere.so"))
    with pytest.raises(UsageError, match="exports no function 'attncert_kernel'"):
        worker.load(str(misbehaving), "softmax")
    text = tmp_path / "text.so"
    text.write_text("not a library")
    with pytest.raises(UnusableError, match=r"loading .* failed"):
        worker.load(str(text))
    library = compiled(tmp_path, "attention", SOURCE)
    with pytest.raises(UsageError, match="computes attention, not softmax"):
        worker.load(str(library), "softmax")
