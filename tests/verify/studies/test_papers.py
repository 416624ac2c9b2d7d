"""The papers study: complete, and each verdict flips where its kernel or figure is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verify import studies
from verify.formats import BINARY16
from verify.studies.document import FALSE, HOLDS, LIMITED, NOT_MEASURED, Document, read
from verify.studies.papers import (
    biased_rounding,
    blanchard_higham,
    flash_attention_3,
    flash_attention_4,
    golden_2024,
    modules,
    sage_attention,
)
from verify.studies.running import Array, rows


@pytest.fixture(scope="module")
def document() -> Document:
    return studies.run("papers", small=True)


def test_papers_every_module_is_a_part_with_claims_and_sourced_figures(document: Document) -> None:
    """Each paper has a part, each part a claim with source, figure and a table."""
    assert [p.name for p in document.parts] == modules()
    for part in document.parts:
        assert part.claims
        assert part.tables
        for claim in part.claims:
            assert "arXiv" in claim.source or "doi" in claim.source
            figure, verdict = claim.judgement.figure, claim.judgement.verdict
            assert any(c.isdigit() for c in figure) == (verdict != NOT_MEASURED)


def test_papers_files_are_complete_and_read_back(document: Document, tmp_path: Path) -> None:
    """JSON, Markdown and page are written; the JSON gives the same study again."""
    paths = studies.write(document, tmp_path)
    assert [p.name for p in paths] == ["papers.study.json", "papers.md", "papers.html"]
    again = read(paths[0])
    assert again.claims == document.claims
    assert again.to_json() == document.to_json()
    page, text = paths[2].read_text(), paths[1].read_text()
    for claim in document.claims:
        assert claim.judgement.verdict in page
        assert claim.judgement.verdict in text
    charts = sum(len(p.charts) for p in document.parts)
    assert page.count("<svg") == charts > 0
    assert page.count("data-series") > charts
    assert "too small to say anything" in page


M3 = flash_attention_3.Measured(
    stored={**flash_attention_3.PAPER, "FlashAttention-2 fp16": 4.2e-5},
    unrounded=flash_attention_3.PAPER,
    seeds={},
    rounding=4.2e-5,
    inputs=1.85e-4,
)


def test_flash_attention_3_needs_figures_near_the_paper_and_in_its_order() -> None:
    """The paper's own figures give a pass; a worse flash kernel, or no gain in FP8, does not."""
    assert flash_attention_3.judge_half(M3).verdict == LIMITED
    found = flash_attention_3.judge_eight(M3)
    assert found.verdict == LIMITED
    assert "block quantisation adds nothing" in found.limits
    helps = dict(M3.unrounded) | {"FP8 without block quantisation": 1.3e-2}
    assert flash_attention_3.judge_eight(replace(M3, unrounded=helps)).verdict == HOLDS
    exact = replace(M3, stored=dict(M3.stored) | {"FlashAttention-3 FP8": 1e-3}, unrounded=helps)
    assert "quantisation of the inputs" in flash_attention_3.judge_eight(exact).limits
    worse = dict(M3.unrounded) | {"FlashAttention-2 fp16": 4e-4}
    assert flash_attention_3.judge_half(replace(M3, unrounded=worse)).verdict == FALSE
    alone = replace(M3, stored=dict(M3.stored) | {"FlashAttention-2 fp16": 1.9e-4})
    assert flash_attention_3.judge_half(alone).verdict == HOLDS
    same = dict(M3.unrounded) | {"baseline FP8": 9.1e-3}
    assert flash_attention_3.judge_eight(replace(M3, unrounded=same)).verdict == FALSE
    off = dict(M3.unrounded) | {"FP8 without block quantisation": 5e-2}
    assert flash_attention_3.judge_eight(replace(M3, unrounded=off)).verdict == LIMITED


def test_flash_attention_3_block_scales_matter_and_rotation_keeps_scores() -> None:
    """The simulation's parts do what they are named for."""
    import torch

    from verify.integers import Draws
    from verify.studies.simulations import E4M3_LARGEST, largest, rotation

    turn = rotation(64, Draws("turn"))
    assert torch.allclose(turn @ turn.T, torch.eye(64), atol=1e-6)
    x = torch.ones(1, 1, 8, 2)
    x[..., 4:, :] = 100
    scale = largest(x, E4M3_LARGEST, 4) * E4M3_LARGEST
    assert scale.flatten().tolist() == pytest.approx([1.0] * 4 + [100.0] * 4)
    assert float(largest(x, E4M3_LARGEST) * E4M3_LARGEST) == pytest.approx(100)


def test_golden_verdict_follows_the_factor() -> None:
    """Ten times in both kernels holds, in one with limits, in none not at all."""

    def table(low: float, real: float) -> golden_2024.Table_:
        made = {}
        for n in (64, 256):
            row = {}
            for fmt in golden_2024.FORMATS:
                for kind, error in zip(golden_2024.KINDS, (1.0, low, real), strict=True):
                    for tile in (16, 64):
                        row[fmt, kind, tile] = golden_2024.Deviation(error, error, error)
            made[n] = row
        return made

    tiles = (16, 64)
    assert golden_2024.judge_ten(table(10, 10), tiles).verdict == HOLDS
    assert golden_2024.judge_ten(table(10, 0.5), tiles).verdict == LIMITED
    found = golden_2024.judge_ten(table(3, 0.5), tiles)
    assert found.verdict == FALSE
    assert "bf16 between tiles" in found.limits
    assert golden_2024.judge_trends(table(3, 0.5), tiles).verdict == FALSE  # the same everywhere


def test_flash_attention_4_a_wrong_coefficient_does_not_reproduce() -> None:
    """With the published coefficients the table is met, with a changed one it is not."""
    found = flash_attention_4.measure(2**14)
    assert flash_attention_4.judge(found).verdict == LIMITED
    x = np.asarray(np.arange(2**14) * 2.0**-14, np.float64)
    c = flash_attention_4.COEFFICIENTS[3]
    wrong = flash_attention_4.polynomial(x, (c[0], c[1] + 2e-4, *c[2:]))
    broken = found | {"polynomial of degree 3": flash_attention_4.errors(wrong, x)}
    assert flash_attention_4.judge(broken).verdict == FALSE


def test_sage_attention_verdict_needs_the_order_and_the_size() -> None:
    """The paper's figures hold; smaller ones with limits; a wrong order or larger ones do not."""

    def found(*sizes: float) -> dict[str, tuple[sage_attention.Metrics, sage_attention.Metrics]]:
        made = [sage_attention.Metrics(1.0, s, s) for s in sizes]
        return {n: (m, m) for n, m in zip(sage_attention.PAPER, made, strict=True)}

    assert sage_attention.judge(found(0.019, 0.021, 0.064, 0.138)).verdict == HOLDS
    assert sage_attention.judge(found(0.008, 0.011, 0.03, 0.032)).verdict == LIMITED
    assert sage_attention.judge(found(0.03, 0.021, 0.064, 0.138)).verdict == FALSE
    assert sage_attention.judge(found(0.019, 0.021, 0.064, 0.3)).verdict == FALSE
    assert sage_attention.judge_average({"vB": (0.9999, 0.9999)}).verdict == FALSE
    assert sage_attention.judge_average({"vB": (0.999, 0.7)}).verdict == HOLDS


def test_blanchard_higham_a_wrong_shift_breaks_the_bounds_and_no_shift_overflows() -> None:
    """Each verdict flips when its kernel is replaced by a broken one."""

    def right(x: Array) -> Array:
        return rows("textbook-softmax-shifted[format=fp16]", x, "fp16")

    def rough(x: Array) -> Array:  # exp of a rounded multiple of 1/16
        y = np.round(16 * (x - x.max(axis=1, keepdims=True))) / 16
        e = np.exp(y)
        return BINARY16.round(e / e.sum(axis=1, keepdims=True))

    def naive(x: Array) -> Array:
        return rows("textbook-softmax-naive", x, "fp16")

    sums = blanchard_higham.measure_lse(300, blanchard_higham._lse_kernels())
    assert blanchard_higham.judge_bounds(sums).verdict == HOLDS
    name = "log-sum-exp, shifted"
    off = blanchard_higham.measure_lse(300, {name: lambda x: x.max(axis=1)})  # ln l forgotten
    assert blanchard_higham.judge_bounds(off).verdict == FALSE
    good = blanchard_higham.measure(300, blanchard_higham._kernels())
    assert blanchard_higham.judge_bounds(good).verdict == HOLDS
    assert blanchard_higham.judge_shift(good, 300).verdict == HOLDS
    bad = blanchard_higham.measure(300, {"basic": naive, "shifted": rough})
    assert blanchard_higham.judge_bounds(bad).verdict == FALSE
    assert blanchard_higham.judge_shift(bad, 300).verdict == LIMITED
    unshifted = blanchard_higham.measure(300, {"basic": naive, "shifted": naive})
    assert blanchard_higham.judge_shift(unshifted, 300).verdict == FALSE
    equal = blanchard_higham.measure(300, {"shifted": right, "shifted, division-free": right})
    assert blanchard_higham.judge_division(equal).verdict == FALSE


def test_biased_rounding_vanishes_with_one_maximum_or_binary32_state() -> None:
    """The bias is there with ties and bf16 state; a kernel without it changes the verdict."""
    found = biased_rounding.measure(48, 16, 8)
    assert biased_rounding.judge(found).verdict == LIMITED
    low, remedy, single = biased_rounding.KERNELS[:3]
    tied = found[2, True]
    healthy = {**found, (2, True): {**tied, low: tied[single]}}
    assert biased_rounding.judge(healthy).verdict == FALSE
    everywhere = {**found, (2, True): {**tied, single: tied[low]}}
    assert biased_rounding.judge(everywhere).verdict == HOLDS
    useless = {**found, (2, True): {**tied, remedy: tied[low]}}
    assert biased_rounding.judge_remedy(useless).verdict == FALSE
