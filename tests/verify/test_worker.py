"""The worker: whatever a kernel does to its process costs one case and is named for what it was."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from verify.case import Inputs, Tensor
from verify.errors import IntegrityError, KernelError, UnusableError, UsageError
from verify.formats import BINARY16
from verify.in_process import InProcess
from verify.worker import Answer, Worker

KERNELS = Path(__file__).with_name("misbehaving.py")
ROWS = Inputs({"x": Tensor.of(BINARY16, np.array([[0.0, 1.0, 2.0], [-1.0, 4.0, 0.5]]))})


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker(seconds=10.0, memory_bytes=24 * 2**30) as shared:
        yield shared


def call(worker: Worker, name: str) -> Answer:
    kernel = f"{KERNELS}:{name}"
    worker.load(kernel)
    return worker.run(kernel, ROWS, {}, [((2, 3), BINARY16)])


def test_worker_returns_the_bits_of_the_output(worker: Worker) -> None:
    """Softmax of two rows comes back as binary16 numbers that add up to 1."""
    output = call(worker, "stable").outputs[0]
    assert output.format is BINARY16
    assert np.abs(output.values.sum(axis=-1) - 1).max() < 2.0**-9


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raises", "ValueError: no such luck"),
        ("leaves", "ended with exit status 7"),
        ("system_exit", "SystemExit"),
        ("segfaults", "was ended by SIGSEGV"),
        ("kills_itself", "was ended by SIGKILL"),
        ("hoards", "(?i)memory|allocate"),
        ("wrong_shape", r"returned shape \(2, 2\) instead of \(2, 3\)"),
        ("wrong_type", "returned list instead of a plain tensor"),
        ("subclass", "returned Lazy instead of a plain tensor"),
    ],
)
def test_misbehaviour_is_reported_as_what_it_was(worker: Worker, name: str, message: str) -> None:
    """Exception, exit, signal, memory, shape and type each have their own sentence."""
    with pytest.raises(KernelError, match=message):
        call(worker, name)
    assert call(worker, "stable").outputs[0].shape == (2, 3), "the run goes on"


def test_hanging_kernel_is_stopped_at_the_limit() -> None:
    """The time limit holds, and the next call works in a fresh process."""
    with Worker(seconds=1.0) as worker:
        started = time.monotonic()
        with pytest.raises(KernelError, match="did not answer within 1 s"):
            call(worker, "hangs")
        assert time.monotonic() - started < 30
        assert call(worker, "stable").seconds >= 0
        assert worker.restarts == 1


def test_changed_input_is_an_integrity_failure(worker: Worker) -> None:
    """The parent sees it in the shared bytes, whatever the kernel says."""
    with pytest.raises(IntegrityError, match="changed its inputs"):
        call(worker, "changes_input")


def test_printing_does_not_disturb_the_conversation(worker: Worker) -> None:
    """Standard output of a kernel is not the channel of answers."""
    assert call(worker, "prints").outputs[0].shape == (2, 3)


def test_other_format_comes_back_as_what_it_is(worker: Worker) -> None:
    """The worker does not convert: the pipeline compares the format with the declared one."""
    assert call(worker, "wrong_format").outputs[0].format.name == "fp64"


def test_closing_ends_processes_that_a_kernel_started() -> None:
    """A forked child dies with its worker."""
    with Worker() as worker:
        call(worker, "spawns")
        group = worker.process_id
        assert group is not None
        children = _members(group)
        assert len(children) >= 2
    time.sleep(0.2)
    assert not _members(group)


def _members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(status[2]) == group and status[0] != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        ("nowhere.py:softmax", UsageError, "no such file: nowhere.py"),
        ("no_such_package.kernels:softmax", UsageError, "no module named"),
        (f"{KERNELS}:softmin", UsageError, "has no 'softmin'; it has: Lazy, "),
        (f"{KERNELS}:needs_more", UsageError, "required argument 'temperature' means nothing"),
        ("no-such-kernel", UsageError, "unknown kernel 'no-such-kernel'"),
    ],
)
def test_wrong_names_are_usage_errors_with_a_remedy(
    worker: Worker, kernel: str, error: type[Exception], message: str
) -> None:
    """File, module, function, argument and name each get their own message."""
    with pytest.raises(error, match=message):
        worker.load(kernel)


def test_module_that_fails_to_import_is_unusable(worker: Worker, tmp_path: Path) -> None:
    """The import error is quoted in one line."""
    broken = tmp_path / "broken.py"
    broken.write_text("import does_not_exist\n")
    with pytest.raises(UnusableError, match="No module named 'does_not_exist'"):
        worker.load(f"{broken}:softmax")


def test_keyword_arguments_catch_all_claims_nothing(worker: Worker) -> None:
    """**kwargs is no feature."""
    assert worker.load(f"{KERNELS}:anything")["features"] == []


def test_file_beside_the_kernel_cannot_replace_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A numpy.py in the working folder is not what the harness imports."""
    (tmp_path / "numpy.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "mine.py").write_text("import torch\ndef f(x):\n    return torch.softmax(x, -1)\n")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)
    with Worker() as worker:
        worker.load("mine:f")
        assert worker.run("mine:f", ROWS, {}, [((2, 3), BINARY16)]).outputs[0].shape == (2, 3)


def test_overhead_of_a_small_call_is_about_a_millisecond(worker: Worker) -> None:
    """Median over 50 calls; printed as a figure, asserted with room for a noisy machine."""
    call(worker, "stable")
    times = []
    for _ in range(50):
        started = time.perf_counter()
        answer = call(worker, "stable")
        times.append(time.perf_counter() - started - answer.seconds)
    assert sorted(times)[25] < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("heads", [1, 4])
def test_copies_are_a_small_part_of_a_large_case(heads: int) -> None:
    """n = 4096, d = 128: all that both sides do around the call is below a tenth of the call.

    Processor time of one thread, so that a busy machine does not decide; torch's own attention, for
    slower kernels are no test.
    """
    shape = (1, heads, 4096, 128)
    draw = np.random.default_rng(0)
    inputs = Inputs({n: Tensor.rounded(BINARY16, draw.normal(size=shape)) for n in "qkv"})
    inside: list[float] = []

    def attention(q: Any, k: Any, v: Any) -> Any:
        started = time.process_time()
        output = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        inside.append(time.process_time() - started)
        return output

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        worker, shares = InProcess({"mine": attention}), []
        worker.load("mine")
        for _ in range(3):
            started = time.process_time()
            worker.run("mine", inputs, {}, [(shape, BINARY16)])
            total = time.process_time() - started
            shares.append((total - inside[-1]) / inside[-1])
    finally:
        torch.set_num_threads(threads)
    print(f"{heads} heads: copies take {min(shares):.1%} of the call")
    assert min(shares) < 0.10


def test_private_folder_goes_with_the_worker() -> None:
    """Nothing is left on disk."""
    with Worker() as worker:
        call(worker, "stable")
        folder = worker.folder
        assert folder is not None
        assert os.listdir(folder)  # noqa: PTH208 - existence is the point
    assert not folder.exists()
