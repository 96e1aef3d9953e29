// Small machines for the operators' programs at sizes that take many tiles of their memories (small_*.hpp): what the
// mutation suites run.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/fields.hpp>

#include "npu_kernels/backend/program.hpp"
#include "shapes/random_tensors.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/run/machine.hpp"
#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu::test {

struct Ran {
  Outcome outcome;
  std::vector<std::byte> output;
};

struct Problem {
  std::string name;
  std::function<Ran(const Device&, const Options&)> run;
  bool may_hide = false;  // what goes wrong need not show in the results

  friend std::ostream& operator<<(std::ostream& out, const Problem& problem) { return out << problem.name; }
};

// The same queues, paths and flags in small memories: small problems take many tiles, machines are quick to make.
inline Device small(Device device, std::uint32_t cores, std::initializer_list<std::pair<Space, std::uint64_t>> bytes) {
  device.cores = cores;
  for (const auto& [space, size] : bytes)
    device.memories[device.memory_of[static_cast<std::size_t>(space)]].bytes = size;
  return device;
}

inline std::vector<Device> small_devices() {
  const auto load = [](const char* name) {
    auto device = load_device(inlay::test::source_path("tile_machine/devices/") + name + ".json");
    EXPECT_TRUE(device) << device.error().message();
    return device ? *std::move(device) : Device{};
  };
  return {small(load("ascend-a2-like"), 2,
                {{Space::staging, 16 << 10},
                 {Space::left, 4 << 10},
                 {Space::right, 4 << 10},
                 {Space::accumulator, 8 << 10},
                 {Space::vector, 24 << 10}}),
          small(load("hexagon-htp-like"), 2, {{Space::staging, 48 << 10}})};
}

template <class T> std::vector<T> values(std::size_t count, int low, int high, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<T> all(count);
  for (T& value : all)
    value = static_cast<T>(
        static_cast<float>(low + static_cast<int>(engine() % static_cast<std::uint64_t>(high - low + 1))));
  return all;
}

template <class T> std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// All that a call of the operator writes.
template <class Op> std::vector<std::byte> written_by(const Op& op) {
  std::vector<std::byte> bytes;
  for_each_field(op, [&](const auto& field, const auto& value) {
    if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>) {
      if (!field.is_written()) return;
      const auto* const from = static_cast<const std::byte*>(value.data);
      bytes.insert(bytes.end(), from, from + byte_size(value.dtype, value.size()));
    }
  });
  return bytes;
}

template <class Op>
Ran run_operator(const Device& device, const Options& options, const Op& op, const Choices& choices = {}) {
  Machine machine(device, options);
  const Program made = program(machine, op, choices);
  Outcome outcome = machine.run(made.body, made.launch);
  return {std::move(outcome), written_by(op)};
}

// An operator's program at a size (shapes/).
template <class Shape> Problem problem(std::string name, const Shape& shape, const Choices& choices = {}) {
  return {std::move(name), [shape, choices](const Device& device, const Options& options) {
            RandomTensors tensors;
            return run_operator(device, options, shape.make(tensors), choices);
          }};
}

}  // namespace inlay::npu::test
