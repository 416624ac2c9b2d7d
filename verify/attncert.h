/* attncert.h - the C interface of a kernel under test.
 *
 * Build a shared library that exports one function of the type attncert_kernel_fn, by default called
 * `attncert_kernel`, and if you like `attncert_describe`:
 *
 *     cc -O2 -shared -fPIC -I<folder of this file> -o kernel.so kernel.c -lm
 *     attncert certify ./kernel.so            (or ./kernel.so:other_function)
 *
 * The function is called in a process of its own, on one thread at a time. It may use any language
 * behind this interface that can export a C function (C++, Rust, Zig, Fortran).
 */
#ifndef ATTNCERT_H
#define ATTNCERT_H

#include <stdint.h>

#define ATTNCERT_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. 16- and 8-bit numbers are raw bits (uint16_t, uint8_t); BOOL is a byte, 0 or 1. */
enum {
  ATTNCERT_F16 = 1,     /* IEEE binary16 */
  ATTNCERT_BF16 = 2,    /* bfloat16 */
  ATTNCERT_F32 = 3,     /* IEEE binary32 */
  ATTNCERT_F64 = 4,     /* IEEE binary64 */
  ATTNCERT_F8_E4M3 = 5, /* OCP FP8 E4M3: no infinities */
  ATTNCERT_F8_E5M2 = 6, /* OCP FP8 E5M2 */
  ATTNCERT_BOOL = 7
};

enum {
  ATTNCERT_SOFTMAX = 1,
  ATTNCERT_LOG_SOFTMAX = 2,
  ATTNCERT_LOGSUMEXP = 3,
  ATTNCERT_ATTENTION = 4
};

/* Element (i0, i1, ...) lies at data + (i0 * stride[0] + i1 * stride[1] + ...) elements.
 * Strides need not be those of a contiguous tensor, unless the kernel declares that it is
 * "without": ["strides"]. An axis that is broadcast has stride 0 or size 1. */
typedef struct attncert_tensor {
  void *data;
  int32_t type;
  int32_t rank;
  int64_t shape[4];
  int64_t stride[4];
} attncert_tensor;

/* One call. Inputs may not be written to; outputs must be written whole. Pointers are NULL where a
 * call has no such tensor. Nothing may be kept of a call when it returns. */
typedef struct attncert_call {
  uint32_t abi;      /* ATTNCERT_ABI */
  uint32_t size;     /* sizeof(attncert_call) of the caller; later versions append members */
  int32_t operation; /* ATTNCERT_SOFTMAX, ... */
  int32_t causal;    /* 1: a query sees no later key (feature "causal") */

  const attncert_tensor *x;     /* softmax, log_softmax, logsumexp: (rows, n), along the last axis */
  const attncert_tensor *q;     /* attention: (batch, heads, n_q, d) */
  const attncert_tensor *k;     /* (batch, kv_heads, n_k, d); head h reads kv head h / (heads / kv_heads) */
  const attncert_tensor *v;     /* (batch, kv_heads, n_k, d_v) */
  const attncert_tensor *mask;  /* BOOL, 1 = attend (feature "mask") */
  const attncert_tensor *bias;  /* added to the scores after scale and softcap (feature "bias") */
  const attncert_tensor *sinks; /* (heads,) (feature "sinks") */
  /* mask and bias have rank 4 and the shape (batch, heads, n_q, n_k), or 1 where it is broadcast. */

  double scale;         /* of the scores (feature "scale"); 1/sqrt(d) where none is asked for */
  double softcap;       /* c tanh(s / c); 0: none (feature "softcap") */
  int32_t has_window;   /* 1: only keys from i' - window_left to i' + window_right (feature "window"); */
  int32_t reserved;     /* i' = i + n_k - n_q; -1: no limit */
  int64_t window_left;
  int64_t window_right;

  attncert_tensor *output; /* softmax: like x; logsumexp: (rows,); attention: (batch, heads, n_q, d_v) */
  attncert_tensor *lse;    /* F32 (batch, heads, n_q), natural logarithm (feature "return_lse"); or NULL */
} attncert_call;

/* Returns 0, or any other number where the call cannot be served: an ERROR of the case. */
typedef int attncert_kernel_fn(const attncert_call *call);

/* What the kernel is, as JSON text in static memory. Without it the operation is given by
 * `--operation`, and no optional feature is claimed except "scale".
 *
 *   {"operation": "attention",
 *    "features": ["scale", "causal", "window", "mask", "bias", "softcap", "sinks", "return_lse"],
 *    "formats": ["fp16", "bf16", "fp32", "e4m3", "e5m2"],
 *    "declare": {"model": "single", "corner": "bottom-right", "without": ["gqa"]},
 *    "summary": "one line", "version": "1.2"}
 *
 * "features" are those that the kernel obeys; a case that needs another is not run, and says so. */
const char *attncert_describe(void);
int attncert_kernel(const attncert_call *call);

#ifdef __cplusplus
}
#endif
#endif
