"""Export: a corpus of inputs without answers, for kernels that nobody can call from here.

The folder holds `index.json` and one safetensors file for each case.  Nothing in it was computed
from a truth or a bound: only recipes of inputs are run.  The index is written last, so a folder
without one is unfinished; running the command again completes it, and every file has the same
bytes on every run.  `docs/how-to/closed-kernels.md` describes the layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import verify
from verify import families
from verify.calling import options_of, output_shapes, outputs_of
from verify.campaign import Campaign, planned_cases, prepare_folder
from verify.case import Case, Inputs, Profile
from verify.certificate import Skipped
from verify.declaration import SIGNATURE_FEATURES, Declaration, check_names
from verify.errors import UsageError
from verify.formats import Format, format_named
from verify.kernel import Kernel
from verify.operation import FORWARD, OperationName
from verify.tensor_files import Stored, serialised, sha256, write_whole

SCHEMA = 1
INDEX = "index.json"
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Corpus:
    """What is exported: the cases of an operation in some formats that a kernel claims.

    without    features that the kernel does not have; no case needs them
    """

    operation: OperationName
    formats: tuple[str, ...] = ("fp16", "bf16", "fp32")
    profile: Profile = "standard"
    only: tuple[str, ...] | None = None
    seed: int = 0
    without: tuple[str, ...] = ()

    def kernel(self, declared: Mapping[str, Any] | None = None, **facts: Any) -> Kernel:
        """The kernel that the corpus is for, as far as one can know it."""
        lacking = {*self.without, *(declared or {}).get("without", ())}
        declaration = Declaration().but(**{**(declared or {}), "without": tuple(sorted(lacking))})
        forward = FORWARD.get(self.operation, self.operation)
        signed = SIGNATURE_FEATURES if forward == "attention" else ()
        known: dict[str, Any] = {"name": "exported", "identity": {}, "environment": {}, **facts}
        return Kernel(
            operation=self.operation,
            features=frozenset(signed) - lacking,
            declaration=declaration,
            formats=self.formats,
            devices=("cpu", "cuda"),
            **known,
        )

    def plan(self, kernel: Kernel, fmt: Format) -> tuple[list[Case], list[Skipped]]:
        """The cases of one format, and those that the kernel does not claim."""
        campaign = Campaign(
            kernel, fmt, profile=self.profile, seed=self.seed, only=self.only or None
        )
        return planned_cases(campaign)

    def to_json(self) -> dict[str, Any]:
        return {
            "operation": self.operation,
            "formats": list(self.formats),
            "profile": self.profile,
            "families": list(self.only) if self.only else None,
            "seed": self.seed,
            "without": list(self.without),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Corpus:
        only = data["families"]
        return cls(
            data["operation"],
            tuple(data["formats"]),
            data["profile"],
            tuple(only) if only else None,
            data["seed"],
            tuple(data["without"]),
        )


@dataclass(frozen=True)
class Exported:
    """What was written: the digest of the corpus, number of cases and bytes."""

    digest: str
    cases: int
    size: int
    skipped: tuple[Skipped, ...] = field(default=())


def export(corpus: Corpus, folder: Path, progress: Progress | None = None) -> Exported:
    """Write the corpus; the index last.

    Raises      UsageError for names that do not exist, and for a folder that holds another corpus.
    """
    check(corpus)
    prepare_folder(folder)
    kernel = corpus.kernel()
    planned = [(fmt, *corpus.plan(kernel, fmt)) for fmt in map(format_named, corpus.formats)]
    total = sum(len(cases) for _, cases, _ in planned)
    _refuse_another(corpus, folder)
    entries: list[dict[str, Any]] = []
    size = 0
    for case in (case for _, cases, _ in planned for case in cases):
        entry, raw = described(case, kernel)
        write_whole(folder / entry["inputs"], raw)
        size += len(raw)
        entries.append(entry)
        if progress:
            progress(len(entries), total, case.id)
    skipped = tuple(s for _, _, some in planned for s in some)
    index = {
        "schema": SCHEMA,
        "what": "attncert corpus: inputs without answers",
        "attncert": verify.__version__,
        "corpus": corpus_digest(corpus, entries),
        **corpus.to_json(),
        "features": sorted(kernel.features),
        "cases": entries,
        "skipped": [vars(s) for s in skipped],
    }
    write_whole(folder / INDEX, (json.dumps(index, indent=1, allow_nan=False) + "\n").encode())
    return Exported(index["corpus"], total, size, skipped)


def check(corpus: Corpus) -> None:
    """Raises UsageError for a feature, family or format that does not exist."""
    check_names({"without": corpus.without})
    for name in corpus.only or ():
        families.family(name)
    if not corpus.formats:
        raise UsageError("no format to export; give --dtype fp16,bf16,fp32")


def described(case: Case, kernel: Kernel) -> tuple[dict[str, Any], bytes]:
    """A case's entry in the index, and the bytes of its file of inputs."""
    inputs = case.build()
    d = inputs["q"].shape[3] if "q" in inputs.tensors else None
    operation = kernel.resolve(case.operation, d)
    options = options_of(kernel, operation)
    options.pop("return_lse", None)
    tensors = dict(_stored(inputs))
    raw = serialised(tensors)
    names = outputs_of(kernel, operation, inputs)
    shapes = zip(names, output_shapes(kernel, operation, inputs), strict=True)
    wanted = {name: {"format": f.name, "shape": list(shape)} for name, (shape, f) in shapes}
    return {
        "case": case.id,
        "family": case.family,
        "format": case.format.name,
        "inputs": f"inputs/{case.id}.safetensors",
        "outputs": f"{case.id}.safetensors",
        "sha256": sha256(raw),
        "digest": inputs.digest,
        "options": options,
        "tensors": {name: tensor.facts for name, tensor in tensors.items()},
        "wanted": wanted,
    }, raw


def _stored(inputs: Inputs) -> Iterator[tuple[str, Stored]]:
    for name, tensor in inputs.tensors.items():
        yield name, Stored(tensor.format.name, tensor.bits)
    if inputs.mask is not None:
        yield "mask", Stored("bool", inputs.mask.astype("uint8"))


def corpus_digest(corpus: Corpus, entries: list[dict[str, Any]]) -> str:
    """What names a corpus: its plan, and the case, options and digest of inputs of every entry."""
    told = [[e["case"], e["options"], e["digest"]] for e in entries]
    return sha256(json.dumps([corpus.to_json(), told], sort_keys=True).encode())


def _refuse_another(corpus: Corpus, folder: Path) -> None:
    path = folder / INDEX
    if path.exists() and read_index(folder)[0] != corpus:
        raise UsageError(f"{folder} holds another corpus; choose another folder, or remove it")


def read_index(folder: Path) -> tuple[Corpus, dict[str, Any]]:
    """The index of an exported corpus. Raises UsageError where there is none that can be read."""
    path = folder / INDEX
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise UsageError(f"{path} has schema {data['schema']!r}, this version reads {SCHEMA}")
        return Corpus.from_json(data), data
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}; `attncert export {folder}` makes a corpus"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no index of a corpus: {error!r}") from None
