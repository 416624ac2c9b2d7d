"""Backward kernels against automatic differentiation in float64: right ones agree, broken ones do
what their name says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from verify.kernels import find, load_all

torch.set_num_threads(1)

Gradients = dict[str, torch.Tensor]


def inputs(**options: Any) -> dict[str, Any]:
    """Two batches, six heads on two kv heads, 9 queries, 24 keys; every gradient of order 1."""
    made = torch.Generator().manual_seed(5)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=made)

    found: dict[str, Any] = {
        "q": normal(2, 6, 9, 8), "k": normal(2, 2, 24, 8), "v": normal(2, 2, 24, 5) + 2,
        "do": normal(2, 6, 9, 5), "scale": 0.4,
    }  # fmt: skip
    extras: dict[str, Any] = {
        "bias": normal(6, 1, 24), "sinks": normal(6), "softcap": 1.0, "causal": True,
    }  # fmt: skip
    return found | {name: extras[name] for name, wanted in options.items() if wanted}


def truth(given: dict[str, Any]) -> Gradients:
    """All gradients by torch.autograd in float64."""
    names = [n for n in ("q", "k", "v", "bias", "sinks") if n in given]
    leaves = {n: given[n].double().requires_grad_() for n in names}
    q, k, v = leaves["q"], leaves["k"].repeat_interleave(3, 1), leaves["v"].repeat_interleave(3, 1)
    s = given["scale"] * q @ k.transpose(-2, -1)
    if "softcap" in given:
        s = given["softcap"] * torch.tanh(s / given["softcap"])
    if "bias" in given:
        s = s + leaves["bias"]
    if given.get("causal"):
        seen = torch.ones(9, 24, dtype=torch.bool).tril(15)
        s = s.masked_fill(~seen, float("-inf"))
    if "sinks" in given:
        s = torch.cat([s, leaves["sinks"].view(1, 6, 1, 1).expand(2, 6, 9, 1)], dim=-1)
    out = torch.softmax(s, dim=-1)[..., :24] @ v
    grads = torch.autograd.grad(out, list(leaves.values()), given["do"].double())
    return {f"d{n}": g for n, g in zip(leaves, grads, strict=True)}


def called(name: str, given: dict[str, Any]) -> Gradients:
    positional = [given[n] for n in ("q", "k", "v", "do")]
    keywords = {n: x for n, x in given.items() if n not in ("q", "k", "v", "do")}
    found = find(name)[0](*positional, **keywords)
    names = ["dq", "dk", "dv"] + [f"d{n}" for n in ("bias", "sinks") if n in given]
    return dict(zip(names, found, strict=True))


def apart(found: Gradients, exact: Gradients) -> set[str]:
    """The gradients that are not the exact ones up to binary32."""
    return {
        name
        for name, grad in found.items()
        if not torch.allclose(grad.double(), exact[name], rtol=1e-4, atol=1e-4)
    }


RIGHT = [
    name
    for name in load_all()
    if find(name)[1].operation == "attention_backward" and name.startswith(("textbook-", "right-"))
]


@pytest.mark.parametrize("name", RIGHT)
def test_right_backward_kernels_agree_with_float64(name: str) -> None:
    signature = find(name)[0].__doc__
    assert signature
    claimed = {"right-autograd": ("softcap",), "right-eager": (), "right-delta": ("bias", "causal")}
    every = ("bias", "sinks", "softcap", "causal")
    kinds = next((kinds for start, kinds in claimed.items() if name.startswith(start)), every)
    for options in ({}, *({kind: True} for kind in kinds)):
        given = inputs(**options)
        if name.startswith("right-eager"):
            given = given | {n: given[n].repeat_interleave(3, 1) for n in "kv"}
            exact = truth(given | {n: given[n][:, ::3] for n in "kv"})
            exact = {"dq": exact["dq"]}
            assert not apart({"dq": called(name, given)["dq"]}, exact), options
            continue
        assert not apart(called(name, given), truth(given)), options


# control -> (options that show it, the gradients that it gets wrong)
FAULTS: dict[str, tuple[dict[str, bool], set[str]]] = {
    "group-not-reduced-backward": ({}, {"dk", "dv"}),
    "causal-ignored-backward": ({"causal": True}, {"dq", "dk", "dv"}),
    "delta-left-out-backward": ({}, {"dq", "dk"}),
    "query-unscaled-backward": ({}, {"dq"}),
    "key-scaled-twice-backward": ({}, {"dk"}),
    "bias-last-writer-backward": ({"bias": True}, {"dbias"}),
    "softcap-slope-left-out-backward": ({"softcap": True}, {"dq", "dk"}),
    "softcap-slope-left-out-backward[masked_only=true]": (
        {"softcap": True, "causal": True},
        {"dq", "dk"},
    ),
    "maximum-for-lse-backward": ({}, {"dq", "dk", "dv"}),
    "sink-forgotten-backward": ({"sinks": True}, {"dsinks"}),
}
SHOWN_ELSEWHERE = {
    "padding-scored-zero-backward", "single-through-half-backward",
    "sum-left-out-softmax-backward", "sum-left-out-log-softmax-backward",
    "squared-row-sum-softmax-backward",
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_backward_control_gets_wrong_what_it_says(name: str) -> None:
    options, wrong = FAULTS[name]
    given = inputs(**options)
    assert apart(called(f"control-{name}", given), truth(given)) == wrong


def test_the_slope_that_is_lost_beside_a_mask_is_right_alone() -> None:
    given = inputs(softcap=True)
    name = "control-softcap-slope-left-out-backward[masked_only=true]"
    assert not apart(called(name, given), truth(given))


def test_padding_in_the_backward_pass_shows_only_far_below_zero() -> None:
    """Near LSE = 0 it is invisible; at -120 it is NaN in dQ."""
    given = inputs()
    assert not apart(called("control-padding-scored-zero-backward", given), truth(given))
    given["q"][..., 0], given["k"][..., 0] = 1.0, -300.0
    low = called("control-padding-scored-zero-backward", given)
    assert low["dq"].isnan().any()
    assert low["dv"].isfinite().all()


def test_single_through_half_is_off_by_a_bf16_rounding() -> None:
    given = inputs()
    found, exact = called("control-single-through-half-backward", given), truth(given)
    for name, grad in found.items():
        error = (grad.double() - exact[name]).abs().max() / exact[name].abs().max()
        assert 2.0**-14 < error < 2.0**-5, name


@pytest.mark.parametrize("name", ["softmax", "log-softmax"])
def test_softmax_controls_leave_the_sum_out(name: str) -> None:
    x, dy = torch.randn(3, 7, generator=torch.Generator().manual_seed(1)), torch.ones(3, 7)
    dy[:, 0] = 4.0
    got = find(f"control-sum-left-out-{name}-backward")[0](x, dy)
    y = torch.softmax(x, dim=-1)
    wanted = y * dy if name == "softmax" else dy - y * dy
    assert torch.allclose(got, wanted)


def test_squared_row_sum_loses_the_sum_from_256_on() -> None:
    """Flat rows with dy = 1: the gradient is 0, and y where the square of n overflows."""
    for n, wrong in ((255, 0.0), (256, 1 / 256), (1000, 1 / 1000)):
        x, dy = torch.zeros(1, n).half(), torch.ones(1, n).half()
        dx = find("control-squared-row-sum-softmax-backward")[0](x, dy)
        assert (dx.float() - wrong).abs().max() <= 2.0**-18, n


def test_every_backward_control_is_shown_at_work() -> None:
    names = {n for n in load_all() if n.startswith("control-") and n.endswith("-backward")}
    shown = {name.partition("[")[0] for name in FAULTS} | SHOWN_ELSEWHERE
    assert names == {f"control-{n}" for n in shown}
