"""Accumulators against exact sums: never exceeded, in any order and in the declared one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.verify.bounds.inputs import seed_of
from tests.verify.bounds.machine import Array, accumulate, rounded
from verify.arithmetic import A100, H100, H100_FP8, Accumulator, ArithmeticModel, Chain, TensorCore
from verify.bounds.accumulators import any_order, products_are_exact
from verify.bounds.running import sequential
from verify.errors import UsageError
from verify.formats import FORMATS

K = 128
CASES: dict[str, tuple[Accumulator, str]] = {
    "binary32 chain": (Chain(), "bf16"),
    "binary32 chain of binary32": (Chain(), "fp32"),
    "fp16 chain": (Chain("fp16"), "fp16"),
    "bf16 chain": (Chain("bf16"), "bf16"),
    "truncating chain": (Chain("fp32", "RZ"), "fp16"),
    "truncating bf16 chain": (Chain("bf16", "RZ"), "bf16"),
    "V100": (TensorCore(4, 23), "fp16"),
    "A100": (A100, "fp16"),
    "H100": (H100, "bf16"),
    "H100 in fp8": (H100_FP8, "e4m3"),
    "fp16 output": (TensorCore(16, 25, "fp16", "RN"), "fp16"),
    "promoted fp8": (TensorCore(32, 13, "e8m13", promote=32), "e4m3"),
}


def operands(kind: int, fmt: str) -> tuple[Array, Array]:
    """Normal, one-signed, wide and stagnating data."""
    rng = np.random.default_rng(seed_of(kind, fmt))
    a, b = rng.standard_normal((4, K)), rng.standard_normal((K, 32))
    if kind == 1:
        a, b = np.abs(a), np.abs(b)
    if kind == 2:
        a = a * 2.0 ** rng.integers(-5, 5, a.shape)
    if kind == 3:
        a = np.sign(a)
        b[0] = 64
        b[1:] = 2.0**-4 * (1 + rng.integers(0, 2, b[1:].shape) / 8)
    return rounded(a, fmt), rounded(b, fmt)


@pytest.mark.parametrize("name", CASES)
def test_accumulation_stays_within_both_bounds(name: str) -> None:
    """|error| <= kappa sum |ab| + eta, and <= the running bound of the order that was used."""
    acc, fmt = CASES[name]
    exact = products_are_exact(acc, fmt, fmt)
    limit = any_order(acc, np.array(K), K, exact_products=exact)
    emin = float(FORMATS[fmt].emin)
    for kind in range(4):
        a, b = operands(kind, fmt)
        products = a[:, None, :] * b.T[None]
        found = accumulate(acc, np.zeros((4, 32)), a, b, (emin, emin), flush=False)
        size = np.abs(products).sum(axis=-1)
        error = np.abs(found - products.sum(axis=-1)) - 2.0**-45 * size
        assert (error <= limit.kappa * size + limit.eta).all(), kind
        if not (isinstance(acc, TensorCore) and acc.promote):
            running = sequential(acc, products, exact)[0]
            assert (error <= running + limit.eta).all(), kind


@pytest.mark.parametrize(
    ("acc", "kappa"),
    [(TensorCore(4, 23), 1.91e-5), (A100, 9.5e-6), (H100, 4.8e-6), (Chain(), 127 * 2.0**-24)],
)
def test_kappa_of_known_units(acc: Accumulator, kappa: float) -> None:
    """16-bit products, 128 of them: the published constants."""
    found = any_order(acc, np.array(128), 128, exact_products=True).kappa
    assert float(found) == pytest.approx(kappa, rel=0.01)


def test_promotion_stops_the_growth_of_the_error() -> None:
    """4096 FP8 products: 67 percent without, below 2 percent with promotion every 128."""
    plain = any_order(H100_FP8, np.array(4096), 4096, exact_products=True).kappa
    core = TensorCore(32, 13, "e8m13", promote=128)
    promoted = any_order(core, np.array(4096), 4096, exact_products=True).kappa
    assert float(plain) == pytest.approx(0.68, abs=0.03)
    assert float(promoted) < 0.02


def test_any_order_grows_with_rescales_and_terms() -> None:
    """More terms or more rescales never make the bound smaller; no terms make it 0."""
    for acc, _ in CASES.values():
        terms = np.array([0.0, 1, 2, 10, 100])
        few = any_order(acc, terms, 100, exact_products=True).kappa
        many = any_order(acc, terms, 100, exact_products=True, rescales=7.0).kappa
        assert (np.diff(few) >= 0).all()
        assert (many >= few * (1 - 1e-14)).all()
        assert few[0] == 0


@pytest.mark.parametrize(("acc", "fmt"), [(Chain("fp16"), "fp16"), (Chain(), "bf16")])
def test_stagnation_comes_close_to_the_bound(acc: Chain, fmt: str) -> None:
    """One and many terms just below u: a large part of the bound is reached."""
    u = FORMATS[acc.format].u
    k = 1000
    b = np.full((k, 1), u * 0.99)
    b[0] = 1.0
    found = accumulate(acc, np.zeros((1, 1)), np.ones((1, k)), b, (-14.0, -14.0), flush=False)
    limit = any_order(acc, np.array(k), k, exact_products=True)
    ratio = (b.sum() - found[0, 0]) / (float(limit.kappa) * b.sum())
    assert 0.6 <= ratio <= 1


def test_tensor_core_refuses_wide_operands() -> None:
    """A tensor core multiplies 16-bit operands: binary32 ones must be converted first."""
    with pytest.raises(UsageError, match="declare `convert`"):
        ArithmeticModel(input="fp32", output="fp32", qk=H100)
