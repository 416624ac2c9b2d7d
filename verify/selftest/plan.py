"""What a selftest runs: kernels by kind, and the families and properties to try on each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from verify import properties
from verify.selftest.expected import Expected
from verify.selftest.hunt import Ground

FORMATS = ("fp16", "bf16", "fp32")
# Small and general: what a right kernel is tried on in the default run.
QUICK = (
    "asymmetric_sizes", "block_edges", "boolean_masks", "causal", "empty_rows", "exact_scores",
    "first_block_masked", "grouped_heads", "nonfinite_visible", "one_key", "p_subnormal",
    "seed_case", "sinks", "softcap", "staircase_down", "staircase_up", "windows",
    "gradient_block_edges", "gradient_reductions", "large_lse_gradient", "offset_values_gradient",
)  # fmt: skip
# Properties of many calls: the default run tries each on a right kernel in one of its formats.
LONG = ("option_has_effect", "split_and_merge")


@dataclass(frozen=True)
class Member:
    """One kernel of the selftest in one format."""

    kernel: str
    kind: str  # control, right or cheat
    operation: str
    format: str


def members(described: list[dict[str, Any]], expected: Expected) -> list[Member]:
    """All controls (with their variants), right kernels and cheats, in every format they claim."""
    by_name = {d["name"]: d for d in described}
    specs = [n for n in by_name if n.startswith(("control-", "right-", "cheat-"))]
    specs += [v for v in expected.variants if v.partition("[")[0] in by_name]
    found = []
    for spec in sorted(specs):
        d = by_name[spec.partition("[")[0]]
        kind = spec.partition("-")[0]
        formats = [f for f in FORMATS if f in d["formats"]]
        for fmt in formats[:1] if kind == "cheat" else formats:
            found.append(Member(spec, kind, d["operation"], fmt))
    return found


def chosen(member: Member, ground: Ground, expected: Expected, *, full: bool) -> list[str]:
    """The families and properties to try on a member."""
    everything = ground.families() + properties.names()
    if full:
        return everything
    if member.kind == "right":
        turn = [n for n in properties.names() if n not in LONG or _its_turn(member, n)]
        return [n for n in QUICK if ground.cases(n)] + turn
    if member.kind == "cheat":
        return [expected.cheats.get(member.kernel, {}).get("where", "changed_attribute")]
    named = sorted(expected.kills(member.kernel, member.format))
    return named + _more(member, [n for n in everything if n not in named])


def _its_turn(member: Member, name: str) -> bool:
    """True in one of the formats, another one from kernel to kernel."""
    drawn = hashlib.sha256(f"{member.kernel} {name}".encode()).digest()[0]
    return FORMATS[drawn % len(FORMATS)] == member.format


def _more(member: Member, others: list[str], number: int = 2) -> list[str]:
    """Two more, other ones for every control but the same in every run."""

    def draw(name: str) -> bytes:
        return hashlib.sha256(f"{member.kernel} {name}".encode()).digest()

    return sorted(others, key=draw)[:number]
