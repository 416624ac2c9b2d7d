"""BLAS at one thread while we work, and our own threads over blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Job = TypeVar("Job")


@cache
def _libraries() -> tuple[Any, ...]:
    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(found)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """The number of BLAS threads is 1 inside, and what it was before afterwards."""
    before = [(library, library.num_threads) for library in _libraries()]
    changed = [(library, count) for library, count in before if count != 1]
    for library, _ in changed:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, count in changed:
            library.set_num_threads(count)


def each(work: Callable[[Job], None], jobs: Iterable[Job], threads: int) -> None:
    """Calls work for every job; the order and the thread make no difference to any result."""
    if threads == 1:
        for job in jobs:
            work(job)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, jobs):
            pass
