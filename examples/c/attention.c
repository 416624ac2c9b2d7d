/* Online softmax attention in C: binary32 inside, one rounding at the end; F16, BF16 and F32 tensors.
 *
 *     cc -O2 -shared -fPIC -I<folder of attncert.h> -o attention.so attention.c -lm
 *     attncert certify ./attention.so
 *
 * `python -c "import verify; print(verify.__path__[0])"` prints the folder of attncert.h.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "attncert.h"

enum { MOST_COLUMNS = 1024 };

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float from_half(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, field = (h >> 10) & 31, fraction = h & 0x3ff;
  if (field == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
  if (field == 0) return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
  return from_bits(sign | (field + 112) << 23 | fraction << 13);
}

static uint16_t to_half(float value) { /* to nearest, ties to even */
  uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more round to infinity */
  if (size < 0x38800000) { /* below the least normal number: units of 2^-24 */
    return (uint16_t)(sign | (uint32_t)lrintf(fabsf(value) * 0x1p24f));
  }
  size += 0xfff + (size >> 13 & 1);
  return (uint16_t)(sign | ((size >> 13) - (112 << 10)));
}

static uint16_t to_bfloat(float value) {
  uint32_t bits = to_bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static int64_t place(const attncert_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d) {
  return a * t->stride[0] + b * t->stride[1] + c * t->stride[2] + d * t->stride[3];
}

static float load(const attncert_tensor *t, int64_t at) {
  if (t->type == ATTNCERT_F32) return ((const float *)t->data)[at];
  uint16_t bits = ((const uint16_t *)t->data)[at];
  return t->type == ATTNCERT_F16 ? from_half(bits) : from_bits((uint32_t)bits << 16);
}

static void store(attncert_tensor *t, int64_t at, float value) {
  if (t->type == ATTNCERT_F32) ((float *)t->data)[at] = value;
  else ((uint16_t *)t->data)[at] = t->type == ATTNCERT_F16 ? to_half(value) : to_bfloat(value);
}

static int seen(const attncert_call *call, int64_t b, int64_t h, int64_t i, int64_t j) {
  const attncert_tensor *m = call->mask;
  int64_t diagonal = i + call->k->shape[2] - call->q->shape[2];
  if (call->causal && j > diagonal) return 0;
  if (!m) return 1;
  return ((const uint8_t *)m->data)[place(m, m->shape[0] > 1 ? b : 0, m->shape[1] > 1 ? h : 0,
                                          m->shape[2] > 1 ? i : 0, m->shape[3] > 1 ? j : 0)];
}

static void row(const attncert_call *call, int64_t b, int64_t h, int64_t i) {
  const attncert_tensor *q = call->q, *k = call->k, *v = call->v;
  int64_t kv = h / (q->shape[1] / k->shape[1]), columns = v->shape[3];
  float largest = -INFINITY, sum = 0.0f, total[MOST_COLUMNS];
  for (int64_t c = 0; c < columns; c++) total[c] = 0.0f;

  for (int64_t j = 0; j < k->shape[2]; j++) {
    if (!seen(call, b, h, i, j)) continue;
    float s = 0.0f;
    for (int64_t l = 0; l < q->shape[3]; l++)
      s += load(q, place(q, b, h, i, l)) * load(k, place(k, b, kv, j, l));
    s *= (float)call->scale;
    if (s == -INFINITY) continue;
    if (s > largest) { /* a new maximum: what was added so far is rescaled */
      float rescale = expf(largest - s);
      sum *= rescale;
      for (int64_t c = 0; c < columns; c++) total[c] *= rescale;
      largest = s;
    }
    float p = expf(s - largest);
    sum += p;
    for (int64_t c = 0; c < columns; c++) total[c] += p * load(v, place(v, b, kv, j, c));
  }
  int empty = sum == 0.0f;
  for (int64_t c = 0; c < columns; c++)
    store(call->output, place(call->output, b, h, i, c), empty ? 0.0f : total[c] / sum);
  if (call->lse) {
    int64_t at = b * call->lse->stride[0] + h * call->lse->stride[1] + i * call->lse->stride[2];
    store(call->lse, at, empty ? -INFINITY : largest + logf(sum));
  }
}

int attncert_kernel(const attncert_call *call) {
  if (call->abi != ATTNCERT_ABI || call->operation != ATTNCERT_ATTENTION) return 1;
  if (call->v->shape[3] > MOST_COLUMNS) return 2;
  for (int64_t b = 0; b < call->q->shape[0]; b++)
    for (int64_t h = 0; h < call->q->shape[1]; h++)
      for (int64_t i = 0; i < call->q->shape[2]; i++) row(call, b, h, i);
  return 0;
}

const char *attncert_describe(void) {
  return "{\"operation\": \"attention\","
         " \"features\": [\"scale\", \"causal\", \"mask\", \"return_lse\"],"
         " \"formats\": [\"fp16\", \"bf16\", \"fp32\"],"
         " \"declare\": {\"model\": \"single\", \"deterministic\": true},"
         " \"summary\": \"online softmax attention in C, binary32 inside\"}";
}
