/* Functions of the C interface that do what a kernel may never do, one each; and a right softmax. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "attncert.h"

static int softmax(const attncert_call *call, float shift) {
  const attncert_tensor *x = call->x;
  float *out = call->output->data;
  for (int64_t r = 0; r < x->shape[0]; r++) {
    const float *row = (const float *)x->data + r * x->stride[0];
    int64_t step = x->stride[1], n = x->shape[1];
    float largest = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < n; j++) largest = row[j * step] > largest ? row[j * step] : largest;
    for (int64_t j = 0; j < n; j++) sum += expf(row[j * step] - shift * largest);
    for (int64_t j = 0; j < n; j++) out[r * n + j] = expf(row[j * step] - shift * largest) / sum;
  }
  return 0;
}

int stable(const attncert_call *call) { return softmax(call, 1.0f); }
int unshifted(const attncert_call *call) { return softmax(call, 0.0f); }
int refuses(const attncert_call *call) { (void)call; return 42; }
int writes_nothing(const attncert_call *call) { (void)call; return 0; }
int segfaults(const attncert_call *call) { return *(volatile int *)(uintptr_t)(call->abi - 1); }
int aborts(const attncert_call *call) { (void)call; abort(); }
int hangs(const attncert_call *call) { (void)call; for (;;) pause(); }

int changes_input(const attncert_call *call) {
  ((float *)call->x->data)[0] += 1.0f;
  return stable(call);
}

int overruns(const attncert_call *call) {
  int64_t last = call->output->shape[0] * call->output->shape[1];
  ((float *)call->output->data)[last] = 0.0f;
  return stable(call);
}

int segfaults_on_long_rows(const attncert_call *call) {
  return call->x->shape[1] > 100 ? segfaults(call) : stable(call);
}

/* The layout of the structures as this compiler sees it. */
int64_t layout(int which) {
  const int64_t found[] = {
    sizeof(attncert_tensor), offsetof(attncert_tensor, shape), offsetof(attncert_tensor, stride),
    sizeof(attncert_call), offsetof(attncert_call, x), offsetof(attncert_call, sinks),
    offsetof(attncert_call, scale), offsetof(attncert_call, softcap),
    offsetof(attncert_call, has_window), offsetof(attncert_call, window_left),
    offsetof(attncert_call, window_right), offsetof(attncert_call, output),
    offsetof(attncert_call, lse),
  };
  return found[which];
}
