"""Why scores are divided by sqrt(d), and why the maximum is subtracted: one module per claim.

Each module defines ORDER and `part(grid, small=...)`; `_grid` measures what most of them read.
"""

from __future__ import annotations

import importlib
import pkgutil
import time

from verify.studies.document import Document


def modules() -> list[str]:
    """The claims in the order in which a reader meets them."""
    names = [entry.name for entry in pkgutil.iter_modules(__path__) if entry.name[0] != "_"]
    return sorted(names, key=lambda n: (importlib.import_module(f"{__name__}.{n}").ORDER, n))


def study(*, small: bool = False) -> Document:
    """The grid once, then every claim."""
    from verify.studies.running import environment
    from verify.studies.scaling._grid import SMALL, Shape, measure

    start, used = time.monotonic(), time.process_time()
    shape = SMALL if small else Shape()
    grid = measure(shape)
    parts = [
        importlib.import_module(f"{__name__}.{name}").part(grid, small=small) for name in modules()
    ]
    return Document(
        study="scaling",
        title="Why attention is scaled, and why the maximum is subtracted",
        lead=(
            "Attention divides its scores by the square root of the head dimension d, and its "
            "softmax subtracts the largest score. Here is what each does: first in exact "
            "arithmetic, then in the formats that hardware computes in."
        ),
        inputs=(
            f"One head, {shape.n_q} queries, {shape.n_k} keys, values of length {shape.d_v}, d "
            f"from {shape.dimensions[0]} to {shape.dimensions[-1]}. Keys, values and the gradient "
            "of the output are normal numbers; queries are normal numbers times the growth, as if "
            "the entries of the query weights had grown so many times. They are drawn with "
            "integers only (SplitMix64 keyed by study and d; twelve uniform numbers added) and "
            "rounded to bf16, so that all formats are given the same numbers, and any machine "
            "draws the same. Exact means an enclosure of proved radius, for gradients by Arb. The "
            "kernels compute in PyTorch on a CPU, each tensor stored in the format."
        ),
        parts=tuple(parts),
        seconds=round(time.monotonic() - start, 1),
        processor_seconds=round(time.process_time() - used, 1),
        whole=not small,
        environment=environment(),
    )
