"""Synthetic certificates: plausible numbers made from a counter, no kernel and no oracle."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal, localcontext
from functools import cache
from typing import Any

from verify.certificate import Certificate, Finding, Grade, Record, Skipped, exit_status, overall
from verify.formats import FORMATS
from verify.judge import Verdict

LEVELS = (
    *(-3e38, -1e5, -1e4, -1e3, -104.0, -103.9, -87.4, -87.3, -17.4, -17.3, -9.8, -9.6),
    *(11.0, 11.1, 88.7, 88.8, 1e3, 1e4, 65504.0, 1e5, 3e38),
)
FAMILIES = ("standard_normal", "near_ties", "big_scores", "needle", "block_edges", "late_jump")
STAGES = ("scores", "row sum", "P and PV", "output rounding")
SEED_SCORES = (1000, 1001, 999)


@cache
def noise(*key: object) -> float:
    """A number in [0, 1) that depends on the key alone."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2.0**48


def finding(
    value: float, truth: float | Decimal, ulps: float | None, bound_ulps: float, fmt: str
) -> Finding:
    """An element whose error is `ulps` under a bound of `bound_ulps`."""
    exact = float(truth)
    ulp = float(FORMATS[fmt].ulp(exact)) if math.isfinite(exact) else 1.0  # type: ignore[arg-type]
    lost = not math.isfinite(value)
    return Finding(
        output="output",
        index=(0, 0),
        value=repr(value),
        value_bits="0x7e00" if lost else "0x33d5",
        value_hex=value.hex(),
        truth=str(truth),
        truth_hi=exact.hex(),
        truth_lo=(0.0).hex(),
        truth_radius=1e-33,
        error=None if lost or ulps is None else ulps * ulp,
        bound=bound_ulps * ulp,
        ulps=None if lost else ulps,
        stage="P and PV",
    )


def record(
    family: str = "standard_normal",
    name: str = "64x64-d64",
    *,
    fmt: str = "fp16",
    verdict: Verdict = Verdict.PASS,
    tightness: float = 0.4,
    bound_ulps: float = 2.0,
    value: float = 0.25,
    check: str = "bound",
    reason: str = "",
    notes: dict[str, float] | None = None,
    truth: float | Decimal = 0.2501,
    **changes: Any,
) -> Record:
    """One record; everything that is not said follows from its tightness."""
    lost = not math.isfinite(value)
    ulps = tightness * bound_ulps
    shares = [0.1 + noise(family, stage) for stage in STAGES]
    histogram = [int(100 * noise(family, name, i) * math.exp(-abs(i - 7.5))) for i in range(16)]
    made = Record(
        case=f"{family}/{fmt}/{name}",
        family=family,
        verdict=verdict,
        reason=reason,
        check="finite" if lost and check == "bound" else check,
        operation={"name": "attention"},
        notes=notes or {"n_q": 64.0, "n_k": 64.0, "d": 64.0},
        shape={"q": (1, 1, 64, 64)},
        digest=hashlib.sha256(f"{family}{name}".encode()).hexdigest(),
        tightness=0.0 if lost else tightness,
        median_tightness=None if lost else tightness / 4,
        counts={
            "elements": 64,
            "judged": 0 if lost else 64,
            "failed": int(verdict is Verdict.FAIL),
        },
        metrics={
            "max_ulp": None if lost else ulps,
            "mean_ulp": noise(family, name) / 50,
            "z": 4 * noise(name) - 2,
            "histogram": histogram,
            "max_scaled": ulps / 3,
            "over_rounding": None if lost else 1.0 + tightness,
        },
        grades={"A": tightness * 2.2, "B": tightness, "C": tightness * 0.4},
        stages={s: share / sum(shares) for s, share in zip(STAGES, shares, strict=True)},
        finding=finding(value, truth, ulps, bound_ulps, fmt),
        tier="fast",
        seconds=0.01,
    )
    return replace(made, **changes)


def ladder(fmt: str, naive: bool, key: str) -> Iterator[Record]:
    """The score ladder; a naive kernel gives NaN where its exponential overflows."""
    limit = 11.09 if fmt == "fp16" else 88.72
    for level in LEVELS:
        lost = naive and (level > limit or level < -103.97)
        yield record(
            "score_ladder",
            f"{level:g}-16x16-d64",
            fmt=fmt,
            verdict=Verdict.FAIL if lost else Verdict.PASS,
            value=math.nan if lost else 0.25,
            tightness=0.2 + 0.6 * noise(key, level),
            bound_ulps=1.5 + noise(level),
            notes={"level": level, "n_k": 16.0, "d": 64.0},
            reason="output: not finite where the truth is finite" if lost else "",
        )


def seed_record(fmt: str, naive: bool, index: int) -> Record:
    """The seed case, of which a certificate keeps one of the three outputs."""
    with localcontext() as context:
        context.prec = 30
        powers = [Decimal(s - 1001).exp() for s in SEED_SCORES]
        truth = +(powers[index] / sum(powers))
    value = math.nan if naive else float(FORMATS[fmt].round(float(truth)))  # type: ignore[arg-type]
    made = record(
        "seed_case",
        "positive-1x3",
        fmt=fmt,
        value=value,
        truth=truth,
        verdict=Verdict.FAIL if naive else Verdict.PASS,
        notes={"rows": 1.0, "n": 3.0, "level": 1001.0},
    )
    assert made.finding is not None
    found = replace(made.finding, index=(0, index))
    return replace(made, shape={"x": (1, 3)}, finding=found)


def certificate(
    name: str = "textbook-attention-online",
    fmt: str = "fp16",
    *,
    operation: str = "attention",
    naive: bool = False,
    records: tuple[Record, ...] | None = None,
    skipped: tuple[Skipped, ...] = (Skipped("masks/fp16/a", "masks", "does not claim mask"),),
    missing: int = 0,
    **changes: Any,
) -> Certificate:
    """One certificate whose verdict and exit status follow from its records."""
    if records is None:
        records = tuple(plausible(name, fmt, naive))
    verdict = overall(records, len(records) + len(skipped) + missing, len(skipped))
    made = Certificate(
        kernel={
            "name": name,
            "operation": operation,
            "features": ["causal", "scale"],
            "declaration": {"deterministic": True},
            "identity": {"file": "verify/kernels/textbook.py", "sha256": "ab" * 32},
            "summary": "exp(s) / sum exp(s), no shift" if naive else "online softmax in tiles",
        },
        format=fmt,
        device="cpu",
        profile="standard",
        seed=0,
        model={"name": "flash", "meaning": "binary32 scores and accumulators", "variants": [{}]},
        verdict=verdict,
        exit_status=exit_status(verdict, records),
        grade=Grade("U", "refutes every contract", "seed_case/fp16/positive-1x3")
        if naive
        else Grade("B", "binary32 accumulators, P rounded to the input format", records[0].case)
        if records
        else None,
        planned=len(records) + len(skipped) + missing,
        records=records,
        skipped=skipped,
        environment={
            "attncert": "0.1.0",
            "python": "3.11.2",
            "machine": "x86_64",
            "worker": {"torch": "2.13.0", "threads": 1},
        },
        oracle={"tier": "fast", "audited_rows": 41},
        created="2026-01-01T00:00:00+00:00",
        seconds=3.5,
        command=f"attncert certify {name} --dtype {fmt}",
        expected="fail" if naive else "pass",
    )
    return replace(made, **changes)


def plausible(name: str, fmt: str, naive: bool) -> Iterator[Record]:
    """The records of an ordinary campaign."""
    for family in FAMILIES:
        for size in (16, 64, 257, 1024):
            yield record(
                family,
                f"{size}x{size}-d64",
                fmt=fmt,
                tightness=0.15 + 0.7 * noise(name, family, size),
                bound_ulps=1.5 + math.log2(size) / 8,
                notes={"n_q": float(size), "n_k": float(size), "d": 64.0},
            )
    for d in (32, 128):
        notes = {"n_q": 64.0, "n_k": 64.0, "d": float(d)}
        yield record("standard_normal", f"64x64-d{d}", fmt=fmt, notes=notes, tightness=d / 200)
    yield from ladder(fmt, naive, name)
    yield seed_record(fmt, naive, int(3 * noise(name, fmt)))
    yield record("single_key", "1x1", fmt=fmt, check="property:one_key", tightness=0.0)


def several() -> list[Certificate]:
    """A set that shows every verdict: right, refuted as it must be, refuted, undecided, vacuous."""
    made = []
    for fmt in ("fp16", "bf16", "fp32"):
        made += [
            certificate("textbook-softmax-naive", fmt, operation="softmax", naive=True),
            certificate("textbook-softmax-shifted", fmt, operation="softmax"),
            certificate("torch-softmax", fmt, operation="softmax"),
            certificate("textbook-attention-naive", fmt, naive=True),
            certificate("textbook-attention-online", fmt),
            certificate("torch-sdpa-flash", fmt),
        ]
    wrong = record("late_jump", "64x64-d64", fmt="bf16", verdict=Verdict.FAIL, tightness=38.0)
    rest = tuple(plausible("mine", "bf16", False))
    made.append(certificate("mypackage:attention", "bf16", records=(*rest, wrong)))
    made.append(certificate("torch-sdpa-efficient", "fp16", missing=3))
    loose = record(
        "near_ties",
        fmt="fp16",
        verdict=Verdict.OUT_OF_SCOPE,
        reason="vacuous: the bound exceeds the signal",
        counts={"elements": 64, "vacuous": 64, "judged": 0},
    )
    made.append(certificate("half-everything", "fp16", records=(loose,), grade=None))
    return made


def many(kernels: int, cases: int) -> list[Certificate]:
    """`kernels` certificates of `cases` records each, over 55 families."""
    made = []
    for k in range(kernels):
        fmt = ("fp16", "bf16", "fp32")[k % 3]
        fixed = [*ladder(fmt, k % 10 == 0, str(k)), seed_record(fmt, k % 10 == 0, k % 3)]
        filler = [
            record(
                f"a_family_of_cases_{i % 53:02d}",
                f"{2 ** (4 + i % 7)}x64-d64-{i}",
                fmt=fmt,
                tightness=noise(k, i),
                notes={"n_q": 64.0, "n_k": float(2 ** (4 + i % 7)), "d": float(32 << (i % 3))},
            )
            for i in range(cases - len(fixed))
        ]
        operation = "softmax" if k % 6 < 2 else "attention"
        name = f"some-library-{operation}-kernel-{k // 3:02d}"
        records = tuple(fixed + filler)
        made.append(certificate(name, fmt, operation=operation, naive=k % 10 == 0, records=records))
    return made
