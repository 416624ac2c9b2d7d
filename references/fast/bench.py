"""`python -m references.fast.bench`: certified truth next to attention in plain float64.

CPU time of one process, one BLAS thread, medians of interleaved rounds; two threads by the clock,
the median of the ratios of neighbours, so that a busy machine disturbs both.
`share` is the part of our time that the matrix products and exponentials alone would take.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from references import exact, fast
from references.enclosure import ARB, Array, AttentionGradients, AttentionTruth

D = 64
Work = Callable[[], object]


@dataclass(frozen=True)
class Head:
    """One head's q, k, v, (n, D) each, exact values of a format."""

    q: Array
    k: Array
    v: Array

    def truth(self, threads: int = 1) -> AttentionTruth:
        q, k, v = (x[None, None] for x in (self.q, self.k, self.v))
        return fast.attention(q, k, v, threads=threads)

    def numpy(self) -> Array:
        """What people take as truth today: the same in plain float64."""
        s = self.q @ self.k.T
        s *= D**-0.5
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        return np.asarray(s @ self.v / s.sum(axis=1, keepdims=True))

    def backward(self, do: Array) -> tuple[Array, Array, Array]:
        """dQ, dK, dV in plain float64."""
        s = self.q @ self.k.T
        s *= D**-0.5
        s -= s.max(axis=1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=1, keepdims=True)
        ds = do @ self.v.T
        ds -= np.einsum("ij,ij->i", s, ds)[:, None]
        ds *= s
        ds *= D**-0.5
        return ds @ self.k, ds.T @ self.q, s.T @ do


def draw(name: str, n: int, factor: float = 1.0, outlier: bool = False) -> Head:
    """Standard normal numbers, rounded to the format; scores times `factor`; an outlier channel."""
    generator = np.random.default_rng(n)
    q, k, v = generator.standard_normal((3, n, D))
    q *= factor
    if outlier:
        q[:, 7] *= 30.0
        k[:, 7] *= 30.0
    return Head(*(_rounded(x, name) for x in (q, k, v)))


def _rounded(x: Array, name: str) -> Array:
    if name == "bfloat16":
        fraction, e = np.frexp(x)
        return np.asarray(np.ldexp(np.rint(fraction * 256), e - 8))
    return np.asarray(x.astype(name), np.float64)


def medians(works: list[Work], rounds: int, clock: Callable[[], float]) -> list[float]:
    """Seconds for each of the works, interleaved."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, record in zip(works, times, strict=True):
            start = clock()
            work()
            record.append(clock() - start)
    return [statistics.median(record) for record in times]


def limit(head: Head) -> float:
    """CPU seconds of the exact products and exponentials of this head, and of nothing else."""
    from references.fast.exponential import exponentials
    from references.fast.heads import BLOCK
    from references.fast.prepared import CHUNK, PANEL, QUERY_BITS, prepare_keys

    n, keys = len(head.q), min(len(head.q), PANEL * CHUNK)
    slices = 1 if prepare_keys(head.k).bits == QUERY_BITS.narrow else 2
    rows, chunks = min(BLOCK, n), keys // CHUNK
    q, g = np.ones((D, slices * rows)), np.empty((n, slices * rows))
    v, p = np.ones((chunks, D, CHUNK)), np.ones((chunks, CHUNK, 3 * rows))
    c, a = np.empty((chunks, D, 3 * rows)), np.empty((chunks, D, rows))
    x, e, ph, pl = (np.full(keys * rows, -1.0) for _ in range(4))
    size, one = p[:, :, :rows].copy(), np.zeros_like(e)

    def panel() -> None:
        np.matmul(v, p, out=c)
        np.matmul(v, size, out=a)
        exponentials(x, one, ph, pl, keys * rows)

    def products() -> None:
        np.matmul(head.k, q, out=g)

    scores, averages = (per_call(work, 200) for work in (products, panel))
    return n / rows * (scores + averages * n / keys)


def per_call(work: Work, repeat: int) -> float:
    """CPU seconds of one call among many."""
    start = time.process_time()
    for _ in range(repeat):
        work()
    return (time.process_time() - start) / repeat


@dataclass(frozen=True)
class Line:
    """A line of the table; share is of the limit, as a fraction."""

    name: str
    value: float
    must: float
    aim: float
    share: float | None = None
    more: bool = False  # larger is better
    note: str = ""

    def text(self) -> str:
        met = self.value >= self.must if self.more else self.value <= self.must
        share = "" if self.share is None else f"{self.share:4.0%}"
        verdict = "" if met else "MISSED"
        return (
            f"{self.name:34} {self.value:8.2f} {self.must:8g} {self.aim:8g} {share:>6} "
            f"{verdict:7} {self.note}"
        )


def against_numpy(name: str, n: int, must: float, aim: float, rounds: int) -> Line:
    """Our time over NumPy's, one thread."""
    from references.fast.threads import one_blas_thread

    head = draw(name, n)
    with one_blas_thread():
        head.truth()
        mine, plain = medians([head.truth, head.numpy], rounds, time.process_time)
        share = limit(head) / mine
    found = head.truth().output
    note = f"{mine * 1e3:.2f} ms against {plain * 1e3:.2f} ms; radius 2^{_worst(head):.1f} A"
    if (found.tier == ARB).any():
        note += f"; {int((found.tier == ARB).sum())} rows by Arb"
    return Line(f"{name}, n = {n}: ours / NumPy", mine / plain, must, aim, share, note=note)


def _worst(head: Head) -> float:
    truth = head.truth()
    return float(np.log2((truth.output.radius / truth.magnitude).max()))


def gradients(name: str, n: int, must: float, aim: float, rounds: int) -> Line:
    """dQ, dK, dV over the same in plain float64 (which makes the forward pass again, as we do)."""
    from references.fast.threads import one_blas_thread

    head = draw(name, n)
    do = draw(name, n + 1).v[:n]
    q, k, v, upstream = (x[None, None] for x in (head.q, head.k, head.v, do))

    def mine() -> AttentionGradients:
        return fast.attention_gradients(q, k, v, upstream)

    with one_blas_thread():
        found = mine()
        times = medians([mine, lambda: head.backward(do)], rounds, time.process_time)
    radii = (part.radius / found.magnitude[name] for name, part in found.parts().items())
    worst = float(np.log2(max(float(x.max()) for x in radii)))
    note = f"{times[0] * 1e3:.2f} ms against {times[1] * 1e3:.2f} ms; radius 2^{worst:.1f}"
    return Line(f"gradients, {name}, n = {n}", times[0] / times[1], must, aim, note=note)


def adversarial(rounds: int) -> Line:
    """The slowest of large scores and an outlier channel, over the plain case of the format."""
    from references.fast.threads import one_blas_thread

    worst, arb_rows, where = 0.0, 0, ""
    with one_blas_thread():
        for name in ("float16", "float32"):
            plain = draw(name, 1024)
            cases = {f"scores x {f:g}": draw(name, 1024, f) for f in (10.0, 100.0, 1000.0, 1e4)}
            cases["outlier channel"] = draw(name, 1024, outlier=True)
            times = medians([plain.truth, *(case.truth for case in cases.values())], rounds,
                            time.process_time)  # fmt: skip
            for (label, case), seconds in zip(cases.items(), times[1:], strict=True):
                arb_rows += int((case.truth().output.tier == ARB).sum())
                if seconds / times[0] > worst:
                    worst, where = seconds / times[0], f"{name}, {label}"
    return Line("adversarial / plain", worst, 3, 1.5, note=f"{where}; {arb_rows} rows by Arb")


def against_mpmath(rows: int) -> Line:
    """references.exact on a few rows, times 1024/rows, over ours."""
    head = draw("float16", 1024)
    q, k, v = (x[None, None] for x in (head.q, head.k, head.v))
    start = time.process_time()
    exact.attention(q, k, v, rows=[(0, 0, i) for i in range(rows)])
    slow = (time.process_time() - start) / rows * 1024
    (mine,) = medians([head.truth], 5, time.process_time)
    note = f"references.exact: {slow:.1f} s for the head, from {rows} rows"
    return Line("mpmath / ours, float16, n = 1024", slow / mine, 1000, 4000, more=True, note=note)


CALLS = 5  # one after the other in each half of a pair


def two_threads(n: int, rounds: int) -> Line:
    """Wall clock of one thread over that of two: the median over pairs of CALLS calls each, as a
    run of cases makes them."""
    from references.fast.threads import one_blas_thread

    head, gains, times = draw("float16", n), [], []
    with one_blas_thread():  # whatever number of BLAS threads the environment asks for
        head.truth(2)
        for _ in range(3 * rounds):
            one, two = (_seconds(head, threads) for threads in (1, 2))
            gains.append(one / two)
            times.append(two)
    note = f"wall clock; {statistics.median(times) * 1e3:.1f} ms with two"
    gain = statistics.median(gains)
    return Line(f"one thread / two, float16, n = {n}", gain, 1.7, 2, more=True, note=note)


def _seconds(head: Head, threads: int) -> float:
    """Of one call, the mean of CALLS."""
    start = time.perf_counter()
    for _ in range(CALLS):
        head.truth(threads)
    return (time.perf_counter() - start) / CALLS


FIRST = """
import resource, sys, time
import numpy as np
from references import fast
x = np.ones((1, 1, 8, 4))
start, before = time.perf_counter(), time.process_time()
fast.attention(x, x, x)
wall, mine = time.perf_counter() - start, time.process_time() - before
other = resource.getrusage(resource.RUSAGE_CHILDREN)
print(wall, mine, other.ru_utime + other.ru_stime)
"""


def first_use() -> Line:
    """Seconds of the first call in an installation that nothing is compiled for."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "references")
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(__file__).parents[1], copy, ignore=skip)
        command = [sys.executable, "-c", FIRST]
        path = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(
            command, cwd=folder, env=path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, check=True,
        )  # fmt: skip
    wall, mine, other = (float(word) for word in done.stdout.split())
    note = f"wall clock; CPU {mine:.1f} s here, {other:.1f} s in the other process"
    return Line("first use of an installation, s", wall, 12, 5, note=note)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each measurement")
    rounds = parser.parse_args().rounds
    reason = fast.available()
    if reason is not None:
        raise SystemExit(f"references.fast is not available: {reason}")
    print(f"{'':34} {'now':>8} {'must':>8} {'aim':>8} {'share':>6}")
    for name, must, aim in (("float16", 4, 2), ("bfloat16", 4, 2), ("float32", 7, 3.5)):
        print(against_numpy(name, 1024, must, aim, rounds).text(), flush=True)
    print(against_numpy("float16", 64, 8, 3, 40 * rounds).text(), flush=True)
    print(against_numpy("float32", 64, 8, 3, 40 * rounds).text(), flush=True)
    for name in ("float16", "float32"):
        print(gradients(name, 1024, 8, 4, rounds).text(), flush=True)
    for line in (adversarial(rounds), against_mpmath(2), first_use()):
        print(line.text(), flush=True)
    for n in (1024, 2048):
        print(two_threads(n, rounds).text(), flush=True)


if __name__ == "__main__":
    main()
