"""Qiu and Yao: equal scores and values of one sign make the roundings of P V point one way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import references
from verify.formats import BFLOAT16
from verify.integers import Draws
from verify.studies.document import FALSE, HOLDS, LIMITED, Claim, Judgement, Part, Table
from verify.studies.running import Array, array, attention, rmse, stored, tensor

ORDER = 2025.8
SOURCE = (
    "Qiu, Yao, Why Low-Precision Transformer Training Fails: An Analysis on Flash Attention, "
    "2025, arXiv 2510.04212, and its code, ucker/why-low-precision-training-fails"
)
KERNELS = (
    "state in bf16 (simulation)",
    "state in bf16, their remedy (simulation)",
    "state in binary32",
    "correct rounding of the truth",
)
TOP = 4  # the largest score; positive, where the remedy doubles it
BELOW = 12  # how far the other scores lie below: their share is far under one ulp


@dataclass(frozen=True)
class Bias:
    """Signed mean of the error in ulp of bf16, its z-score over rows, RMSE in both conventions."""

    mean: float
    z: float
    rmse: float
    unrounded: float


def draw(ties: int, one_sign: bool, count: int, n: int, d_v: int) -> tuple[Array, Array, Array]:
    """Scores TOP on `ties` keys, about TOP - BELOW on the rest, by exact q and k; v in [-2, -1), or
    the same with either sign. Every head is a row of its own."""
    draws = Draws(f"study biased-rounding {ties} {one_sign}")
    q = np.ones((1, count, 1, 1))
    k = TOP - BELOW - draws.integers(0, 16, (1, count, n, 1)) / 4.0
    for head in range(count):
        k[0, head, draws.integers(0, n // ties, (ties,)) + np.arange(ties) * (n // ties), 0] = TOP
    v = np.asarray(-1 - draws.integers(0, 2**23, (1, count, n, d_v)) * 2.0**-23, np.float64)
    return q, np.asarray(k, np.float64), v if one_sign else v * draws.signs(v.shape)


def outputs(q: Array, k: Array, v: Array, truth: Array) -> dict[str, Array]:
    """What each kernel returns, on inputs stored in bf16, in one tile."""
    from verify.studies.simulations import LowState, ShiftedTies

    n = k.shape[-2]
    operands = [tensor(x, "bf16") for x in (q, k, v)]
    low = LowState(block=n, scores="bf16").kernel()
    remedy = ShiftedTies(block=n, scores="bf16").kernel()
    made = (
        array(low(*operands, scale=1.0)),
        array(remedy(*operands, scale=1.0)),
        attention(f"textbook-attention-online[block={n}]", q, k, v, "bf16", scale=1.0),
        BFLOAT16.round(truth),
    )
    return dict(zip(KERNELS, made, strict=True))


def bias(values: Array, truth: Array, before: Array) -> Bias:
    """The signed error; rows are the sample, since elements of a row share their weights."""
    ulps = (values - truth) / BFLOAT16.ulp(truth)
    means = ulps.mean(axis=(-2, -1)).ravel()
    spread = float(means.std(ddof=1))
    mean = float(means.mean())
    z = mean * np.sqrt(means.size) / spread if spread > 0 else 0.0
    return Bias(mean, float(z), rmse(values, truth), rmse(values, before))


def measure(count: int, n: int, d_v: int) -> dict[tuple[int, bool], dict[str, Bias]]:
    """By number of ties and sign."""
    found = {}
    for ties, one_sign in ((1, True), (2, True), (3, True), (2, False)):
        q, k, raw = draw(ties, one_sign, count, n, d_v)
        v = stored(raw, "bf16")
        truth = references.attention(q, k, v, scale=1.0).output.hi
        before = references.attention(q, k, raw, scale=1.0).output.hi
        made = outputs(q, k, v, truth)
        found[ties, one_sign] = {name: bias(o, truth, before) for name, o in made.items()}
    return found


def judge(found: Mapping[tuple[int, bool], Mapping[str, Bias]]) -> Judgement:
    """Is there a bias with ties and one sign, and only there?"""
    tied, mixed = found[2, True], found[2, False]
    low, right, none = tied[KERNELS[0]], tied[KERNELS[3]], mixed[KERNELS[0]]
    figure = (
        f"two equal maxima, negative V: mean error {low.mean:.2g} ulp of bf16 (z = {low.z:.3g}); "
        f"V of both signs: {none.mean:.2g} ulp; binary32 state {tied[KERNELS[2]].mean:.2g}; "
        f"correctly rounded truth {right.mean:.2g}"
    )
    if abs(low.mean) < 0.1 or abs(low.z) < 12 or abs(none.mean) > abs(low.mean) / 3:
        return Judgement(FALSE, figure)
    if abs(tied[KERNELS[2]].mean) > abs(low.mean) / 3:
        return Judgement(HOLDS, figure)
    limits = (
        "where the output before normalisation is kept in bf16, as in the authors' code; kept in "
        "binary32, its error has no such mean"
    )
    return Judgement(LIMITED, figure, limits)


def judge_remedy(found: Mapping[tuple[int, bool], Mapping[str, Bias]]) -> Judgement:
    """Does a larger shift remove the bias, and at what cost?"""
    before, after = (found[2, True][name] for name in KERNELS[:2])
    figure = (
        f"mean error {before.mean:.2g} ulp before, {after.mean:.2g} ulp with the remedy; RMSE "
        f"{before.rmse:.2g} and {after.rmse:.2g}"
    )
    if abs(after.mean) > abs(before.mean) / 2:
        return Judgement(FALSE, figure)
    if after.rmse <= 1.1 * before.rmse:
        return Judgement(HOLDS, figure)
    return Judgement(LIMITED, figure, "the bias is exchanged for a larger random error")


def _inputs(ties: int, one_sign: bool) -> str:
    values = "negative V" if one_sign else "V of both signs"
    return f"{ties} equal {'maximum' if ties == 1 else 'maxima'}, {values}"


def part(*, small: bool = False) -> Part:
    """Measure, judge, and lay out."""
    count, n, d_v = (64, 16, 16) if small else (512, 64, 32)
    found = measure(count, n, d_v)
    rows = tuple(
        (
            f"{_inputs(ties, one_sign)}: {name}",
            b.mean,
            b.z,
            b.rmse,
            b.unrounded,
        )
        for (ties, one_sign), kernels in found.items()
        for name, b in kernels.items()
    )
    columns = ("inputs and kernel", "mean error (ulp)", "z", "RMSE, stored", "RMSE, unrounded")
    note = (
        f"{count} rows of {n} keys, d_v = {d_v}, one tile. The paper tells of training runs, "
        "which are not here, and we have no figure of its own for a single call."
    )
    return Part(
        name="biased_rounding",
        title="Roundings that all point one way",
        text=(
            "Where several keys share the largest score, P is exactly 1 more than once. The sum of "
            "their values needs one bit more than bf16 has; the other keys, tiny and of the same "
            "sign, push every such tie away from zero. Errors then add up instead of cancelling."
        ),
        claims=(
            Claim(
                "Equal row maxima and values of one sign make the rounding errors of P V biased.",
                SOURCE,
                judge(found),
            ),
            Claim(
                "Subtracting more than the maximum where it is shared removes the bias.",
                SOURCE,
                judge_remedy(found),
            ),
        ),
        tables=(Table("Signed errors in bf16", columns, rows, note),),
    )
