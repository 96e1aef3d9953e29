// One call of an operator on an OpenCL device: its operands, what the reference gives for them, and whether the device
// gives that too and writes nowhere else.
//
//   | guard |  operand  | guard |          every buffer of the call, its workspace too
//
// An element is right within  ulps * eps(f32) * max|reference| + one rounding to its type;  integers and copies, ulps
// of 0, are equal. What lies in a written buffer and belongs to no element keeps its bytes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/core/staging.hpp>

#include "shapes/random_tensors.hpp"

namespace inlay::tools {

class Case {
 public:
  using Provide = std::function<SpaceWorkspace<Cl>(std::size_t)>;
  using Launch = std::function<Status(const Provide&)>;
  struct Buffer {
    ClAddress begin;               // behind its guard
    std::vector<std::byte> bytes;  // what it holds before each call
    bool written;
  };
  struct Output {
    std::string name;
    std::size_t buffer, at;  // the byte of its first element
    DType dtype;
    std::vector<index> extents, strides;
    std::vector<double> expected;
  };

  // `launch` gives the call to the queue once.
  Case(Cl& cl, std::string what, double ulps, Launch launch = {})
      : cl_(cl), what_(std::move(what)), ulps_(ulps), launch_(std::move(launch)) {}
  Case(const Case&) = delete;
  ~Case();

  // Of an operator at a size (shapes/): with its operands, and with those of the reference.
  template <class Shape>
  static Expected<std::unique_ptr<Case>> make(Cl& cl, std::string what, double ulps, const Shape& shape);

  const std::string& what() const { return what_; }
  Expected<std::size_t> add_buffer(std::vector<std::byte> bytes, bool written);
  ClAddress address(std::size_t buffer) const { return buffers_[buffer].begin; }
  void add_output(Output output) { outputs_.push_back(std::move(output)); }

  // Fills the buffers and runs the call once. Ok, or what is wrong: it did not run, a wrong element, a byte that is not
  // its own.
  Status prove();
  // What the outputs held after prove().
  const std::vector<std::byte>& result() const { return result_; }
  // The seconds of a call: of many, one behind the other, until `least` seconds have passed.
  Expected<double> seconds(double least);

 private:
  Status run_once(bool watched);
  Status check_guards(ClAddress begin, std::size_t bytes, const std::string& name) const;
  Status check(const Output& output, const std::vector<std::byte>& got) const;
  Status check_gaps(std::size_t buffer, const std::vector<std::byte>& got) const;

  Cl& cl_;
  std::string what_;
  double ulps_;
  Launch launch_;
  std::vector<Buffer> buffers_;
  std::vector<Output> outputs_;
  std::vector<std::byte> result_;
  SpaceWorkspace<Cl> workspace_;  // as large as the largest that was asked for
  std::size_t asked_ = 0;         // the last one
};

template <class Shape>
Expected<std::unique_ptr<Case>> Case::make(Cl& cl, std::string what, double ulps, const Shape& shape) {
  constexpr index gap = 64;  // elements: vectors stay aligned
  // First the reference, over its own operands.
  RandomTensors widened(true, gap), operands(false, gap);
  const auto right = shape.make(widened);
  if (Status status = run(Reference{}, right); !status.ok()) return failure(std::move(status));
  const auto op = shape.make(operands);

  auto made = std::make_unique<Case>(cl, std::move(what), ulps);
  const auto regions = detail::regions<Host, Cl>(op);
  for (const auto& region : regions) {
    const auto* const from = static_cast<const std::byte*>(region.source());
    auto added = made->add_buffer({from, from + region.bytes()}, region.is_written());
    if (!added) return failure(std::move(added.error()));
  }
  const auto place = [&](const auto& view) {
    const std::ptrdiff_t at = SpacePointer<Host>::byte_offset(view.data);
    for (std::size_t i = 0; i < regions.size(); ++i)
      if (at >= regions[i].begin && at < regions[i].end) return std::pair(i, at - regions[i].begin);
    return std::pair(std::size_t{0}, std::ptrdiff_t{0});
  };
  auto moved = std::make_shared<Rebound<InSpace<std::remove_cvref_t<decltype(op)>, Cl>>>(
      rebind<Cl>(op, [&](const auto&, const auto& view) {
        using V = std::remove_cvref_t<decltype(view)>;
        ViewIn<V, Cl> result({}, view.dtype, view.extents, view.strides);
        const auto [buffer, offset] = place(view);
        result.data = SpacePointer<Cl>::advance(made->address(buffer), offset);
        return result;
      }));
  for_each_field(op, [&](const auto& field, const auto& view) {
    using V = std::remove_cvref_t<decltype(view)>;
    if constexpr (ViewLike<V>) {
      if (!field.is_written() || !view.present()) return;
      const auto [buffer, offset] = place(view);
      made->add_output({std::string(field.name),
                        buffer,
                        static_cast<std::size_t>(offset),
                        view.dtype,
                        {view.extents.begin(), view.extents.end()},
                        {view.strides.begin(), view.strides.end()},
                        {}});
    }
  });
  // The same outputs, in the same order.
  std::size_t next = 0;
  for_each_field(right, [&](const auto& field, const auto& view) {
    using V = std::remove_cvref_t<decltype(view)>;
    if constexpr (ViewLike<V>) {
      if (!field.is_written() || !view.present()) return;
      for (index k = 0; k < view.size(); ++k) {
        index at = 0;
        for (index d = V::rank - 1, rest = k; d >= 0; rest /= view.extents[d--])
          at += rest % view.extents[d] * view.strides[d];
        made->outputs_[next].expected.push_back(load_element(view.data, view.dtype, at));
      }
      ++next;
    }
  });
  made->launch_ = [&cl, moved](const Provide& provide) { return run(cl, moved->op, provide); };
  return made;
}

}  // namespace inlay::tools
