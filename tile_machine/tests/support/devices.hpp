// Two small devices made by hand, of the two kinds that programs must run on: one with a memory for each
// role and a barrier between dependent vector instructions, one whose roles share a single memory.
#pragma once

#include "tile_machine/device/device.hpp"

namespace inlay::npu {

inline void set_role(Device& device, Space space, int memory) {
  device.memory_of[static_cast<int>(space)] = static_cast<std::uint8_t>(memory);
}
inline void set_role(Device& device, Pipe pipe, int queue) {
  device.queue_of[static_cast<int>(pipe)] = static_cast<std::uint8_t>(queue);
}

inline VectorUnit plain_vector_unit(std::uint32_t bytes) {
  VectorUnit unit;
  unit.bytes = bytes;
  unit.cost.fill({10, 1});
  return unit;
}

// Staging, left, right, accumulator and vector are memories of their own; accumulator -> vector is no path.
inline Device split_device(std::uint32_t cores = 2) {
  Device device;
  device.name = "split";
  device.cores = cores;
  device.dram_bytes_per_cycle = 400;
  device.dram_bytes_per_cycle_core = 64;
  device.memories = {{"global", std::uint64_t{1} << 36, 1, 1},
                     {"l1", 512 << 10, 32, 1},
                     {"l0a", 64 << 10, 32, 1},
                     {"l0b", 64 << 10, 32, 1},
                     {"l0c", 128 << 10, 32, 1},
                     {"ub", 192 << 10, 32, 1}};
  for (Memory& memory : device.memories) memory.granule = memory.align;
  for (int space = 0; space < spaces; ++space) set_role(device, static_cast<Space>(space), space);
  for (int pipe = 0; pipe < pipes; ++pipe) {
    Queue queue;
    queue.name = std::string(name(static_cast<Pipe>(pipe)));
    queue.in_order_visible = pipe == static_cast<int>(Pipe::scalar) || pipe == static_cast<int>(Pipe::matrix);
    device.queues.push_back(queue);
    set_role(device, static_cast<Pipe>(pipe), pipe);
  }
  device.paths = {{Space::global, Space::staging, Pipe::load, 128, 512, 500, true},
                  {Space::global, Space::vector, Pipe::load_vector, 128, 512, 500, true},
                  {Space::staging, Space::left, Pipe::feed, 256, 0, 20, false},
                  {Space::staging, Space::right, Pipe::feed, 128, 0, 20, false},
                  {Space::accumulator, Space::global, Pipe::drain, 64, 256, 300, true},
                  {Space::vector, Space::global, Pipe::store, 128, 512, 300, true}};
  device.matrix.rates = {{DType::f16, DType::f32, 16, 16, 16, 1},
                         {DType::i8, DType::i32, 16, 16, 32, 1},
                         {DType::i4, DType::i32, 16, 16, 64, 1}};
  for (DType from : {DType::f32, DType::i32})
    for (DType to : {DType::f16, DType::bf16, DType::i8, DType::u8})
      device.matrix.drain.push_back({from, to, DrainScales::columns, true});
  device.matrix.drain.push_back({DType::f32, DType::f32, DrainScales::columns, true});
  device.matrix.drain.push_back({DType::i32, DType::i32, DrainScales::none, false});
  device.matrix.m_granule = 16;
  device.vector = plain_vector_unit(256);
  device.sync = {8, 1, 1, 1, 10, 100};
  return device;
}

// The split device's cube and vector units, each with a scalar stream; two of the vector unit. A wait between
// streams stops its queue only.
inline Device twin_device(std::uint32_t cores = 2) {
  Device device = split_device(cores);
  device.name = "twin";
  const auto queues = [](std::initializer_list<Pipe> pipes) {
    std::vector<std::uint8_t> result;
    for (Pipe pipe : pipes) result.push_back(static_cast<std::uint8_t>(pipe));
    return result;
  };
  device.streams = {{"cube", 1, queues({Pipe::load, Pipe::feed, Pipe::matrix, Pipe::drain}), {1, 2, 3, 4}},
                    {"vec", 2, queues({Pipe::load_vector, Pipe::vector, Pipe::store}), {5}}};
  device.sync.stream_flags = 11;
  device.sync.stream_depth = 15;
  device.sync.stream_cycles = 300;
  return device;
}

// All roles but the accumulator are one memory; the vector unit is interlocked; a flag holds many sets.
inline Device flat_device(std::uint32_t cores = 2) {
  Device device = split_device(cores);
  device.name = "flat";
  device.memories = {{"global", std::uint64_t{1} << 36, 1, 1}, {"vtcm", 2 << 20, 128, 1}, {"acc", 64 << 10, 32, 1}};
  for (Space space : {Space::staging, Space::left, Space::right, Space::vector}) set_role(device, space, 1);
  set_role(device, Space::accumulator, 2);
  set_role(device, Pipe::feed, static_cast<int>(Pipe::matrix));
  set_role(device, Pipe::load_vector, static_cast<int>(Pipe::load));
  device.queues[static_cast<int>(Pipe::vector)].in_order_visible = true;
  device.paths = {{Space::global, Space::staging, Pipe::load, 64, 256, 300, true},
                  {Space::global, Space::vector, Pipe::load, 64, 256, 300, true},
                  {Space::accumulator, Space::vector, Pipe::drain, 128, 0, 20, false},
                  {Space::vector, Space::global, Pipe::store, 64, 256, 300, true}};
  device.matrix.rates = {{DType::f16, DType::f32, 32, 32, 32, 16},
                         {DType::i8, DType::i32, 32, 32, 32, 16},
                         {DType::i4, DType::i32, 32, 32, 64, 16}};
  device.matrix.m_granule = 32;
  device.vector = plain_vector_unit(128);
  device.sync.depth = 8;
  device.numerics = {false, 1};
  return device;
}

}  // namespace inlay::npu
