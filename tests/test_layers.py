"""The architecture as tests: imports point down, the truth and the kernels never meet."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each module may import only from its own layer or from earlier ones.
LAYERS = [
    ["references.enclosure"],
    ["references.error_free"],
    ["references.exact", "references.arb", "references.decompose", "references.store"],
    ["references.fast"],
    ["references"],
    ["verify.errors"],
    ["verify.operation", "verify.formats", "verify.integers", "verify.evidence"],
    ["verify.declaration", "verify.tensor_files", "verify.foreign"],
    ["verify"],
    ["verify.case", "verify.packing", "verify.arithmetic"],
    ["verify.presets", "verify.family"],
    ["verify.families", "verify.bounds"],
    ["verify.audit"],
    ["verify.grades", "verify.metrics", "verify.truth"],
    ["verify.judge", "verify.vectors"],
    [
        "verify.certificate",
        "verify.timings",
        "verify.backing",
        "verify.sources",
        "verify.operators",
        "verify.kernel",
        "verify.tensors_torch",
        "verify.autograd",
        "verify.tensors_numpy",
        "verify.tensors_raw",
    ],
    ["verify.kernels", "verify.controls"],
    ["verify.c_kernel", "verify.command_kernel"],
    ["verify.describing"],
    ["verify.stopwatch", "verify.worker_process", "verify.worker"],
    ["verify.in_process", "verify.returned"],
    ["verify.calling"],
    ["verify.limits", "verify.parts", "verify.case_grades"],
    ["verify.findings"],
    ["verify.pipeline"],
    ["verify.properties"],
    ["verify.waivers", "verify.declared_file", "verify.journal"],
    ["verify.campaign"],
    ["verify.certifying", "verify.terminal", "verify.listing", "verify.report"],
    ["verify.exporting"],
    ["verify.bench", "verify.compare"],
    ["verify.history"],
    [
        "verify.reproducing",
        "verify.publishing",
        "verify.front_page",
        "verify.selftest",
        "verify.session_report",
        "verify.grading",
    ],
    ["verify.studies"],
    ["verify.exit_status"],
    ["verify.commands"],
    ["verify.cli"],
    ["verify.__main__", "verify.pytest_plugin", "verify.conformance"],
]
RANK = {name: number for number, layer in enumerate(LAYERS) for name in layer}


def modules() -> list[tuple[str, Path]]:
    found = []
    for package in ("references", "verify"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append((name, path))
    return found


def rank(name: str) -> int | None:
    """The layer of a module: that of itself or of the nearest package that has one."""
    while name:
        if name in RANK:
            return RANK[name]
        name = name.rpartition(".")[0]
    return None


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.append(node.module)
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def ours(name: str) -> bool:
    return name.partition(".")[0] in ("references", "verify")


@pytest.mark.parametrize(("name", "path"), modules(), ids=[n for n, _ in modules()])
def test_module_has_a_layer_and_imports_only_downwards(name: str, path: Path) -> None:
    """A module imports from its own package, its own layer or earlier ones only."""
    mine = rank(name)
    top = {"verify", "references"}
    assert name in top or (mine is not None and mine != RANK.get(name.partition(".")[0])), (
        f"{name} has no layer: give it one in LAYERS"
    )
    known = {n for n, _ in modules()}
    for target in imports(path):
        if target not in known or target in top:
            continue
        theirs = rank(target)
        assert theirs is not None
        assert mine is not None
        assert theirs <= mine, f"{name} imports {target}, which lies above it"


@pytest.mark.parametrize("package", ["references"])
def test_truth_knows_nothing_of_kernels(package: str) -> None:
    """No module of the truth imports anything of verify."""
    for name, path in modules():
        if name.startswith(package):
            assert not [t for t in imports(path) if t.startswith("verify")], name


def test_kernels_and_worker_never_import_the_truth() -> None:
    """The process in which kernels live has no way to the truth by import."""
    for name, path in modules():
        inside = ("verify.kernels", "verify.controls", "verify.worker_process", "verify.describing")
        if name.startswith(inside):
            assert not [t for t in imports(path) if t.startswith("references")], name


def test_worker_process_loads_no_module_of_the_truth() -> None:
    """Also indirectly: after loading every kernel, no `references` module is in the worker."""
    program = (
        "import sys; from verify.kernels import load_all; import verify.worker_process; load_all();"
        "bad = [m for m in sys.modules if m.split('.')[0] == 'references']; sys.exit(bool(bad))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("module", ["verify", "verify.cli", "verify.pytest_plugin"])
def test_front_door_loads_no_heavy_library(module: str) -> None:
    """`--help`, and pytest for people who do not use us, load neither torch nor numba nor numpy."""
    heavy = "{'torch', 'numba', 'matplotlib', 'numpy', 'mpmath', 'flint', 'jinja2'}"
    program = f"import sys, {module}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
