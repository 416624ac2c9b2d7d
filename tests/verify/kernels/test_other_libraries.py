"""What holds of every adapter, whether its library is installed or not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from verify.certifying import Silence
from verify.errors import UsageError
from verify.kernels import find, load_all
from verify.publishing import LARGEST_PAGE, copied, publish

ADAPTERS = {name: f for name in load_all() if (f := find(name)[1]).libraries}


def test_listing_kernels_imports_none_of_their_libraries() -> None:
    libraries = (
        "jax", "onnx", "onnxruntime", "ml_dtypes", "mlx", "triton", "openvino", "keras", "tinygrad",
        "tvm", "paddle", "llama_cpp", "flash_attention_jax",
    )  # fmt: skip
    script = (
        "import sys; from verify.kernels import load_all; load_all();"
        f"print(sorted(set({libraries!r}) & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_says_where_its_arithmetic_is_written(name: str) -> None:
    declared = ADAPTERS[name].declaration
    assert declared.model
    assert declared.source


@pytest.mark.parametrize("name", [n for n in ADAPTERS if n.startswith(("jax", "onnx"))])
def test_what_is_not_installed_comes_with_the_command_that_installs_it(name: str) -> None:
    reason = ADAPTERS[name].unavailable
    assert reason is not None
    assert reason() is None or "pip install 'attncert[" in str(reason())


@pytest.mark.parametrize("name", [n for n, f in ADAPTERS.items() if f.refuted])
def test_a_known_refutation_names_formats_that_are_claimed_and_has_a_reason(name: str) -> None:
    found = ADAPTERS[name]
    assert set(found.refuted) <= set(found.formats)
    assert all(len(reason) > 20 for reason in found.refuted.values())


def test_a_library_without_adapters_cannot_be_published(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nonesuch"):
        publish(tmp_path, Silence(), library="nonesuch")


def test_pages_are_copied_without_certificates_and_without_what_is_too_large(
    tmp_path: Path,
) -> None:
    made = tmp_path / "out"
    made.mkdir()
    texts = {"report.md": "short", "report.html": "x" * (LARGEST_PAGE + 1), "results.csv": "a"}
    for name, text in texts.items():
        (made / name).write_text(text)
    paths = copied([made / name for name in texts], tmp_path / "pages")
    assert [p.name for p in paths] == ["report.md"]
    assert (tmp_path / "pages" / "report.md").read_text() == "short"
