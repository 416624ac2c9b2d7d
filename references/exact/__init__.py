"""The definition of truth in arbitrary precision (mpmath): written to be read, then to be fast.

The guarantee of this tier is conditional: see `precision` for the assumption and the proof.  The
second route, `references.arb`, needs no such assumption and shares no code with this one.
"""

from references.exact.attention import attention
from references.exact.gradients import attention_gradients
from references.exact.softmax import log_softmax, logsumexp, softmax
from references.exact.softmax_gradients import log_softmax_gradient, softmax_gradient

__all__ = [
    "attention",
    "attention_gradients",
    "log_softmax",
    "log_softmax_gradient",
    "logsumexp",
    "softmax",
    "softmax_gradient",
]
