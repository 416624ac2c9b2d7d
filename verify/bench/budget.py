"""Budget: how much time each timing may take, so that a run ends when it was promised to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

LEAST_ROUNDS, MOST_ROUNDS = 5, 51
FEW_ROUNDS = 3  # where LEAST_ROUNDS would overrun the budget


@dataclass
class Budget:
    """Seconds of a run of `planned` timings; what is not spent goes to those that follow.

    Speeds are learned from one timing to the next of the same kind, so that a call which would take
    minutes is left out instead of begun.
    """

    seconds: float
    planned: int = 0
    _begun: int = 0
    _started: float = field(default_factory=time.monotonic)
    _rates: dict[object, float] = field(default_factory=dict)

    def share(self) -> float:
        """Begin the next timing: the seconds that it may take."""
        left = max(self.seconds - (time.monotonic() - self._started), 1.0)
        self._begun += 1
        return left / max(self.planned - self._begun + 1, 1)

    def learn(self, kind: object, work: float, pair_seconds: float) -> None:
        """Remember how long a pair of calls took for its work: the best rate so far, since small
        calls are mostly overhead."""
        rate = pair_seconds / work
        self._rates[kind] = min(rate, self._rates.get(kind, rate))

    def too_long(self, kind: object, work: float, share: float) -> str | None:
        """Why a timing is left out: a warm-up and FEW_ROUNDS are predicted to overrun its share."""
        if kind not in self._rates:
            return None
        seconds = work * self._rates[kind]
        if (FEW_ROUNDS + 1) * seconds <= share:
            return None
        return f"a round takes about {seconds:.1f} s: more than fits into {share:.0f} s (--budget)"


def rounds(pair_seconds: float, wanted: float, share: float) -> int:
    """How many rounds fill the wanted seconds: at least LEAST_ROUNDS where its share allows it."""
    least = LEAST_ROUNDS if LEAST_ROUNDS * pair_seconds <= share else FEW_ROUNDS
    return min(max(int(wanted / max(pair_seconds, 1e-9)), least), MOST_ROUNDS)
