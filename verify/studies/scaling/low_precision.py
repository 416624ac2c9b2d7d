"""Claim: fp16 loses small gradients that bf16 and fp32 keep."""

from __future__ import annotations

from verify.studies.document import FALSE, HOLDS, LIMITED, Chart, Claim, Judgement, Part, Table
from verify.studies.scaling._grid import FORMATS, Grid
from verify.studies.scaling._lines import formats

ORDER = 40
SOURCE = (
    "Micikevicius et al., Mixed Precision Training, 2018, arXiv 1710.03740 (on loss scaling: "
    "gradients that become zero in fp16)"
)


def judge(grid: Grid) -> Judgement:
    """Are more entries lost in fp16 than in bf16, while bf16 has the larger errors?"""
    d = grid.widest
    plain, scaled = grid.points[d, 1, False].formats, grid.points[d, 1, True].formats
    figure = (
        f"d = {d}, growth 1: share of the scores' gradient that is 0 though the truth is not, "
        "without the scale (with it): "
        + ", ".join(
            f"{fmt} {100 * plain[fmt].zeros:.2g} % ({100 * scaled[fmt].zeros:.2g} %)"
            for fmt in FORMATS
        )
    )
    if plain["fp16"].zeros < 0.1 or plain["fp16"].zeros < 2 * plain["bf16"].zeros:
        return Judgement(FALSE, figure)
    if plain["bf16"].errors["scores"] < plain["fp16"].errors["scores"]:
        return Judgement(HOLDS, figure)
    limits = (
        "zeros are not the larger error: what is lost is small, and over all entries fp16 errs by "
        f"{plain['fp16'].errors['scores']:.2g} of the norm, bf16, which keeps more of them, by "
        f"{plain['bf16'].errors['scores']:.2g}"
    )
    return Judgement(LIMITED, figure, limits)


def part(grid: Grid, *, small: bool = False) -> Part:
    """Zeros and errors of each format."""
    middle = grid.middle
    rows = tuple(
        (
            f"d = {d}, growth 1, {'with' if scaled else 'without'}, {fmt}",
            100 * found.zeros,
            100 * found.small_zeros,
            found.errors["scores"],
            found.errors["q"],
            found.errors["k"],
        )
        for d in grid.shape.dimensions
        for scaled in (True, False)
        for fmt, found in grid.points[d, 1, scaled].formats.items()
    )
    columns = (
        "point and format", "zeros (%)", "zeros (%), dO / 1024", "error of dS", "error of dQ",
        "error of dK",
    )  # fmt: skip
    return Part(
        name="low_precision",
        title="What is left of the gradients in 16 bits?",
        text=(
            "The same attention in PyTorch, every tensor stored in the format, gradients by "
            "autograd. An entry underflows when it is nearer to 0 than to the smallest number of "
            "the format: 6e-8 in fp16, 9e-41 in bf16. Errors are Frobenius norms relative to the "
            "truth."
        ),
        claims=(Claim("In fp16, small gradients become zero.", SOURCE, judge(grid)),),
        charts=(
            Chart(
                "Gradient entries that underflow",
                f"Share of the entries of the scores' gradient that are 0 though the truth is not; "
                f"d = {middle}.",
                "growth of the queries",
                "share of entries",
                formats(grid, lambda f: f.zeros, middle),
                x_base=2,
            ),
            Chart(
                "Relative error of the scores' gradient",
                f"|kernel - truth| / |truth| over all entries, d = {middle}. At 1 nothing is "
                "right.",
                "growth of the queries",
                "relative error",
                formats(grid, lambda f: f.errors["scores"], middle),
                x_base=2,
                y_base=10,
                levels=((1.0, "nothing is right"),),
            ),
        ),
        tables=(
            Table(
                "Gradients in each format",
                columns,
                rows,
                "dO / 1024: the gradient that arrives is smaller by 2^-10, as under a mean over "
                "1024 tokens without loss scaling.",
            ),
        ),
    )
