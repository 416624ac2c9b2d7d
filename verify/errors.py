"""Errors that a user can meet, as a tree; each carries the exit status that `attncert` ends with.

AttncertError                  70  our own error unless a subclass says otherwise
├── UsageError                  2  a wrong name, option or file; the message says the remedy
├── IntegrityError              3  the kernel tampered: changed inputs, forged an answer
├── InconclusiveError           4  nothing was run, or what was run decides nothing
├── UnusableError               5  the kernel or its environment cannot be used
│   └── KernelError             5  the kernel raised, hung, crashed or broke its contract in a case
├── CertificateError            7  a certificate that cannot be read or does not check
└── OracleError                70  the truth contradicts itself: always our fault
"""

from __future__ import annotations


class AttncertError(Exception):
    """Base of all; an error of ours that no subclass describes."""

    exit_status = 70


class UsageError(AttncertError):
    """The command line, a declaration or a file names something that does not exist."""

    exit_status = 2


class IntegrityError(AttncertError):
    """The kernel did something that a kernel may never do."""

    exit_status = 3


class InconclusiveError(AttncertError):
    """The run decides nothing."""

    exit_status = 4


class UnusableError(AttncertError):
    """The kernel, its package or its device is not usable here."""

    exit_status = 5


class KernelError(UnusableError):
    """The kernel failed in one case; the run goes on."""


class CertificateError(AttncertError):
    """A certificate is unreadable, of an unknown version, or does not agree with itself."""

    exit_status = 7


class OracleError(AttncertError):
    """Two routes to the truth disagree. Nothing that this run says may be believed."""

    exit_status = 70
