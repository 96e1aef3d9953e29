#include "tile_machine/device/device.hpp"

#include <algorithm>

namespace inlay::npu {

std::string_view name(Space space) {
  constexpr std::string_view table[spaces] = {"global", "staging", "left", "right", "accumulator", "vector"};
  return table[static_cast<int>(space)];
}

std::string_view name(Pipe pipe) {
  constexpr std::string_view table[pipes] = {"scalar", "load",   "load_vector", "feed",
                                             "matrix", "vector", "drain",       "store"};
  return table[static_cast<int>(pipe)];
}

std::string_view name(VectorOp op) {
  constexpr std::string_view table[vector_ops] = {
      "add",     "sub",        "mul",         "div",           "max",    "min",        "exp",        "rsqrt",
      "recip",   "reduce_sum", "reduce_max",  "broadcast_row", "cast",   "select",     "unpack4",    "shuffle",
      "fill",    "log",        "sqrt",        "tanh",          "erf",    "abs",        "bit_and",    "bit_or",
      "bit_xor", "shift_left", "shift_right", "reduce_min",    "argmax", "column_sum", "column_max", "compare",
      "iota",    "gather",     "sort",        "grouped",       "pack4",  "transpose",  "pack_nz"};
  return table[static_cast<int>(op)];
}

const Path* Device::path(Space from, Space to) const {
  const auto found =
      std::find_if(paths.begin(), paths.end(), [&](const Path& path) { return path.from == from && path.to == to; });
  return found == paths.end() ? nullptr : &*found;
}

std::uint8_t Device::stream_of(Pipe pipe) const {
  const std::uint8_t queue = queue_of[static_cast<int>(pipe)];
  for (std::size_t i = 0; i < streams.size(); ++i)
    if (std::count(streams[i].queues.begin(), streams[i].queues.end(), queue) > 0) return static_cast<std::uint8_t>(i);
  return 0;
}

std::uint8_t Device::stream_of(Space space) const {
  const std::uint8_t memory = memory_of[static_cast<int>(space)];
  for (std::size_t i = 0; i < streams.size(); ++i)
    if (std::count(streams[i].memories.begin(), streams[i].memories.end(), memory) > 0)
      return static_cast<std::uint8_t>(i);
  return 0;
}

bool Device::has_queue(std::size_t stream, std::size_t queue) const {
  if (stream >= streams.size() || queue == queue_of[static_cast<int>(Pipe::scalar)]) return true;
  return std::count(streams[stream].queues.begin(), streams[stream].queues.end(), queue) > 0;
}

bool Device::feeds_are_views() const {
  const auto is_view = [&](Space space) {
    return same_memory(space, Space::staging) && path(Space::staging, space) == nullptr;
  };
  return is_view(Space::left) && is_view(Space::right);
}

const MatrixRate* Device::rate(DType in, DType out) const {
  const auto found = std::find_if(matrix.rates.begin(), matrix.rates.end(),
                                  [&](const MatrixRate& rate) { return rate.in == in && rate.out == out; });
  return found == matrix.rates.end() ? nullptr : &*found;
}

index Device::fractal_block(DType dtype) const {
  const auto found =
      std::find_if(matrix.rates.begin(), matrix.rates.end(), [&](const MatrixRate& rate) { return rate.in == dtype; });
  return found == matrix.rates.end() ? 1 : index{found->k};
}

const DrainForm* Device::drain(DType from, DType to) const {
  const auto found = std::find_if(matrix.drain.begin(), matrix.drain.end(),
                                  [&](const DrainForm& form) { return form.from == from && form.to == to; });
  return found == matrix.drain.end() ? nullptr : &*found;
}

}  // namespace inlay::npu
