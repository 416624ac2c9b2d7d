"""Hunt: one kernel, the families and properties that are tried on it, and what each found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from verify import families, properties
from verify.calling import Bench
from verify.case import Case, Inputs, Plan, Profile
from verify.certificate import Record
from verify.formats import Format
from verify.judge import Verdict
from verify.kernel import Kernel
from verify.operation import OperationName
from verify.pipeline import examine
from verify.properties import Trial
from verify.selftest.expected import LEAST_MARGIN
from verify.worker import Worker, load_or_explain

# A long square says nothing about a control that shorter rows do not, and takes minutes to judge.
LEFT_OUT = ("long_square", "real_minilm")
STOPS = (Verdict.FAIL, Verdict.INTEGRITY)
# Properties that refute by a ratio of their own, which is the record's tightness then.
BY_RATIO = ("property:split_and_merge", "property:equivalent_inputs")


@dataclass(frozen=True)
class Kill:
    """How a family or property refuted a kernel.

    margin   lower end of error / bound in the deciding element; inf where a class or bits decide
    """

    check: str
    margin: float
    case: str
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a hunt found.

    kills      by family or property; the first of each with enough margin, else the largest
    tried      families and properties with at least one record
    problems   records that are neither a refutation nor an agreement (ERROR, INCONCLUSIVE)
    """

    kernel: str
    format: str
    operation: str
    kills: dict[str, Kill] = field(default_factory=dict)
    tried: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    records: int = 0

    @property
    def margin(self) -> float:
        return max((k.margin for k in self.kills.values()), default=0.0)


@dataclass
class Ground:
    """Cases of one operation in one format, built once and shared by all kernels."""

    operation: OperationName
    format: Format
    bench: Bench
    seed: int = 0
    profile: Profile = "standard"
    _cases: dict[str, list[Case]] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return Plan(self.operation, self.format, self.profile, self.seed)

    def cases(self, family: str) -> list[Case]:
        """The cases of a family, each built at most once."""
        if family not in self._cases:
            found = families.family(family)
            absent = found.unavailable is not None and found.unavailable() is not None
            cases = [] if absent else [_built_once(c) for c in found.cases(self.plan)]
            self._cases[family] = cases
        return self._cases[family]

    def families(self) -> list[str]:
        """Names of the families that have a case here."""
        return [n for n in families.names() if n not in LEFT_OUT and self.cases(n)]


def _built_once(case: Case) -> Case:
    memory: list[Inputs] = []

    def build() -> Inputs:
        if not memory:
            memory.append(case.build())
        return memory[0]

    return replace(case, build=build)


def load(worker: Worker, spec: str) -> Kernel:
    """The kernel in a fresh state: a factory is called again, so that no family inherits a plan."""
    return Kernel.from_description(load_or_explain(worker, spec, None), {})


def hunt(
    spec: str, ground: Ground, worker: Worker, chosen: Iterable[str], *, patient: bool = True
) -> Outcome:
    """Try families and properties on a kernel, each until it refutes with enough margin.

    patient    go on after an error (a cheat that hangs would hang in every case)
    """
    kills: dict[str, Kill] = {}
    tried, problems, count = [], [], 0
    for name in chosen:
        kernel = load(worker, spec)
        for record in _records(name, kernel, ground):
            count += 1
            if name not in tried:
                tried.append(name)
            if record.verdict in (Verdict.ERROR, Verdict.INCONCLUSIVE):
                problems.append(f"{record.verdict} in {record.case}: {record.reason}")
            if record.verdict in STOPS:
                kill = Kill(record.check, margin_lower(record), record.case, record.reason)
                if name not in kills or kill.margin > kills[name].margin:
                    kills[name] = kill
                if kill.margin >= LEAST_MARGIN:
                    break
            if problems and not patient:
                break
    return Outcome(
        spec, ground.format.name, ground.operation, kills, tuple(tried), tuple(problems), count
    )


def _records(name: str, kernel: Kernel, ground: Ground) -> Iterator[Record]:
    """Records of a family or property, those that the kernel claims."""
    if name in properties.names():
        found = properties.property_named(name)
        if found.refusal(kernel) is None:
            yield from found.tried(Trial(kernel, ground.format, ground.bench, ground.plan))
        return
    for case in ground.cases(name):
        if kernel.out_of_scope(case) is None:
            yield examine(case, kernel, ground.bench)


def margin_lower(record: Record) -> float:
    """Lower end of error / bound of a refutation; inf where no number decides."""
    if record.check == "property:signed_mean":
        return float(record.tightness or 0.0)
    found = record.finding
    numeric = record.check == "bound" or record.reason.endswith("beyond the bound")
    if not numeric and record.check in BY_RATIO:
        return float(record.tightness or 0.0)
    if not numeric or found is None or found.error is None or found.bound is None:
        return math.inf
    if not found.bound:
        return math.inf
    return (found.error - 2 * (found.truth_radius or 0.0)) / found.bound
