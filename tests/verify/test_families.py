"""Every family: says what it hunts, needs what it uses, and gives the committed bits."""

from __future__ import annotations

import hashlib
import importlib
import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from verify import families
from verify.case import PROFILES, Case, Inputs, Plan, Profile
from verify.declaration import FEATURES
from verify.families import _manifest, _minilm
from verify.families.real_extract import _tensors
from verify.formats import FORMATS, Format
from verify.operation import OPERATIONS, PACKED, OperationName

INSTALLED = {"real_minilm"}
NAMES = [name for name in families.names() if name not in INSTALLED]
FORMAT_NAMES = ("fp16", "bf16", "fp32")
ROOT = Path(__file__).parents[2]


@cache
def _cases(operation: OperationName, fmt: str, profile: Profile = "standard") -> tuple[Case, ...]:
    return tuple(families.cases(Plan(operation, FORMATS[fmt], profile), NAMES))


@pytest.mark.parametrize("name", families.names())
def test_a_family_says_what_it_hunts(name: str) -> None:
    family = families.family(name)
    for text in (family.hypothesis, family.effect, family.source):
        assert len(text.split()) >= 4
        assert text == text.strip()
    assert family.name == name
    assert "rigor" not in family.source
    doc = importlib.import_module(f"verify.families.{name}").__doc__
    assert doc is not None
    assert len(doc.split()) >= 15


@pytest.mark.parametrize("name", NAMES)
def test_a_family_has_a_case_in_the_standard_profile(name: str) -> None:
    family = families.family(name)
    assert any(
        True
        for operation in OPERATIONS
        for fmt in FORMAT_NAMES
        for _ in family.cases(Plan(operation, FORMATS[fmt]))
    )


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fmt", FORMAT_NAMES)
def test_ids_are_unique_and_profiles_nested(operation: OperationName, fmt: str) -> None:
    ids = []
    for profile in PROFILES:
        found = [case.id for case in _cases(operation, fmt, profile)]
        assert len(set(found)) == len(found)
        ids.append(set(found))
    assert ids[0] < ids[1] < ids[2]


@pytest.mark.parametrize("fmt", FORMAT_NAMES)
def test_profiles_keep_their_size(fmt: str) -> None:
    assert 25 <= len(_cases("attention", fmt, "smoke")) <= 45
    assert 300 <= len(_cases("attention", fmt)) <= 420
    assert 10 <= len(_cases("softmax", fmt, "smoke")) <= 25
    assert 80 <= len(_cases("softmax", fmt)) <= 175


@pytest.mark.parametrize("fmt", FORMAT_NAMES)
def test_rows_are_few_where_they_are_long(fmt: str) -> None:
    """What keeps the truth affordable; only the two full squares are exempt."""
    full = 0
    for case in _cases("attention", fmt):
        notes = case.notes
        rows = notes["batch"] * notes["heads"] * notes["n_q"]
        if notes.get("full"):
            full += 1
        elif notes["n_k"] > 600:
            assert rows <= 8, case.id
        else:
            assert rows * notes["n_k"] <= 2**18, case.id
    assert full == 2


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_plain_kernel_gets_a_case_of_most_families(operation: OperationName) -> None:
    """attention(q, k, v) without any option, square, in multiples of 16."""
    plain = {case.family for case in _cases(operation, "fp16") if not case.needs}
    shape = {"ragged", "cross", "d_v", "gqa"}
    optionless = {case.family for case in _cases(operation, "fp16") if case.needs <= shape}
    assert len(plain) >= (25 if operation == "attention" else 18)
    assert len(optionless) >= (45 if operation == "attention" else 24)


def _used(case: Case, inputs: Inputs) -> set[str]:
    """The features that built inputs show, read off their shapes and values."""
    tensors = {name: inputs[name].values for name in inputs.tensors}
    used: set[str] = tensors.keys() & {"bias", "sinks"}
    used |= set(case.operation.options()) - {"corner"}
    removable = {"bias"}  # -inf in a bias removes a key and is not counted as non-finite
    if any(not np.isfinite(x).all() for name, x in tensors.items() if name not in removable):
        used.add("nonfinite")
    if any(0 in x.shape for x in tensors.values()):
        used.add("empty")
    if not case.operation.is_attention:
        return used | ({"ragged"} if tensors["x"].shape[1] % 16 else set())
    q, k, v = (tensors[name].shape for name in "qkv")
    if case.operation.name in PACKED:
        return used | _used_of_sequences(inputs)
    used |= {"mask"} if inputs.mask is not None else set()
    used |= {"gqa"} if q[1] != k[1] else set()
    used |= {"d_v"} if v[3] != q[3] else set()
    used |= {"cross"} if q[2] != k[2] else set()
    used |= {"ragged"} if q[2] % 16 or k[2] % 16 else set()
    return used


def _used_of_sequences(inputs: Inputs) -> set[str]:
    """The same for packed sequences, whose mask is what their lengths say."""
    q, k, v = (inputs[name].shape for name in "qkv")
    if "cache_seqlens" in inputs.integers:
        lengths = [(q[2], int(n)) for n in inputs.integers["cache_seqlens"]]
    else:
        starts = [np.diff(inputs.integers[f"cu_seqlens_{x}"]).tolist() for x in "qk"]
        lengths = list(zip(*starts, strict=True))
    shown = {
        "gqa": q[1] != k[1],
        "d_v": v[3] != q[3],
        "cross": any(a != b for a, b in lengths),
        "ragged": any(a % 16 or b % 16 for a, b in lengths),
        "empty": any(0 in pair for pair in lengths),
    }
    return {name for name, present in shown.items() if present}


def _check_shapes(case: Case, inputs: Inputs) -> None:
    q, k, v = (inputs[name].shape for name in "qkv")
    scores = (q[0], q[1], q[2], k[2])
    assert k[:3] == v[:3]
    assert (q[0], q[3]) == (k[0], k[3])
    assert k[1] == 0 or q[1] % k[1] == 0
    for extra in (inputs.mask, inputs.values("bias")):
        if extra is not None:
            assert np.broadcast_shapes(extra.shape, scores) == scores
    if "sinks" in inputs.tensors:
        assert inputs["sinks"].shape == (q[1],)
    for axis, size in zip(("batch", "heads", "n_q", "d"), q, strict=True):
        assert case.notes[axis] == size
    assert (case.notes["kv_heads"], case.notes["n_k"], case.notes["d_v"]) == (k[1], k[2], v[3])


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fmt", FORMAT_NAMES)
def test_every_case_needs_what_it_uses_and_has_the_committed_bits(
    operation: OperationName, fmt: str
) -> None:
    committed = families.manifest()[operation]
    cases = _cases(operation, fmt)
    for case in cases:
        inputs = case.build()
        assert case.needs <= set(FEATURES)
        assert case.needs == _used(case, inputs), case.id
        assert case.operation.corner == "bottom-right"
        assert inputs.digest == committed[case.id], case.id
        assert all(tensor.format is FORMATS[fmt] for tensor in inputs.tensors.values())
        if operation == "attention":
            _check_shapes(case, inputs)
    assert {case.id for case in cases} == {i for i in committed if i.split("/")[1] == fmt}


def test_the_manifest_has_no_case_of_installed_packages() -> None:
    assert not any(
        case.startswith(tuple(_manifest.INSTALLED))
        for digests in families.manifest().values()
        for case in digests
    )


@pytest.mark.parametrize("operation", OPERATIONS)
def test_building_twice_gives_the_same_bits(operation: OperationName) -> None:
    for case in _cases(operation, "bf16", "smoke"):
        assert case.build().digest == case.build().digest


def test_cases_travel_to_other_processes() -> None:
    for operation in OPERATIONS:
        for case in _cases(operation, "fp16"):
            assert pickle.loads(pickle.dumps(case)).id == case.id


def test_seeds_change_what_is_drawn() -> None:
    one, two = (
        {c.id: c.build().digest for c in families.cases(Plan("softmax", FORMATS["fp16"], seed=s))}
        for s in (0, 1)
    )
    shared = one.keys() & two.keys()
    assert {i.partition("/")[0] for i in one.keys() ^ two.keys()} == {"drawn_shapes"}
    assert sum(one[i] != two[i] for i in shared) > len(shared) / 2


@pytest.mark.parametrize("fmt", [FORMATS["e4m3"], FORMATS["e5m2"]], ids=lambda f: f.name)
def test_8_bit_formats_have_cases_of_their_own(fmt: Format) -> None:
    for operation in OPERATIONS:
        found = list(families.cases(Plan(operation, fmt, "smoke"), NAMES))
        assert len(found) >= 15
        for case in found:
            assert case.build().digest


def test_the_committed_extract_is_small_real_and_described() -> None:
    folder = Path(_manifest.__file__).parent
    path = folder / "real_extract.safetensors"
    text = (folder / "real_extract.md").read_text(encoding="utf-8")
    assert path.stat().st_size < 2**20
    assert hashlib.sha256(path.read_bytes()).hexdigest() in text
    assert "Apache License" in text
    tensors = _tensors()
    assert tensors["mask"][0].all()
    assert not tensors["mask"][1].all()
    assert all(tensors[f"{layer}.q"].dtype == np.float32 for layer in range(6))


def test_the_real_model_is_left_out_with_a_reason_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family = families.family("real_minilm")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert family.unavailable is not None
    assert "pip install" in (family.unavailable() or "")
    assert list(family.cases(Plan("attention", FORMATS["fp32"]))) == []


@pytest.mark.skipif(_minilm.missing() is not None, reason="the extra `real` is not installed")
def test_the_real_model_gives_all_layers_and_masks() -> None:
    cases = list(families.family("real_minilm").cases(Plan("attention", FORMATS["bf16"])))
    assert {case.notes["layer"] for case in cases} == set(range(6))
    for case in cases:
        inputs = case.build()
        assert case.needs == _used(case, inputs)
        assert np.abs(inputs["q"].values).max() > 1


def test_drawn_shapes_change_with_the_seed_and_cover_every_option() -> None:
    """What a kernel could be made for is another thing under each seed."""
    family = families.family("drawn_shapes")
    plans = [Plan("attention", FORMATS["bf16"], "extensive", seed) for seed in (0, 1)]
    one, other = (list(family.cases(plan)) for plan in plans)
    assert len({c.name for c in one} & {c.name for c in other}) < len(one) / 4
    needs = frozenset().union(*(case.needs for case in one))
    assert needs >= {"causal", "window", "softcap", "mask", "bias", "sinks", "gqa", "d_v", "cross"}
    sizes = sorted({case.notes["n_k"] for case in one})
    assert sizes[0] == 1
    assert sizes[-1] > 256


LIMITS = {
    ("attention", "standard"): {
        "n_q": "{} queries", "n_k": "{} keys", "heads": "{} heads", "batch": "a batch of {}",
        "d": "d of {}",
    },
    ("softmax", "standard"): {"rows": "{} rows", "n": "rows of {} entries"},
    ("softmax", "extensive"): {"rows": "{} rows"},
    ("attention", "extensive"): {
        "n_q": "{} queries", "n_k": "{} keys", "batch": "a batch of {}",
    },
}  # fmt: skip


@pytest.mark.parametrize(("operation", "profile"), LIMITS)
def test_the_readme_says_how_far_sizes_go(operation: OperationName, profile: Profile) -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    found = _cases(operation, "fp16", profile)
    for axis, words in LIMITS[operation, profile].items():
        most = max(int(case.notes.get(axis, 0)) for case in found)
        assert words.format(most) in text
