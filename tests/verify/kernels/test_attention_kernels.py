"""Every shipped attention kernel means by each option what `references` says."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

from tests.verify.kernels.plain_attention import Sample, U, attention, sample
from verify.arithmetic import ArithmeticModel
from verify.errors import UsageError
from verify.formats import FORMATS
from verify.kernels import find, load_all
from verify.presets import preset

torch.set_num_threads(1)
NAMES = [
    "textbook-attention-naive",
    "textbook-attention-shifted",
    "textbook-attention-two-pass",
    "textbook-attention-online",
    "textbook-attention-online[block=5,order=reverse]",
    "textbook-attention-online[block=1,p=fp32]",
    "textbook-attention-online[accumulator=fp16,block=8]",
    "textbook-attention-shifted[scores=bf16]",
    "textbook-attention-split",
    "textbook-attention-split[splits=50,block=3]",
    "torch-sdpa",
    "torch-sdpa-math",
    "torch-sdpa-flash",
    "torch-sdpa-flash-lse",
] + [
    name
    for name in load_all()
    if name.startswith("right-")
    and find(name)[1].operation == "attention"
    and not find(name)[1].declaration.calls  # without options: test_cheats.py
]


def budget(found: Any, of: Sample) -> float:
    """A loose multiple of the coarsest format that the model names."""
    name = {v: k for k, v in (("fp16", torch.float16), ("bf16", torch.bfloat16))}.get(
        of.tensors["q"].dtype, "fp32"
    )
    declared = found.declaration.model[name]
    model = declared if isinstance(declared, dict) else declared[0]
    coarsest = max([U[name]] + [U[f] for f in U if f in str(model)])
    chain = of.tensors["k"].shape[-2] if "fp16" in str(model["pv"]) else 1
    return 24 * max(coarsest, float(model.get("exp_relative") or 0.0)) * max(1.0, chain / 8)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "negative scale": {"scale": -0.3},
    "causal": {"causal": True},
    "causal, more queries": {"causal": True, "n_q": 9, "n_k": 5},
    "window": {"window": (3, 1)},
    "window of one key": {"window": (0, 0)},
    "left window, causal": {"window": (4, -1), "causal": True},
    "mask": {"mask": torch.arange(37) % 3 != 0},
    "left-heavy mask": {"mask": torch.arange(37) >= 20},
    "mask with an empty row": {"mask": (torch.arange(5)[:, None] != 2).expand(5, 37)},
    "bias": {"bias": torch.linspace(-4, 4, 37).expand(1, 1, 5, 37)},
    "bias that removes": {"bias": torch.where(torch.arange(37) < 18, 0.0, -torch.inf)},
    "softcap": {"softcap": 0.5},
    "softcap and mask": {"softcap": 2.0, "mask": torch.arange(37) % 2 == 0},
    "sinks": {"sinks": torch.tensor([-1.0, 0.0, 2.0, -torch.inf])},
    "sinks and empty rows": {
        "sinks": torch.tensor([-1.0, 0.0, 2.0, -torch.inf]),
        "causal": True,
        "n_q": 9,
        "n_k": 5,
    },
    "one key": {"n_k": 1},
    "one key head": {"kv_heads": 1},
    "square head": {"d_v": 8, "kv_heads": 4},
    "no keys": {"n_k": 0},
}


@pytest.mark.parametrize("fmt", ["fp16", "bf16", "fp32"])
@pytest.mark.parametrize("name", NAMES)
def test_options_mean_what_the_definition_says(name: str, fmt: str) -> None:
    function, found = find(name)
    parameters = inspect.signature(function).parameters
    for title, wanted in CASES.items():
        without = set(found.declaration.without)
        shape = {"d_v": 8, "kv_heads": 4} if without & {"d_v", "gqa"} else {}
        given = {**wanted, **(shape if "d_v" not in wanted else {})}
        if "n_k" in given and not given["n_k"] and "empty" in without:
            continue
        if without & set(given) or not set(given) & OPTIONS <= set(parameters):
            continue
        made = sample(fmt, **given)
        if "bias" in made.options:
            made.options["bias"] = made.options["bias"].to(made.tensors["q"].dtype)
        out, lse, empty = attention(made, found.declaration.corner)
        lse = lse / np.log(2) if found.declaration.lse_base == "2" else lse
        lse_claimed = "return_lse" in parameters and "return_lse" not in without
        got = (
            made.call(function)
            if not lse_claimed
            else function(**made.tensors, **made.options, return_lse=True)
        )
        output = got[0] if lse_claimed else got
        assert output.dtype == made.tensors["q"].dtype, title
        allowed = budget(found, made)
        if found.expected == "fail" and not empty.any():
            allowed *= 8
        if found.expected == "fail":
            out, output = out[~empty], output[torch.from_numpy(~empty)]
        np.testing.assert_allclose(
            output.double().numpy(), out, rtol=0, atol=allowed * 2, err_msg=title
        )
        if lse_claimed:
            lse = np.where(empty, float(found.declaration.empty_lse), lse)
            assert got[1].dtype == torch.float32, title
            np.testing.assert_allclose(
                got[1].double().numpy(), lse, rtol=allowed, atol=allowed * 8, err_msg=title
            )


OPTIONS = {"scale", "causal", "window", "mask", "bias", "softcap", "sinks"}


@pytest.mark.parametrize("name", [n for n in NAMES if "torch" not in n and "naive" not in n])
def test_nan_under_a_mask_leaves_no_trace_and_a_visible_one_shows(name: str) -> None:
    function, _ = find(name)
    made = sample("fp32", mask=torch.arange(37) >= 7)
    clean = made.call(function)
    made.tensors["k"][:, :, 3] = torch.nan
    made.tensors["v"][:, :, 4] = torch.nan
    assert torch.equal(made.call(function), clean)
    made.tensors["v"][:, 1, 9, 2] = torch.nan
    made.tensors["v"][:, 1, 9, 3] = torch.inf
    got = made.call(function)
    assert got[:, 2:, :, 2].isnan().all()
    assert (got[:, 2:, :, 3] == torch.inf).all()
    rest = torch.ones_like(got, dtype=torch.bool)
    rest[:, 2:, :, 2:4] = False
    assert torch.equal(got[rest], clean[rest])


def test_a_low_accumulator_is_really_low() -> None:
    made = sample("fp16", n_k=80, d_v=2)
    made.tensors["q"].zero_()
    made.tensors["v"].fill_(1000.0)
    right = made.call(find("textbook-attention-online")[0])
    low = made.call(find("textbook-attention-online[pv=fp16]")[0])
    assert (right == 1000).all()
    assert (low == torch.inf).all()


def test_naive_overflows_where_shifted_does_not() -> None:
    made = sample("fp32", n_k=3, d=1, scale=1.0, kv_heads=4)
    made.tensors["q"].fill_(1.0)
    made.tensors["k"].fill_(1000.0)
    assert made.call(find("textbook-attention-naive")[0]).isnan().all()
    assert made.call(find("textbook-attention-shifted")[0]).isfinite().all()


@pytest.mark.parametrize(
    "spec",
    [
        "textbook-attention-online[block=0]",
        "textbook-attention-online[p=fp64]",
        "textbook-attention-online[order=sideways]",
        "textbook-attention-split[splits=0]",
        "textbook-attention-shifted[nonsense=1]",
        "textbook-softmax-shifted[format=int8]",
        "control-empty-row-wrong[gives=seven]",
    ],
)
def test_a_wrong_option_is_a_usage_error(spec: str) -> None:
    with pytest.raises(UsageError):
        find(spec)


def test_every_model_can_be_read_and_every_kernel_says_what_it_is() -> None:
    for name in load_all():
        function, found = find(name)
        assert found.summary
        assert function.__doc__, name
        for fmt in found.formats:
            declared = found.declaration.model
            if isinstance(declared, dict):
                declared = declared[fmt]
            if isinstance(declared, str):
                preset(declared, FORMATS[fmt])
            elif declared is not None:
                several: list[Any] = declared if isinstance(declared, list) else [declared]
                assert all(ArithmeticModel.from_json(dict(m)).input == fmt for m in several)


def test_what_torch_cannot_run_here_is_said() -> None:
    for name in ("torch-sdpa-efficient", "torch-sdpa-cudnn"):
        reason = find(name)[1].unavailable
        assert reason is not None
        if not torch.cuda.is_available():
            assert "no CUDA device" in (reason() or "")
    ready = find("torch-sdpa-flash")[1].unavailable
    assert ready is not None
    assert ready() is None
