// The sizes of an operator on the command line, "rows=4096,dim=4096,type=bf16", and its operands: tensors have an
// address and nothing behind it, as programs read none; lists (slots, lengths, tables) are the host's and have theirs.
//
//   Expected<npu::Plan> plan_rms_norm(const Npu& npu, Shape& shape) {
//     const index rows = shape.size("rows", 4096), dim = shape.size("dim", 4096);
//     const DType type = shape.type("type", DType::f16);
//     return shape.plan(npu, RmsNorm<Host>{.x = shape.in<2>(type, {rows, dim}), ..});
//   }
//   const Registered rms_norm("rms_norm", plan_rms_norm);
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/npu.hpp>

#include "npu_kernels/backend/plan.hpp"

namespace inlay::tools {

class Shape {
 public:
  // Errors: a part that is no key=value, a key that comes twice.
  static Expected<Shape> parse(std::string_view text);

  // The value of a key, or what it is if it is not given. Each is asked for once; wrong values are told by plan.
  index size(const std::string& key, index otherwise, index least = 1);
  bool flag(const std::string& key, bool otherwise);
  DType type(const std::string& key, DType otherwise);
  std::string word(const std::string& key, const std::vector<std::string>& known);  // else the first

  template <int N> ConstView<N> in(DType type, std::array<index, N> extents) {
    return ConstView<N>(room(type, extents.data(), N), type, extents);
  }
  template <int N> View<N> out(DType type, std::array<index, N> extents) {
    return View<N>(room(type, extents.data(), N), type, extents);
  }
  // Whole numbers that the host knows: value(i) of the i-th.
  template <int N>
  ConstView<N> list(DType type, std::array<index, N> extents, const std::function<index(index)>& value) {
    return ConstView<N>(numbers(type, extents.data(), N, value), type, extents);
  }

  // Of the operator, as npu would run it. Errors: a wrong value, a key that nobody asked for, what the contract refuses
  // and what the backend declines.
  template <class Op> Expected<npu::Plan> plan(const Npu& npu, const Op& op) {
    if (Status status = finished(); !status.ok()) return failure(std::move(status));
    if (Status status = check(op); !status.ok()) return failure(std::move(status));
    if (Status status = supports(npu, op); !status.ok()) return failure(std::move(status));
    if (writes_nothing(op)) return failure(invalid("nothing would be written at this shape"));
    return npu::about(op, [&](const npu::AnyOperator& any) { return npu::plan(npu, any); });
  }

 private:
  void* room(DType type, const index* extents, int rank);
  void* numbers(DType type, const index* extents, int rank, const std::function<index(index)>& value);
  const std::string* given(const std::string& key, const std::string& otherwise);
  void refuse(const std::string& key, const std::string& must);
  Status finished();

  std::map<std::string, std::string> values_;
  std::vector<std::string> asked_;  // "key=default"
  std::deque<std::vector<std::byte>> lists_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
  Status status_;
};

using PlanOperator = Expected<npu::Plan> (*)(const Npu&, Shape&);

// Those that have a tile program, by name: each in tools/npu/operators/<op>.cpp.
std::map<std::string, PlanOperator>& planned_operators();
struct Registered {
  Registered(const char* name, PlanOperator plan) { planned_operators().emplace(name, plan); }
};

}  // namespace inlay::tools
