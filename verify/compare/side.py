"""Side: the certificates and timings of one version, and which belong to which of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from verify.certificate import Certificate, certificate_files, read
from verify.errors import UsageError
from verify.timings import SUFFIX, Timed, attached, files
from verify.timings import read as read_timings


@dataclass(frozen=True)
class Side:
    """What lies at one place.

    timings   of kernels without a certificate here (those with one have them in `throughput`)
    """

    name: str
    certificates: tuple[Certificate, ...]
    timings: tuple[Timed, ...]

    def timed(self) -> list[Timed]:
        """Every timing of this side."""
        own = [
            Timed(str(c.kernel["name"]), c.format, c.device, t)
            for c in self.certificates
            for t in c.throughput
        ]
        return own + list(self.timings)


def side(path: Path) -> Side:
    """Read a file or folder.

    Raises      UsageError where nothing is there, CertificateError for what cannot be read.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist; give a certificate, a *{SUFFIX} file or a folder")
    timings = [t for file in files((path,)) for t in read_timings(file)]
    certificates = [] if timings and not _has_certificates(path) else _certificates(path)
    found, homeless = attached(certificates, timings)
    return Side(str(path), tuple(found), tuple(homeless))


def _certificates(path: Path) -> list[Certificate]:
    return [read(file) for file in certificate_files((path,))]


def _has_certificates(path: Path) -> bool:
    try:
        return bool(certificate_files((path,)))
    except UsageError:
        return False


@dataclass(frozen=True)
class Pair:
    """Two certificates of one kernel."""

    old: Certificate
    new: Certificate

    @property
    def name(self) -> str:
        return self.new.name


@dataclass(frozen=True)
class Pairing:
    """Pairs, and what has no partner."""

    pairs: tuple[Pair, ...]
    lost: tuple[str, ...]
    added: tuple[str, ...]


def pairing(old: Side, new: Side) -> Pairing:
    """Pair the certificates of two sides by kernel, operation, format and device.

    Special     a single certificate on each side is a pair whatever the kernels are called, if
                operation, format and device agree.
    Raises      UsageError where a pair was run under another profile or seed, or nothing pairs.
    """
    if len(old.certificates) == 1 and len(new.certificates) == 1:
        pair = Pair(old.certificates[0], new.certificates[0])
        _require_alike(pair, ("operation", "format", "device", "profile", "seed"))
        return Pairing((pair,), (), ())
    theirs, ours = _by_key(old.certificates), _by_key(new.certificates)
    pairs = tuple(Pair(theirs[key], ours[key]) for key in theirs if key in ours)
    if old.certificates and new.certificates and not pairs:
        raise UsageError(
            f"no certificate of {old.name} has a partner in {new.name}: there are "
            f"{_names(old.certificates)} and {_names(new.certificates)}"
        )
    for pair in pairs:
        _require_alike(pair, ("profile", "seed"))
    lost = tuple(c.name for key, c in theirs.items() if key not in ours)
    added = tuple(c.name for key, c in ours.items() if key not in theirs)
    return Pairing(pairs, lost, added)


def _by_key(certificates: Sequence[Certificate]) -> dict[tuple[str, ...], Certificate]:
    """By kernel and so on; kernels in files by the name of the file, wherever it lies."""
    found: dict[tuple[str, ...], Certificate] = {}
    for c in certificates:
        key = (_short(c), *_facts(c, ("operation", "format", "device")))
        if key in found:
            raise UsageError(f"two certificates of {c.name} on one side: keep one of them")
        found[key] = c
    return found


def _short(certificate: Certificate) -> str:
    return Path(str(certificate.kernel["name"])).name


def _facts(c: Certificate, names: Sequence[str]) -> tuple[str, ...]:
    known = {
        "operation": c.kernel["operation"],
        "format": c.format,
        "device": c.device,
        "profile": c.profile,
        "seed": c.seed,
    }
    return tuple(str(known[name]) for name in names)


def _require_alike(pair: Pair, names: Sequence[str]) -> None:
    pairs = zip(names, _facts(pair.old, names), _facts(pair.new, names), strict=True)
    for name, before, now in pairs:
        if before != now:
            raise UsageError(
                f"{pair.name} cannot be compared: the old certificate has {name} {before}, "
                f"the new one {now}; certify both with the same"
            )


def _names(certificates: Sequence[Certificate]) -> str:
    names = [c.name for c in certificates]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
