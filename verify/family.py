"""Family: cases that hunt one failure, and how a plan turns and selects them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from verify.case import PROFILES, Case, Inputs, Plan, Profile, Tensor
from verify.operation import (
    FORWARD,
    PACKED,
    Direction,
    OperationName,
    direction_of,
)
from verify.packing import lent


@dataclass(frozen=True)
class Family:
    """A generator of cases that hunts one failure.

    hypothesis   the failure that it looks for: what a wrong kernel does.
    effect       what failing means to a user.
    source       the paper, report or derivation it comes from.
    cases        from a plan to its cases; yields nothing where the plan's operation does not apply.
                 Cases above the plan's profile are left out, and `extensive` repeats the cases
                 with `seeds` seeds.
    packed       the packed operations that it makes cases for by itself; other families lend theirs
                 (`verify.packing.lent`).
    direction    'forward': made for the forward pass; asked for a gradient, it gives a few of its
                 smaller cases with a gradient from above (`with_gradient`).  'backward': made for
                 gradients only.
    seeds        1 where nothing in the family is drawn.
    unavailable  why the family has no cases on this machine, or None.
    """

    name: str
    hypothesis: str
    effect: str
    source: str
    cases: Callable[[Plan], Iterable[Case]] = field(compare=False)
    seeds: int = field(default=3, compare=False)
    unavailable: Callable[[], str | None] | None = field(default=None, compare=False)
    direction: Direction = "forward"
    packed: tuple[OperationName, ...] = ()

    def __post_init__(self) -> None:
        turned = partial(_turned, self.cases, self.direction, self.packed)
        object.__setattr__(self, "cases", partial(_selected, turned, self.seeds))


LARGEST_GRADIENT = 2**19  # scores times columns, so that the truth of a gradient is affordable
GRADIENTS_OF_A_FAMILY = 1  # cases that a family lends beside its smoke cases


def _turned(
    cases: Callable[[Plan], Iterable[Case]],
    direction: Direction,
    packed: tuple[OperationName, ...],
    plan: Plan,
) -> Iterator[Case]:
    """The cases in the direction, and for the layout of tensors, that the plan asks for."""
    if packed or plan.operation in (*PACKED, "cross_entropy"):
        if plan.operation in packed:
            yield from cases(plan)
        elif not packed and direction == "forward":
            yield from lent(cases, plan)
    elif direction_of(plan.operation) == direction:
        yield from cases(plan)
    elif direction == "forward":
        yield from _with_gradients(cases, plan)


def _with_gradients(cases: Callable[[Plan], Iterable[Case]], plan: Plan) -> Iterator[Case]:
    forward = replace(plan, operation=FORWARD[plan.operation])
    standard_ones = 0
    for case in cases(forward):
        if not _affordable(case) or case.needs & {"nonfinite", "empty"}:
            continue
        standard = case.profile == "standard"
        profile: Profile = case.profile
        if standard and standard_ones >= GRADIENTS_OF_A_FAMILY:
            profile = "extensive"
        standard_ones += standard
        yield replace(with_gradient(case, plan), profile=profile)


def _affordable(case: Case) -> bool:
    notes = case.notes
    if "n_q" not in notes:
        return notes.get("rows", 1) * notes.get("n", 1) <= 2**12
    scores = notes["batch"] * notes["heads"] * notes["n_q"] * notes["n_k"]
    return scores * (notes["d"] + notes["d_v"]) <= LARGEST_GRADIENT


def with_gradient(case: Case, plan: Plan) -> Case:
    """The case for the backward operation of the plan: a gradient from above joins its inputs.

    It is standard normal, with ones in the first column, where every error of D has one sign.
    """
    key = (case.family, case.name, "gradient")
    operation = replace(case.operation, name=plan.operation)
    build = partial(_build_with_gradient, case, plan, key)
    return replace(case, operation=operation, build=build, unrounded=None)


def _build_with_gradient(case: Case, plan: Plan, key: tuple[str, ...]) -> Inputs:
    inputs, draws = case.build(), plan.draws(*key)
    if "q" in inputs.tensors:
        name, shape = "do", (*inputs["q"].shape[:3], inputs["v"].shape[3])
    else:
        name, shape = "dy", inputs["x"].shape
    values = draws.normal(shape)
    values[..., 0] = 1.0
    return Inputs({**inputs.tensors, name: Tensor.rounded(plan.format, values)}, inputs.mask)


def _selected(cases: Callable[[Plan], Iterable[Case]], seeds: int, plan: Plan) -> Iterator[Case]:
    reached = PROFILES[: PROFILES.index(plan.profile) + 1]
    for again in range(seeds if plan.profile == "extensive" else 1):
        for case in cases(replace(plan, seed=plan.seed + again)):
            if case.profile in reached and (plan.format.width > 8 or _fits(case)):
                yield replace(case, name=f"{case.name}-seed+{again}") if again else case


def _fits(case: Case) -> bool:
    """Whether an 8-bit format can hold the case: most thresholds lie outside its range."""
    try:
        case.build()
    except OverflowError:
        return False
    return True
