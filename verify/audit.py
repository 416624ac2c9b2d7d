"""The audit: a row of every truth computed again by mpmath; a miss is our own error.

Each function returns how many rows it compared, and raises OracleError where two enclosures of one
truth have no point in common.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import references
from references.enclosure import AttentionGradients, AttentionTruth, Enclosure
from verify.errors import OracleError

Array = NDArray[np.float64]

SMALL = 2**13  # products of a call whose gradients are audited as a whole
AUDITED = 2**19  # of one row, keys times features: half a second of mpmath
LONGEST = 4096  # entries of a row of a softmax


def audit_rows(name: str, arguments: tuple[Array, ...], found: Enclosure, digest: str) -> int:
    """One row of a function of rows: `name` in `references`, called with the same row of each."""
    x = arguments[0]
    if 0 in x.shape or x.shape[1] > LONGEST:
        return 0
    first = int(digest[:12], 16) % x.shape[0]
    row = slice(first, first + 1)
    exact: Enclosure = getattr(references, name)(*(a[row] for a in arguments), tier="exact")
    require_overlap(found[row], exact, f"{name}, row {first}, and mpmath")
    return 1


def audit_attention(
    q: Array, k: Array, v: Array, options: Any, found: AttentionTruth, digest: str
) -> int:
    """Output and log-sum-exp of one row."""
    if 0 in q.shape or k[0, 0].size > AUDITED:
        return 0
    row = _row(q, digest)
    exact = references.attention(q, k, v, tier="exact", rows=[row], **options)
    what = f"attention, row {row}, and mpmath"
    require_overlap(found.output[row], exact.output[row], what)
    require_overlap(found.lse[row], exact.lse[row], what)
    return 1


def audit_gradients(
    q: Array,
    k: Array,
    v: Array,
    do: Array,
    options: Any,
    visible: NDArray[np.bool_],
    found: AttentionGradients,
    digest: str,
) -> int:
    """dq of one row, from the keys that it sees; of a small call also everything else."""
    if 0 in q.shape or not 0 < k[0, 0].size <= AUDITED:
        return 0
    row = b, h, i = _row(q, digest)
    if not found.dq.finite[row].all():
        return 0
    n_k = k.shape[2]
    one, keys = (
        (slice(b, b + 1), slice(h, h + 1), slice(i, i + 1)),
        (b, h * k.shape[1] // q.shape[1]),
    )
    kept: dict[str, Any] = {name: options.get(name) for name in ("scale", "softcap")}
    kept["mask"] = visible[one]
    if "bias" in options:
        kept["bias"] = np.broadcast_to(options["bias"], (*q.shape[:3], n_k))[one]
    if "sinks" in options:
        kept["sinks"] = options["sinks"][h : h + 1]
    exact = references.attention_gradients(
        q[one], k[keys][None, None], v[keys][None, None], do[one], tier="exact", **kept
    )
    require_overlap(found.dq[one], exact.dq, f"gradients, row {row}, and mpmath")
    if q.size // q.shape[3] * n_k * max(q.shape[3], v.shape[3]) <= SMALL:
        whole = references.attention_gradients(q, k, v, do, tier="exact", **options)
        for name, part in whole.parts().items():
            require_overlap(found.parts()[name], part, f"{name} and mpmath")
    return 1


def _row(q: Array, digest: str) -> tuple[int, int, int]:
    """(batch, head, query) of the row that is audited: another one for other inputs."""
    at = int(digest[:12], 16) % (q.size // q.shape[3])
    b, h, i = (int(x) for x in np.unravel_index(at, q.shape[:3]))
    return b, h, i


def require_overlap(a: Enclosure, b: Enclosure, what: str) -> None:
    """Raises OracleError where two enclosures of one truth contradict each other."""
    both = a.finite & b.finite
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs((a.hi - b.hi) + (a.lo - b.lo))
        room = (a.radius + b.radius) * (1 + 2.0**-40) + 2.0**-100 * np.abs(a.hi)
        apart = both & ~(gap <= room)
    if apart.any() or (a.classes != b.classes).any():
        place = np.argwhere(apart | (a.classes != b.classes))[0].tolist()
        raise OracleError(
            f"two routes to the truth disagree ({what}) at {place}: please report this"
        )
