/* z = x + y, tile by tile through two slots: while a tile is added the next one is loaded and the last one stored. */
#include "tests/npu/kernels/kernels.h"
#include "tests/npu/kernels/verbs.h"

enum { tiles = 8, tile = 2048, slots = 2 };

void add(int forgets_the_store) {
  const Tensor x = GlobalTensor("x", 0, tiles * tile, 4), y = GlobalTensor("y", 65536, tiles * tile, 4),
               z = GlobalTensor("z", 131072, tiles * tile, 4);
  const Tensor of_x[slots] = {LocalTensor("x0", "vector", 0, tile, 4), LocalTensor("x1", "vector", 8192, tile, 4)},
               of_y[slots] = {LocalTensor("y0", "vector", 16384, tile, 4), LocalTensor("y1", "vector", 24576, tile, 4)},
               of_z[slots] = {LocalTensor("z0", "vector", 32768, tile, 4), LocalTensor("z1", "vector", 40960, tile, 4)};
  for (uint32_t i = 0; i < tiles; ++i) {
    const uint32_t slot = i % slots;
    if (i >= slots) WaitFlag(PIPE_V, PIPE_MTE2, slot);
    DataCopy(of_x[slot], at(x, i * tile), tile);
    DataCopy(of_y[slot], at(y, i * tile), tile);
    SetFlag(PIPE_MTE2, PIPE_V, slot);

    WaitFlag(PIPE_MTE2, PIPE_V, slot);
    if (i >= slots && !forgets_the_store) WaitFlag(PIPE_MTE3, PIPE_V, slot);
    Add(of_z[slot], of_x[slot], of_y[slot], tile);
    if (i + slots < tiles) SetFlag(PIPE_V, PIPE_MTE2, slot);
    SetFlag(PIPE_V, PIPE_MTE3, slot);

    WaitFlag(PIPE_V, PIPE_MTE3, slot);
    DataCopy(at(z, i * tile), of_z[slot], tile);
    if (i + slots < tiles && !forgets_the_store) SetFlag(PIPE_MTE3, PIPE_V, slot);
  }
}
