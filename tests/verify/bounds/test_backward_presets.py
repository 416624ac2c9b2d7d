"""Bounds of gradients grow with every freedom of a model, and a preset holds every narrower one.

Each field is tried in both of its directions: the wider value is nowhere below the narrower one,
and above it somewhere, so that a term which is lost fails here as well.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from references.decompose import Decomposition, decompose
from tests.verify.bounds.models import FUSED, of
from verify.arithmetic import A100, H100, ArithmeticModel, Chain
from verify.bounds import Bound, Models, bound
from verify.case import Inputs, Tensor
from verify.formats import BINARY32, FORMATS
from verify.operation import Operation
from verify.presets import preset

KINDS = ("normal", "sharp", "offset", "tiny")
Call = tuple[Inputs, Operation, Decomposition]


def call(fmt: str, kind: str, *, softcap: float | None = None, n_q: int = 12) -> Call:
    """Four heads on two kv heads, 24 keys, causal, a bias for each key and sinks.

    `sharp`: scores up to 40; `offset`: scores near -20; `tiny`: values near the least normal number
    of binary32, where what underflows counts.
    """
    made = np.random.default_rng(KINDS.index(kind))
    shapes = {"q": (1, 4, n_q, 8), "k": (1, 2, 24, 8), "v": (1, 2, 24, 8), "do": (1, 4, n_q, 8)}
    values = {name: made.standard_normal(shape) for name, shape in shapes.items()}
    values["bias"] = made.standard_normal((24,))
    if kind == "sharp":
        values["q"] *= 6
    if kind == "offset":
        values["bias"] -= 20
    if kind == "tiny":
        values["v"] *= 2.0 ** (-10 if fmt == "fp16" else -122)
    tensors = {name: Tensor.rounded(FORMATS[fmt], x) for name, x in values.items()}
    tensors["sinks"] = Tensor.rounded(BINARY32, made.standard_normal(4))
    operation = Operation("attention_backward", scale=0.3, causal=True, softcap=softcap)
    inputs = Inputs(tensors)
    q, k, v, bias, sinks = (inputs[name].values for name in ("q", "k", "v", "bias", "sinks"))
    parts = decompose(
        q, k, v, scale=0.3, causal=True, bias=bias, sinks=sinks, softcap=softcap,
    )  # fmt: skip
    return inputs, operation, parts


def bounds_of(call: Call, models: Models) -> dict[str, Bound]:
    inputs, operation, parts = call
    found = bound(operation, inputs, parts, models)
    return {"dq": found, **found.others}


def compare(call: Call, narrow: Models, wide: Models) -> set[str]:
    """The gradients whose wider bound is above the narrower one somewhere.

    Asserts     it is nowhere below it, and its flags hold the narrower one's.
    """
    larger, one = set(), bounds_of(call, narrow)
    for name, limit in bounds_of(call, wide).items():
        assert (one[name].flagged <= limit.flagged).all(), name
        assert (one[name].total <= limit.total * (1 + 1e-12)).all(), (
            name, float(np.max(one[name].total / limit.total)),
        )  # fmt: skip
        finite = np.isfinite(limit.total)
        if (limit.total[finite] > one[name].total[finite] * (1 + 1e-9)).any():
            larger.add(name)
    return larger


KEPT: dict[str, Any] = {"backward_p": "kept", "block": None, "p_normalised": True}
ALL = {"dq", "dk", "dv", "dbias", "dsinks"}
SCORES = ALL - {"dv"}
PAIRS = SCORES - {"dsinks"}  # a sink has no dP
# name -> (what both models have, the narrower value, the wider one, the gradients that it touches)
FREEDOMS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], set[str]]] = {
    "ds_form": ({}, {}, {"ds_form": "products"}, PAIRS),
    "gradient_scale": ({}, {}, {"gradient_scale": "operands"}, {"dq", "dk"}),
    "group_format": ({}, {}, {"group_format": "bf16"}, {"dk", "dv"}),
    "more_roundings": ({}, {}, {"more_roundings": 4}, ALL),
    "delta_format": ({}, {"delta_format": "fp32"}, {}, SCORES),
    "dp_format": ({}, {}, {"dp_format": "bf16"}, PAIRS),
    "ds_format": ({}, {"ds_format": "fp32"}, {}, {"dq", "dk", "dbias", "dsinks"}),
    "ds_roundings": ({}, {}, {"ds_roundings": 2}, {"dq", "dk", "dbias", "dsinks"}),
    "backward_p_format": ({}, {}, {"backward_p_format": "bf16"}, ALL),
    "bias_format": ({"ds_format": "fp32"}, {}, {"bias_format": "bf16"}, {"dbias"}),
    "gradient_block": ({}, {}, {"gradient_block": (4, 8)}, {"dq", "dk", "dv"}),
    "gradients": ({}, {}, {"gradients": Chain("bf16")}, {"dv"} | PAIRS),
    "exponential": ({}, {}, {"exponential": "fma"}, ALL),
    "exp_ulps": ({}, {}, {"exp_ulps": 2.0}, ALL),
    "log_ulps": ({}, {}, {"log_ulps": 8.0}, ALL),
    "splits": ({}, {}, {"splits": 8}, ALL),
    "block": ({}, {"block": None}, {"block": 8}, ALL),
    "kept block": ({"backward_p": "kept"}, {"block": None}, {"block": 8}, ALL),
    "scale": ({}, {}, {"scale_position": "both", "scaled_operands": "fp32"}, ALL),
    "kept exp_ulps": (KEPT, {}, {"exp_ulps": 2.0}, ALL),
    "probabilities": (KEPT | {"delta": "probabilities"}, {}, {"dp_format": "bf16"}, SCORES),
}


@pytest.mark.parametrize("name", FREEDOMS)
@pytest.mark.parametrize("kind", ["normal", "sharp", "offset"])
def test_bound_grows_with_each_freedom(name: str, kind: str) -> None:
    """bf16, every gradient: never smaller, and larger in those that the freedom touches (near -20
    the sink has all of the row, where some of them say nothing)."""
    base, narrow, wide, touched = FREEDOMS[name]
    model = of("bf16", **base)
    larger = compare(call("bf16", kind), replace(model, **narrow), replace(model, **wide))
    assert larger == touched or kind == "offset"


@pytest.mark.parametrize("form", ["difference", "products"])
def test_bound_grows_with_what_underflows(form: Any) -> None:
    """e and l apart, and a flush to zero, at the lower end of binary32."""
    model = of("fp32", **KEPT, delta="probabilities", ds_form=form)
    tiny = call("fp32", "tiny")
    assert compare(tiny, model, replace(model, backward_p="apart")) >= SCORES
    assert compare(tiny, model, replace(model, flush_to_zero=True)) >= SCORES


@pytest.mark.parametrize("field", ["tanh_ulps", "ds_roundings"])
def test_bound_grows_with_the_softcap(field: str) -> None:
    model = of("fp16", ds_format="fp16")
    wide: dict[str, Any] = {"tanh_ulps": 24.0} if field == "tanh_ulps" else {"ds_roundings": 2}
    larger = compare(call("fp16", "sharp", softcap=5.0), model, replace(model, **wide))
    assert {"dq", "dk"} <= larger


def test_adding_heads_in_their_format_allows_adding_them_in_the_accumulator() -> None:
    """binary32, many queries: a chain over all heads may lose more than the sums of four heads that
    are rounded before they are added."""
    model = of("fp32", p_format="fp32")
    larger = compare(call("fp32", "normal", n_q=48), model, replace(model, group_format="fp32"))
    assert larger <= {"dk", "dv"}


# P, and what D is made of; the second tuple only where the forward pass normalises P
WAYS: tuple[dict[str, Any], ...] = (
    {"backward_p": "lse", "delta": "output"},
    {"backward_p": "lse", "delta": "probabilities"},
    {"backward_p": "kept", "delta": "output"},
)
NORMALISED: tuple[dict[str, Any], ...] = (
    {"backward_p": "kept", "delta": "probabilities"},
    {"backward_p": "apart", "delta": "probabilities"},
)
# the widest first
LESS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"ds_form": "products"}, {"ds_form": "difference"}),
    ({"gradient_scale": "operands", "more_roundings": 4}, {"gradient_scale": "last"}),
    ({"group_format": "output"}, {}),
    ({}, {"delta_format": "fp32", "ds_format": "fp32"}),
    ({"dp_format": "p"}, {}),
    ({}, {"exponential": "difference", "exp_ulps": 0.5, "splits": 1}, {"block": None, "lazy": 0.0}),
)


def narrower(forward: ArithmeticModel) -> list[ArithmeticModel]:
    """Backward passes that may follow a forward pass of the preset, the widest first."""
    found = []
    for choice in product(*LESS):
        fields = {key: value for part in choice for key, value in part.items()}
        if fields.get("group_format") == "output":
            fields["group_format"] = forward.output
        for way in (*WAYS, *(NORMALISED if forward.p_normalised else ())):
            own = dict(fields)
            stored = own.pop("dp_format", None)
            if stored is not None and way["backward_p"] != "lse":
                own["dp_format"] = forward.p_format
            found.append(replace(forward, gradients=forward.qk, **way, **own))
    return list(dict.fromkeys(found))


PRESETS = [("flash", "bf16"), ("flash", "fp16"), ("single", "fp32"), ("single", "bf16")]


@pytest.mark.parametrize(("name", "fmt"), PRESETS)
@pytest.mark.parametrize("kind", KINDS)
def test_preset_holds_every_narrower_backward_pass(name: str, fmt: str, kind: str) -> None:
    """P formed again, kept or apart; D of the output or of P dP; either form of dS; the scale last
    or before; heads added anywhere: the widest of each, and a sample of all combinations."""
    one, held = call(fmt, kind), preset(name, FORMATS[fmt])
    wide = bounds_of(one, held)
    for forward in held.variants:
        models = narrower(forward)
        assert len(models) > 100
        for model in (*models[:5], *models[5 + KINDS.index(kind) :: 37]):
            for gradient, limit in bounds_of(one, model).items():
                assert (limit.flagged <= wide[gradient].flagged).all(), (gradient, model)
                within = limit.total <= wide[gradient].total * (1 + 1e-12)
                assert within.all(), (gradient, model)


@pytest.mark.parametrize(("name", "core"), [("flash-a100", A100), ("flash-h100", H100)])
def test_tensor_core_presets_hold_their_kernels(name: str, core: Any) -> None:
    for kind in ("normal", "sharp"):
        one = call("fp16", kind)
        model = of("fp16", qk=core, pv=core, gradients=core, **FUSED)
        assert compare(one, model, preset(name, FORMATS["fp16"])) == ALL


@pytest.mark.parametrize("name", ["eager", "half"])
def test_stored_presets_hold_flash_with_p_kept(name: str) -> None:
    """What stores every step in 16 bits allows what stores less: P kept, D of P dP."""
    model = of("bf16", **KEPT, delta="probabilities", dp_format="bf16", ds_format="bf16")
    assert compare(call("bf16", "normal"), model, preset(name, FORMATS["bf16"])) == ALL


def test_presets_do_not_hold_what_must_be_declared() -> None:
    """Running gradients rounded to bf16, P rounded before it enters dS, and binary16 accumulators:
    outside `flash`, which would be of no use if it allowed them."""
    one = call("bf16", "normal")
    wide = bounds_of(one, preset("flash", FORMATS["bf16"]))
    for fields in (
        {"gradient_block": (1, 1)}, {"gradients": Chain("bf16")},
        {"ds_roundings": 4, "backward_p_format": "bf16", "dp_format": "bf16"},
    ):  # fmt: skip
        found = bounds_of(one, of("bf16", **fields))
        assert any((found[n].total > wide[n].total).any() for n in found), fields
