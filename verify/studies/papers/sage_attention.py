"""SageAttention: cosine, relative L1 and RMSE of int8 attention on normal numbers and real ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import references
from verify.integers import Draws
from verify.studies.document import FALSE, HOLDS, LIMITED, Claim, Judgement, Part, Table
from verify.studies.real import LAYERS
from verify.studies.running import Array, array, rmse, stored

ORDER = 2024.8
SOURCE = (
    "Zhang et al., SageAttention: Accurate 8-bit Attention for Plug-and-Play Inference "
    "Acceleration, 2024, arXiv 2410.02367"
)
# Table 9, normal Q, K and V: cosine, relative L1, RMSE. T and B: one scale per token or per block
# of Q and K, P V in fp16; v: P and V in int8 as well. The RMSE of vT and vB is left out: what we
# have of it does not fit the relative L1 beside it, and could not be confirmed.
PAPER: Mapping[str, tuple[float, float, float | None]] = {
    "T": (1.0, 0.019, 6.8e-4),
    "B": (1.0, 0.021, 7.3e-4),
    "vT": (0.999, 0.064, None),
    "vB": (0.989, 0.138, None),
}
BLOCKS = {"T": 1, "B": 128, "vT": 1, "vB": 128}


@dataclass(frozen=True)
class Metrics:
    """The paper's measures: sum OO' / (|O| |O'|); sum |O - O'| / sum |O|; RMSE."""

    cosine: float
    relative: float
    rmse: float


def metrics(values: Array, truth: Array) -> Metrics:
    """All three of an output against its truth."""
    norm = float(np.sqrt(np.sum(values**2) * np.sum(truth**2)))
    return Metrics(
        float(np.sum(values * truth)) / norm if norm > 0 else 0.0,
        float(np.sum(np.abs(values - truth)) / np.sum(np.abs(truth))),
        rmse(values, truth),
    )


def variant(name: str, q: Array, k: Array, v: Array) -> Array:
    """One variant of the simulation on fp16 inputs."""
    import torch

    from verify.studies.simulations import sage_attention

    a, b, c = (torch.from_numpy(x).float() for x in (q, k, v))
    block = min(BLOCKS[name], q.shape[-2])
    return array(sage_attention(a, b, c, block, int8_pv=name.startswith("v")))


def normal(n_q: int, n: int, d: int) -> dict[str, tuple[Metrics, Metrics]]:
    """(stored, unrounded) of each variant on normal numbers."""
    draws = Draws("study sage-attention")
    raw = [draws.normal((1, 1, rows, d)) for rows in (n_q, n, n)]
    own = [stored(x, "fp16") for x in raw]
    before, truth = (references.attention(*x).output.hi for x in (raw, own))
    found = {}
    for name in PAPER:
        out = variant(name, *own)
        found[name] = metrics(out, truth), metrics(out, before)
    return found


def real(layers: int) -> dict[str, tuple[float, float]]:
    """Average and worst cosine over layers and heads of a trained model (the committed extract)."""
    from verify.studies.real import layer

    cosines: dict[str, list[float]] = {name: [] for name in PAPER}
    for number in range(layers):
        q, k, v = (stored(x, "fp16") for x in layer(number))
        truth = references.attention(q, k, v).output.hi
        for name, found in cosines.items():
            out = variant(name, q, k, v)
            found += [metrics(out[:, h], truth[:, h]).cosine for h in range(q.shape[1])]
    return {name: (float(np.mean(c)), min(c)) for name, c in cosines.items()}


def judge(found: Mapping[str, tuple[Metrics, Metrics]]) -> Judgement:
    """Are the relative errors those of table 9?"""
    off = [n for n, (m, _) in found.items() if not 0.67 <= m.relative / PAPER[n][1] <= 1.5]
    figure = "simulation, relative L1: " + ", ".join(
        f"{name} {m.relative:.2g} (paper {PAPER[name][1]:g})" for name, (m, _) in found.items()
    )
    sizes = [m.relative for m, _ in found.values()]
    larger = [n for n, (m, _) in found.items() if m.relative > 1.5 * PAPER[n][1]]
    if larger or sizes != sorted(sizes):
        return Judgement(FALSE, figure)
    if not off:
        return Judgement(HOLDS, figure)
    limits = (
        f"the order is reproduced, the sizes are not: ours are smaller in {', '.join(off)}. The "
        "table states neither n, d nor the spread of the scores, and wider scores mean larger "
        "errors"
    )
    return Judgement(LIMITED, figure, limits)


def judge_average(found: Mapping[str, tuple[float, float]]) -> Judgement:
    """Does the average hide the worst head?"""
    average, worst = found["vB"]
    figure = (
        f"a trained model's heads (MiniLM), P V in int8: cosine {average:.5f} on average, "
        f"{worst:.5f} in the worst head; distance from 1 {(1 - worst) / (1 - average):.1f} times "
        "the average"
    )
    if (1 - worst) < 2 * (1 - average):
        return Judgement(FALSE, figure)
    limits = "far milder here than in the paper (worst layer 56 %): other models, other lengths"
    return Judgement(LIMITED if worst > 0.9 else HOLDS, figure, limits if worst > 0.9 else "")


def part(*, small: bool = False) -> Part:
    """Measure, judge, and lay out."""
    n_q, n, d = (16, 256, 64) if small else (512, 2048, 64)
    found, heads = normal(n_q, n, d), real(1 if small else LAYERS)
    rows = tuple(
        (
            name,
            f"{PAPER[name][0]:.3g} / {PAPER[name][1]:g} / {_or_dash(PAPER[name][2])}",
            _shown(own),
            _shown(unrounded),
            f"{heads[name][0]:.5f} / {heads[name][1]:.5f}",
        )
        for name, (own, unrounded) in found.items()
    )
    columns = (
        "variant (simulation)", "paper: cosine / relative L1 / RMSE", "ours, stored",
        "ours, unrounded", "real heads: mean / worst cosine",
    )  # fmt: skip
    note = (
        f"n = {n}, d = {d}, {n_q} queries; n is inferred from the paper's ratio of RMSE to "
        "relative L1 (not stated). T: one scale per token of Q and K; B: one per block of 128; "
        "v: P and V in int8 as well. RMSE of vT and vB: no confirmed figure. Tables 2 to 5 "
        "are averages over layers of Llama2-7B and Unidiffuser, which are not here. Real heads: 32 "
        "tokens, 4 heads of each layer."
    )
    return Part(
        name="sage_attention",
        title="SageAttention: attention in int8",
        text=(
            "Q and K (after the mean key is subtracted) are rounded to 255 levels; in the "
            "variants with v, P and V too. An average cosine says little: errors sit in few heads."
        ),
        claims=(
            Claim(
                "On normal numbers, int8 Q and K give a relative L1 error of 0.019 (per token) to "
                "0.021 (per block); int8 P and V as well, 0.064 and 0.138.",
                f"{SOURCE}, table 9",
                judge(found),
            ),
            Claim(
                "An average cosine above 99.7 % goes with layers at 56 %: averages hide the worst.",
                f"{SOURCE}, tables 2 and 3",
                judge_average(heads),
            ),
        ),
        tables=(Table("SageAttention, table 9", columns, rows, note),),
    )


def _or_dash(value: float | None) -> str:
    return "—" if value is None else f"{value:g}"


def _shown(m: Metrics) -> str:
    return f"{m.cosine:.4g} / {m.relative:.2g} / {m.rmse:.2g}"
