"""The second route to truth: ball arithmetic (Arb, by python-flint), rigorous, no assumption.

It shares no code with `references.exact`, not even the rules for masks and special values, so that
an enclosure of one that misses the other convicts one of them.
"""

from references.arb.attention import attention
from references.arb.gradients import attention_gradients
from references.arb.softmax import log_softmax, logsumexp, softmax
from references.arb.softmax_gradients import log_softmax_gradient, softmax_gradient

__all__ = [
    "attention",
    "attention_gradients",
    "log_softmax",
    "log_softmax_gradient",
    "logsumexp",
    "softmax",
    "softmax_gradient",
]
