"""Roofline: what this machine can do, measured in the same run: a matrix product and a copy.

Measured in a process of its own that runs no kernel, with as many threads as a kernel's process
has.  Without error bound: the best of several rounds is still less than the hardware's true peak,
so the floor (`verify.bench.integrity`) is half of what follows from it.

Source      Williams, Waterman, Patterson: Roofline, Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verify.errors import UnusableError

COPIED = (2**16, 2**20, 2**24, 2**28)  # bytes: from the first cache to beyond the last
MULTIPLIED = ("fp16", "bf16", "fp32", "fp64")  # torch.mm takes no 8-bit formats
SECONDS = 0.25  # for each figure
SIDES = {"cpu": (256, 512, 1024), "cuda": (4096, 8192)}  # of the matrices; the best counts


@dataclass(frozen=True)
class Roofline:
    """Peak rates, as measured.

    products   format -> floating-point operations per second of a matrix product
    copies     bytes of the source -> bytes read and written per second of a copy
    threads    of the process that measured
    """

    products: Mapping[str, float]
    copies: Mapping[int, float]
    threads: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Roofline:
        copies = {int(size): float(rate) for size, rate in data["copies"].items()}
        return cls(dict(data["products"]), copies, int(data["threads"]))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def joined(self, other: Roofline) -> Roofline:
        """The better of two measurements in every figure."""
        products = {k: max(v, other.products.get(k, 0.0)) for k, v in self.products.items()}
        copies = {k: max(v, other.copies.get(k, 0.0)) for k, v in self.copies.items()}
        return Roofline(products, copies, self.threads)

    def peak(self, fmt: str) -> float:
        """Operations per second of a kernel that keeps to its format, or widens to binary32."""
        return max(self.products.get(fmt, 0.0), self.products.get("fp32", 0.0))

    def copy_rate(self, size: float) -> float:
        """Bytes per second of a copy that is as large, or of the largest."""
        fitting = [rate for measured, rate in sorted(self.copies.items()) if measured >= size]
        return fitting[0] if fitting else self.copies[max(self.copies)]

    def seconds(self, flops: float, size: float, fmt: str) -> float:
        """The time of the roofline: the longer of arithmetic and traffic."""
        return max(flops / self.peak(fmt), size / self.copy_rate(size))

    def least_seconds(self, flops: float, size: float) -> float:
        """The same at the best rate of any format and any cache."""
        return max(flops / max(self.products.values()), size / max(self.copies.values()))


def measure(device: str, formats: Sequence[str]) -> Roofline:
    """Measure in a fresh process; about SECONDS for each figure.

    Raises      UnusableError where that process fails.
    """
    root = Path(__file__).resolve().parent.parent.parent
    program = "import sys; sys.path.append(sys.argv[1]); from verify.bench.roofline import main; main(sys.argv[2:])"  # fmt: skip # noqa: E501
    command = [sys.executable, "-P", "-c", program, str(root), device, *dict.fromkeys(formats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UnusableError(f"the roofline of {device} could not be measured: {last}")
    return Roofline.from_json(json.loads(done.stdout))


def main(arguments: list[str]) -> None:
    """The program of that process: device, then formats; prints a Roofline as JSON."""
    import torch

    from verify.tensors_torch import DTYPES

    device, *formats = arguments
    synchronise = torch.cuda.synchronize if device != "cpu" else _nothing
    products, copies = {}, {}
    for name in dict.fromkeys([*(f for f in formats if f in MULTIPLIED), "fp32"]):
        products[name] = _product_rate(DTYPES[name], device, synchronise)
    if device != "cpu":
        torch.set_float32_matmul_precision("high")
        products["tf32"] = _product_rate(torch.float32, device, synchronise)
    for size in COPIED:
        source = torch.ones(size, dtype=torch.uint8, device=device)
        target = torch.zeros_like(source)

        def copy(source: Any = source, target: Any = target) -> None:
            target.copy_(source)

        copies[size] = 2.0 * size / _best(copy, synchronise)
    print(json.dumps(Roofline(products, copies, torch.get_num_threads()).to_json()))


def _product_rate(dtype: Any, device: str, synchronise: Callable[[], None]) -> float:
    """Operations per second of the best of several sizes: small ones escape a busy machine."""
    import torch

    rates = []
    for n in SIDES["cpu" if device == "cpu" else "cuda"]:
        a, b = (torch.ones(n, n, dtype=dtype, device=device) for _ in range(2))
        out = torch.empty_like(a)

        def product(a: Any = a, b: Any = b, out: Any = out) -> None:
            torch.mm(a, b, out=out)

        rates.append(2.0 * n**3 / _best(product, synchronise))
    return max(rates)


def _best(work: Callable[[], Any], synchronise: Callable[[], None]) -> float:
    """The least seconds of a call; short calls are timed many at a time."""
    work()
    synchronise()
    started = time.perf_counter()
    work()
    synchronise()
    once = max(time.perf_counter() - started, 1e-7)
    calls = max(1, int(2e-3 / once))
    least, end = once, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        started = time.perf_counter()
        for _ in range(calls):
            work()
        synchronise()
        least = min(least, (time.perf_counter() - started) / calls)
    return least


def _nothing() -> None:
    """A CPU needs no synchronisation."""
