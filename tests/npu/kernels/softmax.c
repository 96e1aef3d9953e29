/* y = softmax(scale x + alibi) of one row. The barriers of the branch order what comes behind it too, where the branch
 * is taken: the mistake of https://github.com/tile-ai/tilelang-ascend/issues/1824, made by hand. */
#include "tests/npu/kernels/kernels.h"
#include "tests/npu/kernels/verbs.h"

enum { columns = 2048 };

void softmax(int has_alibi, int barrier_in_the_branch_alone) {
  const Tensor x = GlobalTensor("x", 0, columns, 4), y = GlobalTensor("y", 8192, columns, 4);
  const Tensor in = LocalTensor("in", "vector", 0, columns, 4), row = LocalTensor("row", "vector", 8192, columns, 4),
               bias = LocalTensor("bias", "vector", 16384, columns, 4),
               peak = LocalTensor("peak", "vector", 24576, 8, 4), sum = LocalTensor("sum", "vector", 24608, 8, 4);
  DataCopy(in, x, columns);
  SetFlag(PIPE_MTE2, PIPE_V, 0);
  WaitFlag(PIPE_MTE2, PIPE_V, 0);
  Muls(row, in, columns);
  if (has_alibi) {
    CreateVecIndex(bias, columns);
    PipeBarrier(PIPE_V);
    Muls(bias, bias, columns);
    PipeBarrier(PIPE_V);
    Add(row, row, bias, columns);
    PipeBarrier(PIPE_V);
  }
  if (!has_alibi && !barrier_in_the_branch_alone) PipeBarrier(PIPE_V);
  ReduceMax(peak, row, columns);
  SetFlag(PIPE_V, PIPE_S, 0);
  WaitFlag(PIPE_V, PIPE_S, 0);
  GetValue(peak);
  Adds(row, row, columns);
  PipeBarrier(PIPE_V);
  Exp(row, row, columns);
  PipeBarrier(PIPE_V);
  ReduceSum(sum, row, columns);
  SetFlag(PIPE_V, PIPE_S, 0);
  WaitFlag(PIPE_V, PIPE_S, 0);
  GetValue(sum);
  Muls(row, row, columns);
  SetFlag(PIPE_V, PIPE_MTE3, 0);
  WaitFlag(PIPE_V, PIPE_MTE3, 0);
  DataCopy(y, row, columns);
}
