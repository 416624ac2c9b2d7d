"""The disk cache returns what was computed, for the same content only, and survives bad files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from references import exact, store
from references.enclosure import AttentionTruth, Enclosure
from references.store import Store, content_key

X = np.array([[0.5, -1.0, 2.0], [np.inf, 0.0, np.nan]])


class Counter:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0
        self.__module__, self.__qualname__ = function.__module__, function.__qualname__

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        return self.function(*arguments, **options)


def _same(first: Enclosure, second: Enclosure) -> bool:
    names = ("hi", "lo", "radius", "classes", "tier")
    pairs = [(getattr(first, name), getattr(second, name)) for name in names]
    return all(
        a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs
    )


def test_store_computes_once_and_returns_the_same_bits(tmp_path: Path) -> None:
    """The second call, from another Store on the same directory, does not compute."""
    function = Counter(exact.softmax)
    first = Store(tmp_path).cached(function, X)
    second = Store(tmp_path).cached(function, X)
    assert function.calls == 1
    assert _same(first, second)


def test_store_keeps_attention_truth_whole(tmp_path: Path) -> None:
    """Output, LSE and magnitude come back with their bits, for rows given by an iterator too."""
    function = Counter(exact.attention)
    q = np.arange(8.0).reshape(1, 1, 4, 2)
    rows = [(0, 0, 1), (0, 0, 3)]
    found: list[AttentionTruth] = [
        Store(tmp_path).cached(function, q, q, q, causal=True, rows=iter(rows)) for _ in range(2)
    ]
    assert function.calls == 1
    assert _same(found[0].output, found[1].output)
    assert _same(found[0].lse, found[1].lse)
    assert np.array_equal(found[0].magnitude, found[1].magnitude, equal_nan=True)


def _keys(x: np.ndarray[Any, Any]) -> list[str]:
    """Keys of calls that all differ from each other."""
    mask = np.ones(3, dtype=bool)
    return [
        content_key(exact.softmax, (x,), {}),
        content_key(exact.logsumexp, (x,), {}),
        content_key(exact.softmax, (x.astype(np.float32),), {}),
        content_key(exact.softmax, (x.reshape(3, 2),), {}),
        content_key(exact.softmax, (x.view(np.int64),), {}),
        content_key(exact.softmax, (np.nextafter(x, 9),), {}),
        content_key(exact.softmax, (-x,), {}),
        content_key(exact.softmax, (x, x), {}),
        content_key(exact.softmax, (x,), {"extra_bits": 1}),
        content_key(exact.softmax, (x,), {"extra_bits": 1.0}),
        content_key(exact.softmax, (x,), {"extra_bits": True}),
        content_key(exact.softmax, (x,), {"extra_bits": None}),
        content_key(exact.softmax, (x,), {"extra_bits": "1"}),
        content_key(exact.softmax, (x,), {"extra": 1}),
        content_key(exact.softmax, (x,), {"window": (1, 2)}),
        content_key(exact.softmax, (x,), {"window": (1, (2,))}),
        content_key(exact.softmax, (x,), {"window": ((1,), 2)}),
        content_key(exact.softmax, (x,), {"mask": mask}),
        content_key(exact.softmax, (x,), {"mask": ~mask}),
        content_key(exact.softmax, (x,), {"bias": 0.0}),
        content_key(exact.softmax, (x,), {"bias": -0.0}),
        content_key(exact.softmax, (x,), {"bias": float("nan")}),
        content_key(exact.softmax, (x,), {"bias": float("inf")}),
    ]


def test_keys_of_different_calls_differ() -> None:
    """Function, type, shape, every bit and every option take part in the key."""
    keys = _keys(np.arange(6.0).reshape(2, 3))
    assert len(set(keys)) == len(keys)


def test_keys_of_equal_content_are_equal() -> None:
    """Memory layout and the order of options do not matter; a numpy scalar is its number."""
    x = np.arange(6.0).reshape(2, 3)
    one = content_key(exact.softmax, (x,), {"a": 1, "b": 2.5})
    other = content_key(exact.softmax, (np.asfortranarray(x),), {"b": np.float64(2.5), "a": 1})
    assert one == other


def test_keys_change_with_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry of another version of the source is never found."""
    before = content_key(exact.softmax, (X,), {})
    monkeypatch.setattr(store, "oracle_version", lambda: "another")
    assert content_key(exact.softmax, (X,), {}) != before


def test_keys_refuse_what_has_no_content() -> None:
    """An object without a defined content is an error, not a key by address."""
    with pytest.raises(TypeError, match="object"):
        content_key(exact.softmax, (X,), {"extra": object()})


@pytest.mark.parametrize(
    "damage", ["empty", "garbage", "cut", "bit", "other", "directory", "field"]
)
def test_store_ignores_and_rewrites_a_corrupt_file(tmp_path: Path, damage: str) -> None:
    """Whatever the file holds: the call computes, answers rightly, and the entry is whole again."""
    function, cache = Counter(exact.softmax), Store(tmp_path)
    truth = cache.cached(function, X)
    path = cache.path(content_key(function, (X,), {}))
    _damage(path, damage)
    assert _same(cache.cached(function, X), truth)
    assert function.calls == 2
    if damage != "directory":  # that one is in the way of the new file
        assert _same(cache.cached(function, X), truth)
        assert function.calls == 2
    assert not list(tmp_path.rglob("*.tmp"))


def _damage(path: Path, kind: str) -> None:
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[content.index(b"NUMPY", 200) + 150] ^= 0x10  # inside the numbers of a member
    damaged = {"empty": b"", "garbage": b"\x80\x04not a file", "cut": content[: len(content) // 2]}
    if kind == "directory":
        path.unlink()
        path.mkdir()
    elif kind == "other":
        np.savez(path, key=np.array("0" * 64), hi=np.zeros(3))
    elif kind == "field":
        np.savez(path, key=np.array(path.stem), hi=np.zeros(3))
    else:
        path.write_bytes(damaged.get(kind, bytes(flipped)))


def test_store_answers_where_it_cannot_write(tmp_path: Path) -> None:
    """A file in the place of the directory: computed each time, no error."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    function = Counter(exact.softmax)
    for calls in (1, 2):
        assert Store(blocked).cached(function, X).shape == X.shape
        assert function.calls == calls


def test_store_directory_comes_from_argument_then_environment_then_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The argument wins over ATTNCERT_CACHE, and that over ~/.cache/attncert."""
    monkeypatch.setenv("ATTNCERT_CACHE", str(tmp_path / "environment"))
    assert Store(tmp_path).directory == tmp_path
    assert Store().directory == tmp_path / "environment"
    monkeypatch.delenv("ATTNCERT_CACHE")
    assert Store().directory == Path.home() / ".cache" / "attncert"


def test_store_does_not_keep_a_failed_computation(tmp_path: Path) -> None:
    """An error passes through, and leaves no file."""

    def fail(_: Any) -> Enclosure:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Store(tmp_path).cached(fail, X)
    assert list(tmp_path.iterdir()) == []
