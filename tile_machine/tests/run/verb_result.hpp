// What the tests of verbs share: a verb's result where both modes and both kinds of devices agree on it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// An operand of a verb: its values and its shape.
template <class T> struct Operand {
  std::vector<T> values;
  Shape shape;
};

// The result of `body(core, dst, sources)` where both modes and both devices agree on it.
template <class Out, class Body, class... In>
std::vector<Out> result_of(Shape shape, const Body& body, const Operand<In>&... sources) {
  std::vector<Out> first;
  const auto program = [&](Core& m, const Tensor& out, std::initializer_list<Tensor> global) {
    std::vector<Tensor> tiles;
    for (const Tensor& from : global) {
      tiles.push_back(m.alloc("source", Space::vector, from.shape, from.dtype));
      m.copy(tiles.back(), from);
    }
    const Tensor dst = m.alloc("result", Space::vector, shape, out.dtype);
    m.barrier_all();
    body(m, dst, tiles);
    m.barrier_all();
    m.copy(out, dst);
  };
  for (const Device& device : {split_device(1), flat_device(1)}) {
    const auto on = [&](auto& machine, std::vector<Out>& out) {
      const Tensor to = machine.global("out", std::span(out), shape, Use::out);
      const std::array<Tensor, sizeof...(In)> from{
          machine.global("source", std::span(std::as_const(sources.values)), sources.shape)...};
      return [&program, to, from](Core& m) {
        [&]<std::size_t... i>(std::index_sequence<i...>) { program(m, to, {from[i]...}); }
        (std::make_index_sequence<sizeof...(In)>{});
      };
    };
    const auto count = static_cast<std::size_t>(shape.rows * shape.columns);
    std::vector<Out> checked(count), fast(count);
    Machine slow(device);
    const auto checked_program = on(slow, checked);
    expect_clean(slow, checked_program);
    FunctionalMachine quick(device);
    expect_no_reports(quick.run(on(quick, fast)), device.name);
    EXPECT_EQ(std::memcmp(checked.data(), fast.data(), count * sizeof(Out)), 0) << device.name;
    if (first.empty()) first = checked;
    EXPECT_EQ(std::memcmp(checked.data(), first.data(), count * sizeof(Out)), 0) << device.name;
  }
  return first;
}

using Tiles = std::vector<Tensor>;

template <class T> std::vector<T> any_integers(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(random());
  return values;
}

}  // namespace inlay::npu
