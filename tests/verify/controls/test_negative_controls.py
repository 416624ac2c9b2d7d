"""Each negative control is wrong on its smallest inputs and right on harmless ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from tests.verify.kernels.plain_attention import Sample, U, attention, sample
from verify.kernels import find, load_all
from verify.kernels._precision import DTYPES
from verify.tensors_torch import filled_memory

torch.set_num_threads(1)
Builder = Callable[[str], Sample]
NAN = math.nan


def aligned(fmt: str, **changes: Any) -> Sample:
    """n_k a multiple of 16, no option, small scores: harmless to most controls."""
    return sample(fmt, **{"n_k": 32, "d_v": 8, **changes})


def levels(fmt: str, scores: list[float], tile: int = 16, **options: Any) -> Sample:
    """One query and head; `tile` keys at each score (d = 2, so that scores above 65504 fit)."""
    made = sample(
        fmt, batch=1, heads=1, kv_heads=1, n_q=1, n_k=len(scores) * tile, d=2, d_v=3, **options
    )
    first = torch.tensor(scores).repeat_interleave(tile)
    q, k = made.tensors["q"], made.tensors["k"]
    q.zero_()
    k.zero_()
    q[..., 0] = 256
    k[..., 0] = first.to(k.dtype)
    return Sample(made.tensors, {"scale": 1 / 256, **made.options})


def beyond(fmt: str, scores: list[float], tile: int = 1, **options: Any) -> Sample:
    """`levels` in units of 1024."""
    made = levels(fmt, [s / 1024 for s in scores], tile, **options)
    return Sample(made.tensors, {**made.options, "scale": 4.0})


def tiles(n: int, hidden: slice) -> torch.Tensor:
    keep = torch.ones(n, dtype=torch.bool)
    keep[hidden] = False
    return keep


def stripes(n: int) -> torch.Tensor:
    """A mask (5, n) with another pattern in every row."""
    return torch.rand(5, n, generator=torch.Generator().manual_seed(3)) > 0.4


def positive(made: Sample, value: float | None = None) -> Sample:
    made.tensors["v"].abs_()
    if value is not None:
        made.tensors["v"].fill_(value)
    return made


def flat(made: Sample) -> Sample:
    made.tensors["q"].zero_()
    return made


def poisoned(made: Sample, value: float) -> Sample:
    made.tensors["v"][:, :, 0] = value
    return made


def transposed(fmt: str) -> Sample:
    made = aligned(fmt)
    for name in "qkv":
        x = made.tensors[name]
        made.tensors[name] = x.transpose(1, 2).contiguous().transpose(1, 2)
    return made


def with_sinks(made: Sample) -> Sample:
    heads = made.tensors["q"].shape[1]
    sinks = torch.arange(heads).to(made.tensors["q"].dtype)
    return Sample(made.tensors, {**made.options, "sinks": sinks})


def needle(fmt: str) -> Sample:
    made = levels(fmt, [0.0] * 16 + [12.0], tile=1)
    made.tensors["v"].zero_()
    made.tensors["v"][..., -1, :] = 1
    return made


def peaked(fmt: str, factor: int = 4) -> Sample:
    made = aligned(fmt, kv_heads=4)
    made.tensors["q"] *= factor
    return made


def one_far_key(fmt: str) -> Sample:
    """64 queries and one key: scores from 1.6e6 on."""
    made = beyond(fmt, [1.7e6])
    made.tensors["q"] = made.tensors["q"].repeat(1, 1, 64, 1)
    made.tensors["q"][..., 0] += torch.arange(64)
    made.tensors["v"].copy_(torch.tensor([1.9, 1.7, 1.5]))
    return made


@dataclass(frozen=True)
class Fault:
    """Inputs that show a fault, and inputs that do not."""

    shows: Builder
    harmless: Builder = aligned
    lse: bool = False
    subtle: bool = False  # within the budget: only the bits differ from a right kernel's


FAULTS: dict[str, Fault] = {
    "carry-zero-after-masked-block": Fault(
        lambda f: levels(f, [-200.0, -200.0], mask=tiles(32, slice(0, 16)))
    ),
    "finite-minus-infinity": Fault(lambda f: beyond(f, [-61440.0, -61440.0])),
    "finite-minus-infinity[start=-1e4,least=1e-6]": Fault(
        lambda f: beyond(f, [-20480.0, -20480.0])
    ),
    "finite-mask-value": Fault(
        lambda f: beyond(f, [-20480.0, -20480.0], mask=tiles(2, slice(0, 1)))
    ),
    "maximum-starts-at-zero": Fault(lambda f: levels(f, [-200.0], 1)),
    "no-shift": Fault(lambda f: levels(f, [100.0], 1)),
    "constant-shift": Fault(lambda f: levels(f, [2000.0], 1)),
    "forgets-old-maximum": Fault(lambda f: levels(f, [100.0, -100.0])),
    "wrong-frame-rescale": Fault(
        lambda f: levels(f, [0.0, 4.0, 8.0]), lambda f: levels(f, [4.0, 0.0])
    ),
    "p-saturates-sum-does-not": Fault(
        lambda f: positive(levels(f, [0.0, 2.6, 5.2]), 1.0), lambda f: levels(f, [0.0, 1.0])
    ),
    "fma-residual": Fault(one_far_key, subtle=True),
    "half-product-before-scale": Fault(
        lambda f: levels(f, [300.0, 299.0], 1), lambda f: flat(aligned(f))
    ),
    "half-scores": Fault(lambda f: peaked(f, 16), lambda f: flat(aligned(f))),
    "half-row-sum": Fault(
        lambda f: flat(positive(sample(f, n_q=1, n_k=4096), 1.0)), lambda f: flat(aligned(f))
    ),
    "half-accumulator": Fault(
        lambda f: flat(positive(sample(f, n_q=1, n_k=1024), 1000.0)),
        lambda f: flat(positive(aligned(f), 1.0)),
    ),
    "truncating-stores": Fault(
        lambda f: positive(sample(f, n_q=64, n_k=48)),
        lambda f: flat(positive(aligned(f), 1.0)),
        subtle=True,
    ),
    "exp-never-zero": Fault(
        lambda f: poisoned(levels(f, [0.0, 0.0], 1, mask=tiles(2, slice(0, 1))), 3e38)
    ),
    "single-through-half": Fault(aligned, lambda f: flat(positive(aligned(f), 1.0))),
    "single-through-half[through=tf32]": Fault(aligned, lambda f: flat(positive(aligned(f), 1.0))),
    "padding-scored-zero": Fault(lambda f: levels(f, [-20.0] * 17, 1)),
    "tail-dropped": Fault(needle),
    "tail-dropped[power_of_two=true]": Fault(
        lambda f: levels(f, [0.0, 0.0, 9.0]), lambda f: levels(f, [0.0, 0.0, 9.0, 9.0])
    ),
    "last-block-moved-back": Fault(lambda f: levels(f, [-20.0] * 16 + [-17.0], 1)),
    "last-block-moved-back[block=1024]": Fault(
        lambda f: levels(f, [0.0] * 1024 + [3.0], 1), lambda f: levels(f, [0.0] * 40, 1)
    ),
    "masked-value-leaks": Fault(
        lambda f: poisoned(aligned(f, mask=tiles(32, slice(0, 1))), NAN),
        lambda f: aligned(f, mask=tiles(32, slice(0, 1))),
    ),
    "empty-row-wrong": Fault(lambda f: aligned(f, n_q=9, n_k=5, causal=True)),
    "empty-row-wrong[gives=mean]": Fault(lambda f: aligned(f, n_q=9, n_k=5, causal=True)),
    "empty-merge": Fault(lambda f: aligned(f, n_q=9, n_k=2, causal=True)),
    "empty-merge[gives=infinity]": Fault(lambda f: aligned(f, n_q=9, n_k=2, causal=True), lse=True),
    "base-two-lse": Fault(aligned, lambda f: levels(f, [0.0], 1), lse=True),
    "wrong-causal-corner": Fault(
        lambda f: aligned(f, n_q=1, causal=True), lambda f: aligned(f, n_q=32, causal=True)
    ),
    "window-off-by-one": Fault(
        lambda f: aligned(f, window=(0, 0)), lambda f: aligned(f, window=(-1, 3))
    ),
    "window-off-by-one[by=-1]": Fault(
        lambda f: aligned(f, window=(1, 0)), lambda f: aligned(f, window=(-1, 3))
    ),
    "softcap-after-mask": Fault(
        lambda f: aligned(f, softcap=2.0, mask=tiles(32, slice(4, 20))),
        lambda f: aligned(f, softcap=2.0),
    ),
    "bool-mask-added": Fault(lambda f: aligned(f, mask=tiles(32, slice(0, 16)))),
    "bool-mask-added[kind=inverted]": Fault(lambda f: aligned(f, mask=tiles(32, slice(0, 16)))),
    "bool-mask-added[kind=scaled-bias]": Fault(
        lambda f: aligned(f, bias=torch.linspace(-4, 4, 32).expand(5, 32))
    ),
    "ignores-strides": Fault(transposed),
    "ignores-extra-strides": Fault(
        lambda f: aligned(f, mask=stripes(64)[:, ::2]), lambda f: aligned(f, mask=stripes(32))
    ),
    "option-lost": Fault(
        lambda f: aligned(f, window=(40, 40), softcap=0.5), lambda f: aligned(f, softcap=0.5)
    ),
    "merges-equal-keys": Fault(lambda f: levels(f, [0.0, 2.0], 2)),
    "wrong-kv-head": Fault(
        lambda f: aligned(f, heads=6, kv_heads=2), lambda f: aligned(f, kv_heads=4)
    ),
    "mean-of-v": Fault(peaked, lambda f: flat(aligned(f))),
    "zeros": Fault(aligned, lambda f: positive(aligned(f), 0.0)),
    "zeros[value=0.75]": Fault(aligned, lambda f: positive(aligned(f), 0.75)),
    "drops-eighth": Fault(lambda f: sample(f, n_q=2, n_k=64), lambda f: aligned(f, n_k=7)),
    "approximate-exp": Fault(lambda f: levels(f, [0.0, -0.3, -0.6], 1), lambda f: flat(aligned(f))),
    "biased-maximum": Fault(
        lambda f: flat(positive(sample(f, n_q=3, n_k=19), 1.0)),
        lambda f: flat(positive(aligned(f), 1.0)),
        subtle=True,
    ),
    # escaped bugs that the list of 35 lacks
    "axis-cut": Fault(lambda f: sample(f, n_q=1030, n_k=3), lambda f: sample(f, n_q=1024, n_k=3)),
    "axis-cut[axis=heads,most=16]": Fault(
        lambda f: sample(f, n_q=2, n_k=3, heads=17, kv_heads=1),
        lambda f: sample(f, n_q=2, n_k=3, heads=16),
    ),
    "axis-cut[axis=batch,most=16]": Fault(
        lambda f: sample(f, n_q=2, n_k=3, batch=17), lambda f: sample(f, n_q=2, n_k=3, batch=16)
    ),
    "axis-cut[axis=keys,most=8192]": Fault(
        lambda f: flat(sample(f, n_q=1, n_k=9000)), aligned, lse=True
    ),
    "last-queries-unwritten": Fault(
        lambda f: sample(f, n_q=129, n_k=3), lambda f: sample(f, n_q=127, n_k=3)
    ),
    "sink-of-kv-head": Fault(
        lambda f: with_sinks(aligned(f, heads=6, kv_heads=2)),
        lambda f: with_sinks(aligned(f, kv_heads=4)),
    ),
    "window-off-by-one[least=100]": Fault(
        lambda f: aligned(f, n_k=300, window=(100, 0)), lambda f: aligned(f, window=(0, 0))
    ),
    "scale-through-half": Fault(
        lambda f: levels(f, [100.0], 1, scale=1.003 / 256), lambda f: aligned(f, d=16), lse=True
    ),
    "uniform-scale": Fault(aligned, lambda f: positive(aligned(f), 0.0)),
    "int8-operands": Fault(peaked, lambda f: flat(aligned(f))),
}


STATEFUL = {
    "stale-plan",
    "previous-output",
    "never-writes",
    "tail-unwritten",
    "batch-dependent",
    "nondeterministic",
}


def _answers(spec: str, made: Sample) -> tuple[torch.Tensor, torch.Tensor]:
    out, lse = find(spec)[0](**made.tensors, **made.options, return_lse=True)
    return out.double(), lse.double()


def _excess(got: torch.Tensor, truth: torch.Tensor, fmt: str) -> float:
    """Largest error in units of u (1 + |truth|); infinity where NaN or infinities differ."""
    if not torch.equal(got.isfinite(), truth.isfinite()):
        return math.inf
    fits = truth.isfinite()
    if not torch.equal(got[~fits].nan_to_num(7), truth[~fits].nan_to_num(7)):
        return math.inf
    error = (got - truth).abs()[fits] / (U[fmt] * (1 + truth[fits].abs()))
    return float(error.max()) if error.numel() else 0.0


def _without_nan(made: Sample) -> Sample:
    """The plain definition multiplies masked values by 0, which a NaN survives."""
    v = torch.where(made.tensors["v"].isnan(), 0.0, made.tensors["v"])
    return Sample({**made.tensors, "v": v}, made.options)


CASES = [(name, fmt) for name in FAULTS for fmt in find(f"control-{name}")[1].formats]


@pytest.mark.parametrize(("name", "fmt"), CASES)
def test_control_is_wrong_on_its_smallest_inputs(name: str, fmt: str) -> None:
    fault = FAULTS[name]
    made = fault.shows(fmt)
    found = _answers(f"control-{name}", made)
    if fault.subtle:
        right = _answers("textbook-attention-online", made)
        assert not torch.equal(found[0], right[0])
        return
    out, lse, _ = (torch.from_numpy(x) for x in attention(_without_nan(made)))
    if fault.lse:
        assert _excess(found[1], lse, "fp32") > 64
    else:
        assert _excess(found[0], out, fmt) > 4


@pytest.mark.parametrize(("name", "fmt"), CASES)
def test_control_is_right_on_harmless_inputs(name: str, fmt: str) -> None:
    fault = FAULTS[name]
    made = fault.harmless(fmt)
    found = _answers(f"control-{name}", made)
    out, lse, _ = (torch.from_numpy(x) for x in attention(_without_nan(made)))
    assert _excess(found[0], out, fmt) < 16
    if name != "mean-of-v":
        assert _excess(found[1], lse, fmt) < 16


def test_every_control_is_shown_at_work() -> None:
    shown = {name.partition("[")[0] for name in FAULTS} | STATEFUL
    controls = {n.removeprefix("control-") for n in load_all() if n.startswith("control-")}
    # their own functions, test_backward_controls.py, and tests/verify/test_packing.py
    elsewhere = ("-softmax", "-backward", "sees-neighbour", "reads-last-page", "target-off-by-one")
    assert {n for n in controls if not n.endswith(elsewhere)} == shown


def test_unwritten_tail_shows_what_fresh_memory_is_filled_with() -> None:
    made = sample("fp32", n_q=19)
    with filled_memory():
        found = made.call(find("control-tail-unwritten")[0])
    assert found[..., 16:, :].isnan().all()
    right = made.call(find("textbook-attention-online")[0])
    assert torch.equal(found[..., :16, :], right[..., :16, :])


def test_stale_plan_keeps_the_first_scale() -> None:
    made = peaked("fp32")
    kernel = find("control-stale-plan")[0]
    first = kernel(**made.tensors, scale=0.1)
    assert torch.equal(first, find("textbook-attention-online")[0](**made.tensors, scale=0.1))
    assert torch.equal(kernel(**made.tensors, scale=0.3), first)


def test_previous_output_is_one_call_behind() -> None:
    one, two = aligned("bf16", seed=1), aligned("bf16", seed=2)
    kernel, right = find("control-previous-output")[0], find("textbook-attention-online")[0]
    assert torch.equal(one.call(kernel), one.call(right))
    assert torch.equal(two.call(kernel), one.call(right))


def test_never_writes_returns_what_the_memory_held() -> None:
    made = aligned("fp32")
    with filled_memory():
        found = made.call(find("control-never-writes")[0])
    assert found.isnan().all()


def test_batch_dependent_changes_the_bits_of_a_row_alone() -> None:
    made = sample("fp32", batch=2, n_k=96)
    kernel = find("control-batch-dependent")[0]
    alone = kernel(**{k: x[:1] for k, x in made.tensors.items()})
    assert not torch.equal(made.call(kernel)[:1], alone)


def test_nondeterministic_gives_two_answers() -> None:
    made = sample("fp32", n_k=96)
    kernel = find("control-nondeterministic")[0]
    assert not torch.equal(made.call(kernel), made.call(kernel))


def _row(fmt: str, values: list[float]) -> torch.Tensor:
    return torch.tensor([values]).to(DTYPES[fmt])


def _last_differs(fmt: str, rows: int) -> torch.Tensor:
    x = torch.zeros(rows, 2)
    x[-1, 1] = 5
    return x.to(DTYPES[fmt])


SOFTMAX_FAULTS: dict[str, Callable[[str], torch.Tensor]] = {
    "finite-minus-infinity": lambda f: _row(f, [-60000.0, -60032.0]),
    "maximum-starts-at-zero": lambda f: _row(f, [-200.0, -200.0]),
    "constant-shift": lambda f: _row(f, [2000.0, 2000.0]),
    "forgets-old-maximum": lambda f: _row(f, [100.0] * 16 + [-100.0]),
    "wrong-frame-rescale": lambda f: _row(f, [0.0] * 16 + [4.0] * 16),
    "half-scores": lambda f: _row(f, [100.0, 99.0]),
    "half-row-sum": lambda f: _row(f, [0.0] * 5000),
    "truncating-stores": lambda f: _row(f, [0.0] * 19),
    "padding-scored-zero": lambda f: _row(f, [-20.0] * 17),
    "tail-dropped": lambda f: _row(f, [0.0] * 17),
    "zeros": lambda f: _row(f, [0.0, 1.0]),
    "drops-eighth": lambda f: _row(f, [0.0] * 16),
    "approximate-exp": lambda f: _row(f, [0.0, -0.3, -0.6]),
    "axis-cut": lambda f: _last_differs(f, 4097),
}


@pytest.mark.parametrize("name", SOFTMAX_FAULTS)
def test_softmax_control_is_wrong_where_it_should_be_and_right_elsewhere(name: str) -> None:
    kernel, found = find(f"control-{name}-softmax")
    for fmt in found.formats:
        x = SOFTMAX_FAULTS[name](fmt)
        truth = torch.softmax(x.double(), -1)
        if name == "truncating-stores":
            assert not torch.equal(kernel(x), truth.to(x.dtype)), fmt
        else:
            relative = (kernel(x).double() - truth).abs() / truth
            assert not (relative <= 3 * U[fmt]).all(), fmt
        if name != "zeros":
            harmless = torch.zeros(1, 1 if name == "drops-eighth" else 16)
            error = kernel(harmless.to(x.dtype)).double() * harmless.shape[-1] - 1
            assert (error.abs() <= 2 * U[fmt]).all(), fmt


def test_every_softmax_control_is_shown_at_work() -> None:
    controls = {n for n in load_all() if n.startswith("control-") and n.endswith("-softmax")}
    assert controls == {f"control-{n}-softmax" for n in SOFTMAX_FAULTS}
