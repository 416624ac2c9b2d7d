"""Publish: the main job. Certify every shipped kernel in every format on every device here, and
write the report; what cannot run is listed with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from verify.campaign import Campaign, certify, file_stem, prepare_folder
from verify.case import Profile
from verify.certificate import Certificate, Skipped, write
from verify.certifying import Listener, Request, certify_all
from verify.formats import format_named
from verify.kernel import Kernel
from verify.pipeline import Bench
from verify.report import write_report
from verify.truth import Oracle
from verify.worker import Worker

NOT_PUBLISHED = ("control-", "right-", "cheat-")


def publish(
    folder: Path,
    listener: Listener,
    *,
    profile: Profile = "standard",
    kernels: Sequence[str] | None = None,
) -> tuple[list[Certificate], list[Path]]:
    """Certificates of the shipped kernels (or of those named), and the files of the report."""
    prepare_folder(folder)
    with Worker() as worker:
        described = worker.list_kernels()
    devices = ["cpu"] + (["cuda"] if described and described[0]["environment"]["cuda"] else [])
    wanted = [k for k in described if _published(k, kernels)]
    certificates = [_unavailable(k, folder) for k in wanted if k["unavailable"]]
    ready = [k for k in wanted if not k["unavailable"]]
    for device in devices:
        names = tuple(k["name"] for k in ready if device in k["devices"])
        request = Request(names, device=device, profile=profile, folder=folder)
        certificates += certify_all(request, listener)
    return certificates, write_report(certificates, folder)


def _published(description: dict[str, Any], kernels: Sequence[str] | None) -> bool:
    if kernels is not None:
        return description["name"] in kernels
    return not description["name"].startswith(NOT_PUBLISHED)


def _unavailable(description: dict[str, Any], folder: Path) -> Certificate:
    """The certificate of a kernel that cannot run here: nothing was run, and why."""
    kernel = Kernel.from_description(description, {})
    campaign = Campaign(kernel, format_named(kernel.formats[0]), isolation="worker process")
    skipped = (Skipped("all cases", "all families", f"not available: {kernel.unavailable}"),)
    bench = Bench(Oracle(), Worker())
    certificate = certify(campaign, (), skipped, 1, bench, 0.0)
    stem = file_stem(kernel.name, campaign.format.name, campaign.device)
    write(certificate, folder / f"{stem}.json")
    return certificate
