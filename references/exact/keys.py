"""Which keys a query sees: the sentence of the definition, one pair at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Sight:
    """What the causal corner and the window allow, for n_q queries and n_k keys."""

    n_q: int
    n_k: int
    causal: bool
    corner: str
    window: tuple[int, int] | None

    def __post_init__(self) -> None:
        if self.corner not in ("bottom-right", "top-left"):
            raise ValueError(f"corner is {self.corner!r}: use 'bottom-right' or 'top-left'")
        if self.window is not None and min(self.window) < -1:
            raise ValueError(f"window is {self.window}: each side is -1 (no limit) or a count >= 0")

    def sees(self, i: int, j: int) -> bool:
        """Query i may look at key j."""
        place = i if self.corner == "top-left" else i + self.n_k - self.n_q
        left, right = self.window if self.window is not None else (-1, -1)
        return not (
            (self.causal and j > place)
            or (left >= 0 and j < place - left)
            or (right >= 0 and j > place + right)
        )


def visible_keys(sight: Sight, i: int, allowed: list[bool], bias: list[float]) -> list[int]:
    """The keys that take part in row i: seen, allowed by the mask, and without a bias of -inf."""
    return [j for j in range(sight.n_k) if allowed[j] and bias[j] != -math.inf and sight.sees(i, j)]
