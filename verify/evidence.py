"""Evidence: by which way the outputs came that a certificate judges, and what it cannot prove.

A new way is one entry of `WAYS`.
"""

from __future__ import annotations

from dataclasses import dataclass

IN_WORKER = "in worker"


@dataclass(frozen=True)
class Way:
    """How outputs reach the judge.

    meaning        what happened, in words
    cannot_prove   what a certificate of this kind says nothing about
    isolation      the certificate's field `isolation`
    repeatable     a case can be run a second time
    """

    meaning: str
    cannot_prove: tuple[str, ...] = ()
    isolation: str = "worker process"
    repeatable: bool = True


WAYS = {
    IN_WORKER: Way(
        "a Python function, called in a process of its own that never holds the truth",
        ("that the kernel behaves the same when nobody judges it",),
    ),
    "in-process": Way(
        "a Python function, called in the process that holds the truth",
        (
            "that the kernel did not read the truth, the bound or the judge",
            "anything about a kernel that crashes or hangs: it takes the judge with it",
        ),
        "in-process",
    ),
    "C ABI": Way(
        "a function of a shared library, called through ctypes in a process of its own",
        (
            "that the kernel behaves the same when nobody judges it",
            "that it stays within its buffers: a write far beyond them may go unnoticed",
            "which source the library was built from: only its bytes are named, by their SHA-256",
        ),
    ),
    "command": Way(
        "a program that reads requests on stdin and tensors from files",
        (
            "that the kernel leaves its inputs unchanged: it is given copies of them in files",
            "how fast the kernel is: a call includes reading and writing files",
            "which program the command line starts in the end, beyond the files named in it",
        ),
    ),
    "graded outputs": Way(
        "outputs that were computed elsewhere from an exported corpus and handed in as files",
        (
            "who or what computed the outputs, on which machine, and when",
            "that equal calls give equal bits, or anything else that takes two calls",
            "that the kernel leaves its inputs unchanged",
            "how fast the kernel is",
            "that the outputs were not picked from several runs or made by a better program",
        ),
        "computed elsewhere",
        repeatable=False,
    ),
}


def statement(way: str) -> dict[str, object]:
    """The entry of a certificate about a way."""
    found = WAYS[way]
    return {"way": way, "meaning": found.meaning, "cannot_prove": list(found.cannot_prove)}
