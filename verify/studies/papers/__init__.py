"""Published figures, measured again with exact truth: one module per paper, each with `part`.

A paper's figures are data of its module, with their source.  What could not be sourced is left out
and said.  Two conventions: *stored* takes as truth the exact result for the numbers that the kernel
was given; *unrounded* the exact result for the numbers before they were rounded to 16 bits, as the
papers do.  The difference between both is no error of any kernel.
"""

from __future__ import annotations

import importlib
import pkgutil
import time

from verify.studies.document import Document, Part


def modules() -> list[str]:
    """The papers, by year as they name it."""
    names = [entry.name for entry in pkgutil.iter_modules(__path__) if entry.name[0] != "_"]
    return sorted(names, key=lambda n: (importlib.import_module(f"{__name__}.{n}").ORDER, n))


def study(*, small: bool = False) -> Document:
    """Every paper in turn."""
    from verify.studies.running import environment

    start, used = time.monotonic(), time.process_time()
    parts: list[Part] = []
    for name in modules():
        parts.append(importlib.import_module(f"{__name__}.{name}").part(small=small))
    return Document(
        study="papers",
        title="Published figures, measured again",
        lead=(
            "Papers compare attention kernels with float64 on random numbers. Here the same "
            "distributions meet certified truth. Each figure is given beside the paper's, in two "
            "conventions: against the truth of the numbers that the kernel was given (stored), "
            "and against that of the numbers before they were rounded to 16 bits (unrounded)."
        ),
        inputs=(
            "All inputs are drawn with integers only (SplitMix64 keyed by the paper's name and a "
            "seed; a normal number is a sum of twelve uniform ones, so that its tails end at 6 "
            "standard deviations), and have the same bits on every machine. Truth is an enclosure "
            "of proved radius; figures use its middle. Kernels are this project's textbook "
            "kernels in PyTorch on a CPU; what is called a simulation imitates only where numbers "
            "are rounded. The papers' GPUs took no part, and sizes that a paper does not state "
            "were inferred."
        ),
        parts=tuple(parts),
        seconds=round(time.monotonic() - start, 1),
        processor_seconds=round(time.process_time() - used, 1),
        whole=not small,
        environment=environment(),
    )
