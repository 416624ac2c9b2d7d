"""BLAS at one thread while we work, and our own threads over blocks of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Job = TypeVar("Job")
Made = TypeVar("Made")
First = TypeVar("First")
Second = TypeVar("Second")


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


@contextmanager
def pool(threads: int, keep: bool = True) -> Iterator[ThreadPoolExecutor | None]:
    """Threads for `each` and `both`; None for one.

    keep        let them live on for the next call, with the memory in which they work: fresh pages
                for it cost as much as a head of 1024 keys.
    """
    if threads == 1:
        yield None
    elif keep:
        yield _kept(threads, os.getpid())
    else:
        with ThreadPoolExecutor(threads) as executor:
            yield executor


@cache
def _kept(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process: one that is forked has none of its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="attncert")


def each(work: Callable[[Job], None], jobs: Iterable[Job], threads: Executor | None) -> None:
    """Calls work for every job, begun in this order; the thread makes no difference to a result."""
    if threads is None:
        for job in jobs:
            work(job)
        return
    for _ in threads.map(work, jobs):
        pass


def while_it_pays(
    make: Callable[[Job], Made],
    keep: Callable[[Job, Made], None],
    jobs: list[Job],
    pays: Callable[[], bool],
    threads: Executor | None,
) -> None:
    """keep(job, make(job)) for the first job; if pays() then, for the others too.

    With threads the others are begun without waiting for the first, but none is kept before it: the
    same are kept for any number of threads.
    """
    if threads is None:
        for place, job in enumerate(jobs):
            if place == 1 and not pays():
                return
            keep(job, make(job))
        return
    verdict = Future[bool]()

    def first(job: Job) -> None:
        try:
            keep(job, make(job))
            verdict.set_result(pays())
        except BaseException as error:
            verdict.set_exception(error)
            raise

    def other(job: Job) -> None:
        if not verdict.done() or verdict.result():
            made = make(job)
            if verdict.result():
                keep(job, made)

    begun = [threads.submit(other if place else first, job) for place, job in enumerate(jobs)]
    for work in begun:
        work.result()


def both(
    first: Callable[[], First], second: Callable[[], Second], threads: Executor | None
) -> tuple[First, Second]:
    """The results of two functions, at the same time where there are threads."""
    if threads is None:
        return first(), second()
    other = threads.submit(second)
    return first(), other.result()
