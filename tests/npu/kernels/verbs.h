/* Verbs as Ascend C spells them, recorded: what a host puts in their place to have a kernel checked. Each is a macro,
 * so that __LINE__ is the kernel's. */
#ifndef INLAY_TESTS_NPU_KERNELS_VERBS_H
#define INLAY_TESTS_NPU_KERNELS_VERBS_H

#include <inlay/npu_log.h>

/* Of `count` elements, in a buffer; rows of a strided one are `pitch` elements apart. */
typedef struct Tensor {
  uint32_t buffer;
  const char *space;
  uint64_t offset, size; /* bytes: where it begins, and of an element */
} Tensor;

static inline Tensor at(Tensor tensor, uint64_t element) {
  tensor.offset += element * tensor.size;
  return tensor;
}
static inline inlay_npu_bytes first(Tensor tensor, uint64_t count) {
  return inlay_npu_in(tensor.buffer, tensor.offset, count * tensor.size);
}

extern inlay_npu_log npu_log; /* record.c */

static inline Tensor made(inlay_npu_here here, int global, const char *name, const char *space, uint64_t address,
                          uint64_t count, uint64_t size) {
  Tensor tensor;
  tensor.buffer = global ? inlay_npu_buffer(&npu_log, here, name, space, address, count * size)
                         : inlay_npu_allocate(&npu_log, here, name, space, address, count * size);
  tensor.space = space;
  tensor.offset = 0;
  tensor.size = size;
  return tensor;
}
#define GlobalTensor(name, address, count, size) \
  made(INLAY_NPU_HERE("SetGlobalBuffer"), 1, name, "global", address, count, size)
#define LocalTensor(name, space, address, count, size) \
  made(INLAY_NPU_HERE("InitBuffer"), 0, name, space, address, count, size)

static inline void moved(inlay_npu_here here, const char *change, Tensor to, Tensor from, uint64_t count) {
  inlay_npu_copy(&npu_log, here, from.space, to.space, change, first(to, count), first(from, count));
}
#define DataCopy(to, from, count) moved(INLAY_NPU_HERE("DataCopy"), NULL, to, from, count)
#define DataCopyNd2Nz(to, from, count) moved(INLAY_NPU_HERE("DataCopy"), "nd2nz", to, from, count)
#define LoadData(to, from, count) moved(INLAY_NPU_HERE("LoadData"), NULL, to, from, count)

/* From f32 sums to f32 in global memory. */
#define Fixpipe(to, from, count) moved(INLAY_NPU_HERE("Fixpipe"), NULL, to, from, count)
#define Mmad(sum, left, right, m, n, k)                                                                  \
  inlay_npu_matrix(&npu_log, INLAY_NPU_HERE("Mmad"), m, n, k, "f16", "f32", 1, first(sum, (m) * (n)),    \
                   first(left, (m) * (k)), first(right, (k) * (n)))

static inline void computed(inlay_npu_here here, const char *op, Tensor to, Tensor a, const Tensor *b, uint64_t count,
                            uint64_t results) {
  inlay_npu_bytes sources[2];
  sources[0] = first(a, count);
  if (b != NULL) sources[1] = first(*b, count);
  inlay_npu_vector(&npu_log, here, op, "f32", "f32", count, 1, 0, first(to, results), sources, b != NULL ? 2 : 1);
}
#define Add(to, a, b, count) computed(INLAY_NPU_HERE("Add"), "add", to, a, &(b), count, count)
#define Muls(to, a, count) computed(INLAY_NPU_HERE("Muls"), "mul", to, a, NULL, count, count)
#define Adds(to, a, count) computed(INLAY_NPU_HERE("Adds"), "add", to, a, NULL, count, count)
#define Exp(to, a, count) computed(INLAY_NPU_HERE("Exp"), "exp", to, a, NULL, count, count)
#define ReduceMax(to, a, count) computed(INLAY_NPU_HERE("ReduceMax"), "reduce_max", to, a, NULL, count, 1)
#define ReduceSum(to, a, count) computed(INLAY_NPU_HERE("ReduceSum"), "reduce_sum", to, a, NULL, count, 1)
#define CreateVecIndex(to, count)                                                                       \
  inlay_npu_vector(&npu_log, INLAY_NPU_HERE("CreateVecIndex"), "iota", "f32", "f32", count, 1, 0, first(to, count), \
                   NULL, 0)
#define GetValue(tensor) inlay_npu_scalar(&npu_log, INLAY_NPU_HERE("GetValue"), 0, first(tensor, 1))

/* The pipes of Atlas A2, by the roles that the description gives them. */
#define PIPE_S "scalar"
#define PIPE_V "vector"
#define PIPE_M "matrix"
#define PIPE_MTE1 "feed"
#define PIPE_MTE2 "load_vector" /* of a vector core */
#define PIPE_MTE2_CUBE "load"
#define PIPE_MTE3 "store"
#define PIPE_FIX "drain"
#define SetFlag(from, to, id) inlay_npu_set(&npu_log, INLAY_NPU_HERE("SetFlag"), from, to, id)
#define WaitFlag(from, to, id) inlay_npu_wait(&npu_log, INLAY_NPU_HERE("WaitFlag"), from, to, id)
#define PipeBarrier(pipe) inlay_npu_barrier(&npu_log, INLAY_NPU_HERE("PipeBarrier"), pipe)
#define CrossCoreSetFlag(pipe, to, id, peer) \
  inlay_npu_stream_set(&npu_log, INLAY_NPU_HERE("CrossCoreSetFlag"), pipe, to, id, peer)
#define CrossCoreWaitFlag(from, pipe, id, peer) \
  inlay_npu_stream_wait(&npu_log, INLAY_NPU_HERE("CrossCoreWaitFlag"), from, pipe, id, peer)

#endif
