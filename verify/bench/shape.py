"""Shape: the sizes of one timed call, and the work that it takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from verify.case import Axes
from verify.errors import UsageError
from verify.formats import Format
from verify.operation import OperationName

HELP = "prefill:BATCHxHEADSxNxD, decode:BATCHxHEADSxN_KxD or rows:ROWSxN"
_FORM = re.compile(r"^(prefill|decode|rows):(\d+(?:x\d+)+)$")


@dataclass(frozen=True)
class Shape:
    """A named call of one operation.

    label   `prefill:1x4x256x64` (batch, heads, n, d), `decode:4x8x1024x64` (one query for each
            head, n_k keys) or `rows:256x4096`
    axes    sizes of a call of attention; None for row operations
    rows    (rows, n) of a row operation; None for attention
    """

    label: str
    axes: Axes | None = None
    rows: tuple[int, int] | None = None

    @classmethod
    def parse(cls, text: str) -> Shape:
        """A shape from its label. Raises UsageError with the known forms."""
        match = _FORM.match(text.strip())
        sizes = [int(size) for size in match[2].split("x")] if match else []
        if match and match[1] == "rows" and len(sizes) == 2 and all(sizes):
            return cls(text.strip(), rows=(sizes[0], sizes[1]))
        if match and match[1] != "rows" and len(sizes) == 4 and all(sizes):
            batch, heads, n, d = sizes
            n_q = n if match[1] == "prefill" else 1
            return cls(text.strip(), axes=Axes(n_q, n, d, batch, heads))
        raise UsageError(f"unknown shape {text!r}; write {HELP} (sizes above 0)")

    @property
    def operation_is_attention(self) -> bool:
        return self.axes is not None

    @property
    def kind(self) -> str:
        """'prefill', 'decode' or 'rows'."""
        return self.label.partition(":")[0]

    @property
    def work(self) -> float:
        """What the time of a call grows with: the products, or the elements of the rows."""
        return self.flops or _product(self.rows or ())

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs by name."""
        if self.axes is not None:
            return {"q": self.axes.q, "k": self.axes.k, "v": self.axes.v}
        assert self.rows is not None
        return {"x": self.rows}

    @property
    def sizes(self) -> tuple[int, ...]:
        """(batch, heads, n_q, n_k, d) or (rows, n)."""
        a = self.axes
        return (a.batch, a.heads, a.n_q, a.n_k, a.d) if a is not None else self.rows or ()

    @property
    def flops(self) -> float:
        """Operations of the two matrix products, 2 n_q n_k (d + d_v) for each head; 0 for rows.

        Exponentials are not counted: this is what no kernel can do without.
        """
        a = self.axes
        if a is None:
            return 0.0
        return 2.0 * a.batch * a.heads * a.n_q * a.n_k * (a.d + a.d_v)

    def bytes(self, fmt: Format, operation: OperationName) -> float:
        """Inputs and output, each moved once."""
        counts = [_product(shape) for shape in self.tensors.values()]
        if self.axes is not None:
            counts.append(_product((*self.axes.q[:3], self.axes.d_v)))
        elif self.rows is not None:
            counts.append(self.rows[0] if operation == "logsumexp" else _product(self.rows))
        return sum(counts) * fmt.width / 8

    @property
    def tokens(self) -> float:
        """Queries of one call (batch x n_q), or rows."""
        if self.axes is not None:
            return float(self.axes.batch * self.axes.n_q)
        assert self.rows is not None
        return float(self.rows[0])


def _product(sizes: tuple[int, ...]) -> float:
    total = 1.0
    for size in sizes:
        total *= size
    return total
