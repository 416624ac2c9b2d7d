"""The bench on a real device."""

from __future__ import annotations

import pytest

from verify.bench.integrity import Clocks, problems
from verify.bench.roofline import measure
from verify.bench.session import Ask, Session
from verify.certifying import Request, worker_for
from verify.judge import Verdict

pytestmark = pytest.mark.cuda


def test_events_and_wall_clock_agree_on_torchs_own_kernel() -> None:
    """An honest kernel on a device is not accused, and its rows are within the bound."""
    request = Request(("torch-sdpa-cuda",), formats="bf16", device="cuda")
    ask = Ask(request, "prefill:1x8x1024x64,decode:4x8x4096x64", rounds=7, wait=0.0)
    session = Session(ask, worker_for(request))
    try:
        for item in session.plan():
            rounds = session.rounds(item)
            rounds.warm_up()
            for _ in range(7):
                rounds.before()
                rounds.call()
                rounds.after()
            times = rounds.times
            clocks = Clocks(tuple(times.inside), tuple(times.outside), tuple(times.device))
            assert len(times.device) == 7
            assert problems(clocks, 0.0, None) == ()
            assert {r.verdict for r in session._checked(item, rounds)} == {Verdict.PASS}
    finally:
        session.close()


def test_the_roofline_of_a_device_is_that_of_a_device() -> None:
    """Tensor cores: bf16 is faster than binary32; a copy of 256 MiB moves over 100 GB/s."""
    found = measure("cuda", ["bf16"])
    assert found.products["bf16"] > 2 * found.products["fp32"]
    assert found.products["tf32"] > found.products["fp32"]
    assert found.copies[2**28] > 1e11
