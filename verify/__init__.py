"""attncert: give it an attention or softmax kernel, and it proves how accurate that kernel is.

The data flow is the architecture, one module per noun:

    family -> case -> inputs -> truth ----------------\\
                        |                              > error -> verdict -> certificate -> report
                        +-----> kernel -> output -----/             ^
                        +-----> arithmetic model -> bound ---------/

Words.  format, unit roundoff u = 2^-p, ulp(x) = spacing of the format at the real x; ulp error;
enclosure [value, radius]; truth, oracle; bound (proved); operation, kernel, arithmetic model;
family, case, hypothesis, effect; property; verdict; refute, kill; negative control; certificate;
tightness = observed error / bound.  Axes: batch, heads, kv_heads, n_q, n_k, d, d_v (attention);
rows, n (softmax).  Scores s, row maximum m, row sum l, P = exp(s - m), LSE = m + ln l.
"""

__version__ = "0.1.0"
__all__ = ["__version__", "declare"]

from verify.declaration import declare
