"""Working precision, chosen before anything is computed, and the proof that it suffices.

Assumption  every mpmath operation used here (+ - * / sqrt exp log tanh) has a relative error of at
            most eps = 2^(1-w) at working precision w: one ulp.  mpmath rounds + - * / sqrt
            correctly; for exp, log and tanh one ulp is what it aims at, not what it proves.
            Every radius of `references.exact` is conditional on this; those of `references.arb`
            are not.

Notation    For one row: N = number of terms (keys, and the sink if there is one);
            S >= |t_j| + |bias_j| for every key (t_j after softcap) and S >= |sink|;
            G = 32 (S + N + 1);  w >= t + log2(G) + 1, hence G eps <= 2^-t, and t >= 110.
            Hats denote computed values.  Terms of second order in eps are below 2^-90 of the
            first-order ones and disappear in the rounding up of the constants.

Proof       Errors are relative unless "abs" is written.
    y_j           exact (integers); its conversion to w bits                  eps
    tau           square root and division, or the exact float              2 eps
    tau y_j       one product                                  together     4 eps
    t_j           division by the softcap c: 5 eps on the argument; the condition number of tanh,
                  2x / sinh(2x), is at most 1; tanh and the product by c   +2 eps:   7 eps
    s_j           one addition: abs 7 eps |t_j| + eps (|t_j| + |bias_j|)  <=  abs  8 eps S
    shift         M^ = max_j s^_j is one number for the whole row: it cancels in p_j, and
                  LSE = M^ + ln sum_j exp(s_j - M^) holds for any M^
    s_j - M^      |s^_j - M^| <= 2.1 S, one subtraction:                      abs 11 eps S
    e_j           exp of it:                                    phi    <=  (12 S + 2) eps
    l, sum e v    integers make each partial sum exact; at most N + 1 roundings remain
                  (`weighted_sums`):                            lambda <=  (12 S + N + 3) eps
                  and for a numerator the same, times sum_j e_j |v_j|
    O             two such sums and a division, relative to W = sum_j p_j |v_j|:
                  (24 S + 2 N + 7) eps  <=  G eps
    W, p_j        the same with |v_j|, and for one j alone:  <=  G eps
                  With a single term p = e / l = 1 / 1 exactly: O carries no error at all
    LSE           ln l: abs 1.1 lambda + eps ln(N + 1); the sum: abs eps (S + ln N + 1):
                  (15 S + 4 N + 8) eps  <=  abs G eps.  With a single term l = 1 exactly, and only
                  the error of s_1 is left: abs 9 eps S  <=  G eps min(1, S)
    s_i - LSE     (log_softmax) abs 11 eps S + 1.1 lambda + eps ln(N+1) + eps (2 S + ln N + 1):
                  (28 S + 4 N + 8) eps  <=  abs G eps

So O carries an error below 2^-t W, a probability below 2^-t p, LSE and log_softmax below 2^-t.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mpmath

Context = Any  # mpmath ships no annotations
Real = Any

TARGET_BITS = 110

# mpmath keeps ln 2 and its tables in module globals that are updated in two steps (value, then
# precision), so that even private contexts disturb each other across threads.  One lock for the
# whole tier costs nothing: the computation is pure Python.
_LOCK = threading.RLock()
_CONTEXT: Context = mpmath.MPContext()


@contextmanager
def working_precision(bits: int) -> Iterator[Context]:
    """The private context at `bits` bits, one thread at a time; never the global `mpmath.mp`."""
    with _LOCK:
        previous = _CONTEXT.prec
        _CONTEXT.prec = bits
        try:
            yield _CONTEXT
        finally:
            _CONTEXT.prec = previous


def working_bits(score_exponent: int, terms: int, target_bits: int) -> int:
    """
    The working precision w of the proof above.

    Shapes      integers.
    Definition  w = t + 1 + ceil(log2 G), with S < 2^score_exponent, N = terms, t = target_bits.
    Guarantee   G 2^(1-w) <= 2^-t.
    Requires    terms >= 0.
    Special     none.
    Source      S + N + 1 <= 2 max(2^score_exponent, 2^bit_length(N + 1)), and 32 = 2^5.
    """
    return target_bits + 7 + max(score_exponent, (terms + 1).bit_length())
