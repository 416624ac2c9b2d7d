"""The fast tier on a torch device, tried on CPU tensors: same truth and radii, own assumptions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from references import arb, fast
from references.enclosure import ARB, FAST_PLUS
from references.fast import (
    device,
    device_assumptions,
    device_pairs,
    device_sums,
    heads,
)
from references.fast.device_pairs import Exponential, divide, product_error, tree_sum
from tests.references.test_fast_attention import OPTIONS, draw, require_same_truth
from tests.references.test_fast_fuzz import EXTRA_BITS, Tally, random_case


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_option_agrees_with_the_host(name: str, dtype: str) -> None:
    """2 batches, 4 heads on 2 kv heads, 70 queries, 90 keys, d = 9, d_v = 3."""
    q, k, v = draw(7, (2, 4, 70, 9), dtype), draw(8, (2, 2, 90, 9), dtype), draw(9, (2, 2, 90, 3))
    mine = fast.attention(q, k, v, device="cpu", **OPTIONS[name])
    require_same_truth(mine, fast.attention(q, k, v, **OPTIONS[name]))
    if name not in ("sinks", "infinite sinks"):
        assert (mine.output.tier == ARB).mean() < 0.05


def test_blocks_of_rows_and_chunks_agree_with_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 keys in blocks of 7 rows: enclosures that meet those of the host, radii of their size."""
    monkeypatch.setattr(device, "MOST_SCORES", 7 * 300)
    q, k, v = draw(1, (1, 2, 40, 64)), draw(2, (1, 1, 300, 64)), draw(3, (1, 1, 300, 16))
    mine, host = fast.attention(q, k, v, device="cpu"), fast.attention(q, k, v)
    require_same_truth(mine, host)
    assert (mine.output.radius <= 2.0 * host.output.radius).all()
    assert (mine.output.tier != ARB).all()


def test_rows_climb_to_one_more_slice() -> None:
    """A winner with a small value needs it, as on the host."""
    q, k, v = np.ones((1, 1, 1, 1)), np.zeros((1, 1, 200, 1)), draw(3, (1, 1, 200, 1), "float16")
    k[..., 0, 0], v[..., 0, 0] = 14.0, 2.0**-10
    found = fast.attention(q, k, v, device="cpu")
    assert int(found.output.tier[0, 0, 0]) == FAST_PLUS
    require_same_truth(found, arb.attention(q, k, v))


def tally(seed: int, rows: int) -> Tally:
    """Random cases of the fuzz until this many rows were compared with Arb at 1200 bits."""
    r, found = np.random.default_rng(seed), Tally()
    while found.rows < rows:
        case = random_case(r)
        truth = case.by(arb.attention, extra_bits=EXTRA_BITS)
        mine = case.by(fast.attention, device="cpu")
        assert np.array_equal(mine.output.classes, truth.output.classes)
        found.add(mine.output, truth.output)
        lse = Tally()
        lse.add(mine.lse, truth.lse)
        found.misses += lse.misses
    return found


def test_random_rows_lie_inside_their_radius() -> None:
    """No miss, and the radius is not so wide that a thousandth of it would do."""
    found = tally(seed=1, rows=400)
    assert found.misses == 0
    assert found.worst > 0.001


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 208))
def test_twenty_thousand_random_rows_lie_inside_their_radius(seed: int) -> None:
    """8 seeds of 2500 rows."""
    found = tally(seed, rows=2500)
    assert found.misses == 0
    assert found.worst > 0.01


def test_lost_errors_of_products_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the error terms of the scale's products, the truth leaves the radius."""

    def lost(a: Any, b: Any, p: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(p)

    assert device_assumptions.unusable("cpu") is None
    monkeypatch.setattr(device, "product_error", lost)
    assert tally(seed=3, rows=100).misses > 0


def test_lost_errors_of_sums_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of P V added up without their error terms: the truth leaves the radius."""

    def plain(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x.sum(dim=-1)
        return total, torch.zeros_like(total)

    q, k = np.ones((1, 1, 4, 1)), 0.1 * draw(2, (1, 1, 1000, 1), "float16")
    k, v = (np.asarray(x.astype(np.float32), np.float64) for x in (k, np.exp(2 * k)))
    truth, whole, lossy = arb.attention(q, k, v), Tally(), Tally()
    whole.add(fast.attention(q, k, v, device="cpu").output, truth.output)
    monkeypatch.setattr(device_sums, "tree_sum", plain)
    lossy.add(fast.attention(q, k, v, device="cpu").output, truth.output)
    assert whole.misses == 0
    assert lossy.misses > 0


def exact(*numbers: torch.Tensor) -> list[Fraction]:
    """Sums of the numbers, element by element."""
    columns = [x.reshape(-1).tolist() for x in numbers]
    return [sum(map(Fraction, row), Fraction(0)) for row in zip(*columns, strict=True)]


def test_exponential_is_within_its_bound() -> None:
    """2000 points of [-300, 0] and the ends: |e| <= 2^-100 + |x| 2^-102."""
    import flint

    r = np.random.default_rng(4)
    xh = np.concatenate((-300 * r.random(1000), -np.exp2(r.uniform(-60, 3, 1000)), [0.0, -300.0]))
    xl = xh * r.uniform(-1, 1, len(xh)) * 2.0**-53
    ph, pl = Exponential("cpu")(torch.from_numpy(xh), torch.from_numpy(xl))
    before, flint.ctx.prec = flint.ctx.prec, 300
    try:
        arguments = exact(torch.from_numpy(xh), torch.from_numpy(xl))
        for x, y in zip(arguments, exact(ph, pl), strict=True):
            value = flint.arb(flint.fmpq(x.numerator, x.denominator)).exp()
            error = abs(flint.arb(flint.fmpq(y.numerator, y.denominator)) / value - 1)
            assert error < flint.arb(2) ** -100 + abs(float(x)) * flint.arb(2) ** -102
    finally:
        flint.ctx.prec = before


def test_products_quotients_and_sums_keep_their_guarantee() -> None:
    """product_error exactly; divide up to 32 u^2; tree_sum far below a rounding."""
    r = np.random.default_rng(5)
    a, b = (
        torch.from_numpy(r.standard_normal(500) * np.exp2(r.uniform(-99, 99, 500))) for _ in "ab"
    )
    p = a * b
    error = product_error(a, b, p)
    products = [x * y for x, y in zip(exact(a), exact(b), strict=True)]
    assert products == exact(p, error)
    low = a * 2.0**-53 * 0.7
    q, rest = divide(a, low, b, b * 2.0**-54)
    for x, y, z in zip(exact(a, low), exact(b, b * 2.0**-54), exact(q, rest), strict=True):
        assert abs(x / y - z) <= 32 * Fraction(2) ** -106 * abs(x / y)
    for m in (1, 2, 3, 7, 64, 500):
        high, more = tree_sum(a[:m])
        size = sum(map(abs, exact(a[:m])), Fraction(0))
        distance = abs(exact(high[None], more[None])[0] - sum(exact(a[:m])))
        assert distance <= 100 * Fraction(2) ** -106 * size


def test_a_device_that_lacks_what_the_proof_needs_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A product without its error term, and a device that does not exist."""
    device_assumptions.unusable.cache_clear()
    assert device_assumptions.unusable("cpu") is None
    device_assumptions.unusable.cache_clear()
    monkeypatch.setattr(device_assumptions, "product_error", lambda a, b, p: torch.zeros_like(p))
    q = draw(1, (1, 1, 2, 2))
    with pytest.raises(RuntimeError, match=r"'cpu' cannot be used.* lacks the error of a product"):
        fast.attention(q, q, q, device="cpu")
    device_assumptions.unusable.cache_clear()
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="device 'cuda' cannot be used: no float64 on cuda"):
            fast.attention(q, q, q, device="cuda")


def test_products_that_lose_bits_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in binary32, as an emulation with fewer bits would give."""
    device_assumptions.unusable.cache_clear()
    whole = torch.Tensor.__matmul__

    def fewer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return whole(a.float(), b.float()).double()

    monkeypatch.setattr(torch.Tensor, "__matmul__", fewer)
    assert "not exact" in str(device_assumptions.unusable("cpu"))
    monkeypatch.undo()
    device_assumptions.unusable.cache_clear()


def test_large_calls_ask_for_a_cuda_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """From LARGE scores on, where CUDA is there and can carry the proof; else the host."""
    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(device_assumptions, "unusable", lambda name: asked.append(name))
    assert fast._place(None, fast.LARGE - 1) is None
    assert fast._place(None, fast.LARGE) == "cuda"
    monkeypatch.setattr(device_assumptions, "unusable", lambda name: "emulated")
    assert fast._place(None, fast.LARGE) is None
    assert asked == ["cuda"]


@pytest.mark.cuda
def test_cuda_agrees_with_the_host() -> None:
    """1024 queries and keys in fp16 and fp32; same enclosures up to radii."""
    for dtype in ("float16", "float32"):
        q, k, v = (draw(i, (1, 2, 1024, 64), dtype) for i in range(3))
        mine = fast.attention(q, k, v, device="cuda", causal=True)
        require_same_truth(mine, fast.attention(q, k, v, causal=True))
        assert (mine.output.tier != ARB).mean() > 0.99


def test_hosts_blocks_do_not_use_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a device never makes an engine."""
    monkeypatch.setattr(heads, "_engine", lambda name: pytest.fail(f"asked for {name}"))
    fast.attention(*(draw(i, (1, 1, 8, 4)) for i in range(3)))
    assert device_pairs.SPLITTER == 2.0**27 + 1
