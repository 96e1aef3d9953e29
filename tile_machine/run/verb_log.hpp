// The verbs of a run with their operands, stream by stream in the order of issue, flags and barriers of rings and
// chains between them: what an event log, which has footprints alone, does not say. Written out as source by emit/.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tile_machine/arithmetic/tensor.hpp"
#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

struct Verb {
  Entry entry;             // of work: its verb by name; of a flag: its pipes and id
  bool described = false;  // what follows is said of it
  VectorOp op = VectorOp::add;
  Compare compare = Compare::less;
  Scalar scalar = 0.0f;             // an operand, what is filled in, drain's scale, or what scalar_read found
  bool flag = false;                // of mma: the sum starts at zero; of drain: it does more than scale
  Iota iota{};                      // of viota
  std::array<Tensor, 4> tensors{};  // what is written first
  std::size_t count = 0;
  NdTensor to{}, from{};  // of a copy by axes
};

struct VerbLog {
  struct Stream {
    std::uint32_t core = 0, vector_worker = 0, vector_workers = 0;
    bool has_vector = false, has_matrix = false;
    std::vector<Verb> verbs;
  };
  std::vector<Stream> streams;
  std::vector<Buffer> buffers;
};

}  // namespace inlay::npu
