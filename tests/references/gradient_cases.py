"""Calls for the gradients, and their definition as a function to differentiate, in mpmath."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from references.enclosure import Array, Enclosure

Real = Any
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": -0.3},
    "causal": {"causal": True},
    "causal_top_left": {"causal": True, "corner": "top-left"},
    "window": {"window": (1, 0)},
    "softcap": {"softcap": 1.5},
    "mask": {"mask": np.array([[True, False, True, False], [False] * 4, [True] * 4])},
    "bias": {"bias": (1, 2, 3, 4)},
    "bias_of_heads": {"bias": (2, 1, 1)},
    "bias_of_keys": {"bias": (4,)},
    "bias_of_queries": {"bias": (1, 1, 3, 1)},
    "sinks": {"sinks": (2,)},
    "dlse": {"dlse": (1, 2, 3)},
    "everything": {
        "scale": 0.7, "softcap": 3.0, "causal": True, "bias": (1, 2, 1, 4), "sinks": (2,),
        "dlse": (2, 2, 3), "mask": np.array([True, True, False, True]),
    },
}  # fmt: skip
TWO = ("bias_of_heads", "sinks", "everything")  # batches, to be summed over


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32).astype(np.float64)


@dataclass(frozen=True)
class Call:
    """The tensors of a call, and its options without bias and sinks (which are tensors too)."""

    tensors: dict[str, Array]  # q, k, v and, where given, bias, sinks
    do: Array
    dlse: Array | None
    options: dict[str, Any] = field(default_factory=dict)

    def by(self, gradients: Callable[..., Any], **more: Any) -> Any:
        tensors = dict(self.tensors)
        q, k, v = (tensors.pop(name) for name in "qkv")
        extra = {} if self.dlse is None else {"dlse": self.dlse}
        return gradients(q, k, v, self.do, **tensors, **extra, **self.options, **more)


def make(name: str, seed: int = 3) -> Call:
    """A small call with the options of that name: GQA, d_v != d, n_q != n_k."""
    rng = np.random.default_rng(seed)
    batch, dlse = 2 if name in TWO else 1, None
    tensors = {"q": _normal(rng, batch, 2, 3, 2), "k": _normal(rng, batch, 1, 4, 2)}
    tensors["v"], do = _normal(rng, batch, 1, 4, 3), _normal(rng, batch, 2, 3, 3)
    options = dict(OPTIONS[name])
    for extra in ("bias", "sinks"):
        if extra in options:
            tensors[extra] = _normal(rng, *options.pop(extra))
    if "dlse" in options:
        dlse = _normal(rng, *options.pop("dlse"))
    return Call(tensors, do, dlse, options)


def _sees(call: Call, place: tuple[int, int, int], j: int) -> bool:
    b, h, i = place
    (n_q, n_k), options = (call.tensors["q"].shape[2], call.tensors["k"].shape[2]), call.options
    shift = 0 if options.get("corner") == "top-left" else n_k - n_q
    left, right = options.get("window", (-1, -1))
    mask = np.broadcast_to(options.get("mask", True), (*call.tensors["q"].shape[:3], n_k))
    return bool(
        mask[b, h, i, j]
        and not (options.get("causal") and j > i + shift)
        and not (left >= 0 and j < i + shift - left)
        and not (right >= 0 and j > i + shift + right)
    )


def loss(mp: Any, call: Call, tensors: dict[str, Any]) -> Real:
    """sum dO . O + sum dLSE . LSE, as the definitions read; tensors: arrays of mpmath numbers."""
    q, k, v = (tensors[name] for name in "qkv")
    batch, heads, n_q, d = q.shape
    scale, softcap = call.options.get("scale"), call.options.get("softcap")
    tau = 1 / mp.sqrt(d) if scale is None else mp.mpf(scale)
    bias = np.broadcast_to(tensors.get("bias", mp.zero), (batch, heads, n_q, k.shape[2]))
    total = mp.zero
    for b, h, i in np.ndindex(batch, heads, n_q):
        kv = h // (heads // k.shape[1])
        seen = [j for j in range(k.shape[2]) if _sees(call, (b, h, i), j)]
        scores = [tau * (q[b, h, i] @ k[b, kv, j]) for j in seen]
        if softcap is not None:
            scores = [softcap * mp.tanh(t / softcap) for t in scores]
        weights = [mp.exp(t + bias[b, h, i, j]) for t, j in zip(scores, seen, strict=True)]
        total_weight = sum(weights, mp.exp(tensors["sinks"][h]) if "sinks" in tensors else mp.zero)
        if total_weight == 0:
            continue
        for weight, j in zip(weights, seen, strict=True):
            total += weight / total_weight * (v[b, kv, j] @ call.do[b, h, i])
        if call.dlse is not None:
            total += mp.log(total_weight) * float(call.dlse[b, h, i])
    return total


def central_differences(call: Call, name: str) -> list[Fraction]:
    """The gradient of `loss` with respect to one tensor, up to about 2^-190, at 440 bits."""
    mp = mpmath.MPContext()
    mp.prec = 440
    step = mp.ldexp(1, -100)
    exact = {
        key: np.array([mp.mpf(float(x)) for x in value.ravel()], dtype=object).reshape(value.shape)
        for key, value in call.tensors.items()
    }
    found = []
    for place in np.ndindex(call.tensors[name].shape):
        values = []
        for sign in (1, -1):
            moved = exact[name].copy()
            moved[place] = moved[place] + sign * step
            values.append(loss(mp, call, {**exact, name: moved}))
        found.append(rational((values[0] - values[1]) / (2 * step)))
    return found


def rational(x: Real) -> Fraction:
    """An mpmath number, exactly."""
    sign, mantissa, exponent, _ = x._mpf_
    size: Fraction = int(mantissa) * Fraction(2) ** int(exponent)
    return -size if sign else size


def outside(truth: Enclosure, values: list[Fraction], slack: Fraction, divisor: int = 1) -> int:
    """How many values are outside of the enclosure whose radius is divided by `divisor`."""
    words = zip(truth.hi.ravel(), truth.lo.ravel(), truth.radius.ravel(), values, strict=True)
    return sum(
        abs(Fraction(float(hi)) + Fraction(float(lo)) - value)
        > Fraction(float(radius)) / divisor + slack
        for hi, lo, radius, value in words
    )
