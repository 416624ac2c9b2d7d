"""The second route to truth: ball arithmetic (Arb, by python-flint), rigorous, no assumption.

It shares no code with `references.exact`, not even the rules for masks and special values, so that
an enclosure of one that misses the other convicts one of them.
"""

from references.arb.attention import attention
from references.arb.softmax import log_softmax, logsumexp, softmax

__all__ = ["attention", "log_softmax", "logsumexp", "softmax"]
