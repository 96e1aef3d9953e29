/* z = x w + bias: the product on the cube core, by way of global memory to two vector cores, which add the bias to half
 * of the rows each. */
#include "tests/npu/kernels/kernels.h"
#include "tests/npu/kernels/verbs.h"

enum { m = 64, n = 64, k = 128, half = m / 2 * n };
enum { cube = 0, vectors = 2 };

static void multiply(Tensor x, Tensor w, Tensor product) {
  inlay_npu_on(&npu_log, 0, cube);
  const Tensor x1 = LocalTensor("x in L1", "staging", 0, m * k, 2),
               w1 = LocalTensor("w in L1", "staging", 16384, k * n, 2),
               left = LocalTensor("left", "left", 0, m * k, 2), right = LocalTensor("right", "right", 0, k * n, 2),
               sum = LocalTensor("sum", "accumulator", 0, m * n, 4);
  DataCopyNd2Nz(x1, x, m * k);
  DataCopyNd2Nz(w1, w, k * n);
  SetFlag(PIPE_MTE2_CUBE, PIPE_MTE1, 0);
  WaitFlag(PIPE_MTE2_CUBE, PIPE_MTE1, 0);
  LoadData(left, x1, m * k);
  LoadData(right, w1, k * n);
  SetFlag(PIPE_MTE1, PIPE_M, 0);
  WaitFlag(PIPE_MTE1, PIPE_M, 0);
  Mmad(sum, left, right, m, n, k);
  SetFlag(PIPE_M, PIPE_FIX, 0);
  WaitFlag(PIPE_M, PIPE_FIX, 0);
  Fixpipe(product, sum, m * n);
}

void matmul(int forgets_the_flag) {
  const Tensor x = GlobalTensor("x", 0, m * k, 2), w = GlobalTensor("w", 16384, k * n, 2),
               product = GlobalTensor("product", 32768, m * n, 4), bias = GlobalTensor("bias", 49152, half, 4),
               z = GlobalTensor("z", 65536, m * n, 4);
  multiply(x, w, product);
  for (uint32_t i = 0; i < vectors && !forgets_the_flag; ++i) CrossCoreSetFlag(PIPE_FIX, PIPE_MTE2, 0, cube + 1 + i);
  for (uint32_t i = 0; i < vectors; ++i) {
    inlay_npu_on(&npu_log, 0, cube + 1 + i);
    const Tensor mine = LocalTensor("rows", "vector", 0, half, 4),
                 added = LocalTensor("added", "vector", 8192, half, 4);
    DataCopy(added, bias, half);
    CrossCoreWaitFlag(PIPE_FIX, PIPE_MTE2, 0, cube);
    DataCopy(mine, at(product, i * half), half);
    SetFlag(PIPE_MTE2, PIPE_V, 0);
    WaitFlag(PIPE_MTE2, PIPE_V, 0);
    Add(mine, mine, added, half);
    SetFlag(PIPE_V, PIPE_MTE3, 0);
    WaitFlag(PIPE_V, PIPE_MTE3, 0);
    DataCopy(at(z, i * half), mine, half);
  }
}
