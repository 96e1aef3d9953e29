/* A program in C11 that knows inlay.h and nothing else: rms_norm and paged_attention against sums written out here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inlay.h"

static int failures = 0;

static void expect(int holds, const char *what) {
  if (holds) return;
  ++failures;
  printf("FAILED: %s (inlay_message: %s)\n", what, inlay_message());
}
static void expect_near(const float *found, const double *expected, size_t n, double bound, const char *what) {
  for (size_t i = 0; i < n; ++i)
    if (!(fabs((double)found[i] - expected[i]) <= bound)) {
      printf("%s[%zu] is %g; expected %g\n", what, i, (double)found[i], expected[i]);
      expect(0, what);
      return;
    }
}

static DLTensor tensor(void *data, uint8_t code, uint8_t bits, int64_t *shape, int32_t rank) {
  DLTensor made;
  memset(&made, 0, sizeof made);
  made.data = data;
  made.device.device_type = kDLCPU;
  made.ndim = rank;
  made.dtype.code = code, made.dtype.bits = bits, made.dtype.lanes = 1;
  made.shape = shape;
  return made;
}

/* Any numbers in -1..1. */
static float noise(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)((double)(*state >> 8) / 8388608.0 - 1.0);
}

static void run_rms_norm(const inlay_backend *backend) {
  enum { tokens = 3, dim = 37, row = 40 }; /* rows lie apart */
  float x[tokens * row], weight[dim], y[tokens * dim];
  double expected[tokens * dim];
  unsigned state = 1;
  for (int i = 0; i < tokens * row; ++i) x[i] = noise(&state);
  for (int i = 0; i < dim; ++i) weight[i] = noise(&state);
  for (int t = 0; t < tokens; ++t) {
    double sum = 0;
    for (int d = 0; d < dim; ++d) sum += (double)x[t * row + d] * (double)x[t * row + d];
    for (int d = 0; d < dim; ++d)
      expected[t * dim + d] = (double)x[t * row + d] / sqrt(sum / dim + 0.25) * ((double)weight[d] + 1);
  }
  int64_t shape[] = {tokens, dim}, strides[] = {row, 1}, weights[] = {dim};
  DLTensor of_x = tensor(x, kDLFloat, 32, shape, 2), of_weight = tensor(weight, kDLFloat, 32, weights, 1),
           of_y = tensor(y, kDLFloat, 32, shape, 2);
  of_x.strides = strides;
  const inlay_argument arguments[] = {inlay_give_tensor("x", &of_x), inlay_give_tensor("weight", &of_weight),
                                      inlay_give_tensor("y", &of_y), inlay_give_tensor("residual", NULL),
                                      inlay_give_number("eps", 0.25), inlay_give_number("weight_offset", 1)};
  expect(inlay_run(backend, "rms_norm", arguments, 6, NULL, 0) == INLAY_OK, "rms_norm runs");
  expect_near(y, expected, tokens * dim, 4e-6, "rms_norm");
}

/* Two sequences of 5 and 0 keys in blocks of 4, two heads of keys, four of queries. */
static void run_paged_attention(const inlay_backend *backend) {
  enum { seqs = 2, q_heads = 4, kv_heads = 2, dim = 8, blocks = 3, block_size = 4, x = 4, length = 5 };
  float q[seqs * q_heads * dim], k[blocks * kv_heads * dim * block_size], v[blocks * kv_heads * dim * block_size];
  float out[seqs * q_heads * dim];
  double expected[seqs * q_heads * dim];
  int32_t table[seqs * 2] = {2, 0, -1, -1}, lens[seqs] = {length, 0};
  unsigned state = 7;
  memset(expected, 0, sizeof expected);
  for (size_t i = 0; i < sizeof q / sizeof *q; ++i) q[i] = noise(&state);
  for (size_t i = 0; i < sizeof k / sizeof *k; ++i) k[i] = noise(&state), v[i] = noise(&state);
/* [blocks, kv_heads, dim / x, block_size, x] */
#define AT(cache, key, h, d) \
  cache[(((table[(key) / block_size] * kv_heads + (h)) * (dim / x) + (d) / x) * block_size + (key) % block_size) * x + (d) % x]
  for (int h = 0; h < q_heads; ++h) {
    const int kv = h / (q_heads / kv_heads);
    double weights[length], all = 0;
    for (int j = 0; j < length; ++j) {
      double dot = 0;
      for (int d = 0; d < dim; ++d) dot += (double)q[h * dim + d] * (double)AT(k, j, kv, d);
      weights[j] = exp(0.5 * dot);
      all += weights[j];
    }
    for (int j = 0; j < length; ++j)
      for (int d = 0; d < dim; ++d) expected[h * dim + d] += weights[j] / all * (double)AT(v, j, kv, d);
  }
  int64_t of_queries[] = {seqs, q_heads, dim}, of_cache[] = {blocks, kv_heads, dim / x, block_size, x}, of_table[] = {seqs, 2},
          of_lens[] = {seqs};
  DLTensor tq = tensor(q, kDLFloat, 32, of_queries, 3), tk = tensor(k, kDLFloat, 32, of_cache, 5),
           tv = tensor(v, kDLFloat, 32, of_cache, 5), tt = tensor(table, kDLInt, 32, of_table, 2),
           tl = tensor(lens, kDLInt, 32, of_lens, 1), to = tensor(out, kDLFloat, 32, of_queries, 3);
  const inlay_argument arguments[] = {
      inlay_give_tensor("q", &tq),       inlay_give_tensor("k", &tk),      inlay_give_tensor("v", &tv),
      inlay_give_tensor("block_table", &tt), inlay_give_tensor("kv_lens", &tl), inlay_give_tensor("out", &to),
      inlay_give_number("scale", 0.5),   inlay_give_integer("partition", 2), inlay_give_word("bias_order", "scale_bias_softcap")};
  size_t bytes = 0;
  expect(inlay_workspace_bytes(backend, "paged_attention", arguments, 9, &bytes) == INLAY_OK, "paged_attention has a workspace");
  const size_t whole = (bytes + 63) / 64 * 64;
  void *workspace = bytes > 0 ? aligned_alloc(64, whole) : NULL;
  expect(inlay_run(backend, "paged_attention", arguments, 9, workspace, bytes) == INLAY_OK, "paged_attention runs");
  expect_near(out, expected, sizeof out / sizeof *out, 2e-6, "paged_attention");
  memset(out, 0, sizeof out);
  expect(inlay_run(backend, "paged_attention", arguments, 9, NULL, 0) == INLAY_OK, "paged_attention runs on its own scratch");
  expect_near(out, expected, sizeof out / sizeof *out, 2e-6, "paged_attention on its own scratch");
  free(workspace);
  table[1] = blocks;
  expect(inlay_run(backend, "paged_attention", arguments, 9, NULL, 0) == INLAY_INVALID_ARGUMENT, "a block beyond the cache is refused");
  expect(strstr(inlay_message(), "paged_attention: block_table[0, 1] is 3; it must be in 0..2") != NULL, "and named");
}

int main(void) {
  expect(strcmp(inlay_message(), "") == 0, "no call has failed yet");
  expect(inlay_abi() == INLAY_ABI, "the library has the header's ABI");
  const char *names[] = {"cpu", "reference"};
  for (int i = 0; i < 2; ++i) {
    inlay_backend_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.name = names[i];
    inlay_backend *backend = NULL;
    expect(inlay_backend_open(&options, &backend) == INLAY_OK, "a backend opens");
    run_rms_norm(backend);
    run_paged_attention(backend);
    inlay_backend_close(backend);
  }
  if (failures == 0) printf("OK\n");
  return failures != 0;
}
