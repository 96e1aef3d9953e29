// The sizes of an operator on the command line, "rows=4096,dim=4096,type=bf16", which its shape asks for by their names
// (shapes/<op>.hpp), and its operands: tensors have an address and nothing behind it, as programs read none.
//
//   static const inlay::tools::Registered<inlay::RmsNormShape> rms_norm;
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/npu.hpp>

#include "npu_kernels/backend/runtime.hpp"
#include "shapes/tensors.hpp"

namespace inlay::tools {

class Shape : private AbsentTensors {
 public:
  // Errors: a part that is no key=value, a key that comes twice.
  static Expected<Shape> parse(std::string_view text);

  // Gives `value` the one of a key, if it is given. Each is asked for once; wrong values are told by plan.
  void size(const std::string& key, index& value, index least = 1);
  void flag(const std::string& key, bool& value);
  void type(const std::string& key, DType& value);
  template <class Enum> void word(const std::string& key, Enum& value, std::initializer_list<const char*> known) {
    value = static_cast<Enum>(position(key, static_cast<std::size_t>(value), known));
  }

  // Of the operator, as npu would run it, and its verbs if asked for. Errors: a wrong value, a key that nobody asked
  // for, what the contract refuses and what the backend declines.
  template <class At> Expected<npu::Plan> plan(const Npu& npu, npu::VerbLog* verbs) {
    At at;
    at.read(*this);
    const auto op = at.make(*this);
    if (Status status = finished(); !status.ok()) return failure(std::move(status));
    if (Status status = check(op); !status.ok()) return failure(std::move(status));
    if (Status status = supports(npu, op); !status.ok()) return failure(std::move(status));
    if (writes_nothing(op)) return failure(invalid("nothing would be written at this shape"));
    return npu::about(op, [&](const npu::AnyOperator& any) {
      if (verbs == nullptr) return npu::plan(npu, any);
      auto recorded = npu.runtime().verbs(any);
      if (!recorded) return Expected<npu::Plan>(failure(std::move(recorded.error())));
      *verbs = std::move(*recorded);
      return npu::plan(npu, any);
    });
  }

 private:
  Placed place(const Tensor& tensor) override;
  std::size_t position(const std::string& key, std::size_t otherwise, std::initializer_list<const char*> known);
  const std::string* given(const std::string& key, const std::string& otherwise);
  void refuse(const std::string& key, const std::string& must);
  Status finished();

  std::map<std::string, std::string> values_;
  std::vector<std::string> asked_;  // "key=default"
  Status status_;
};

using PlanOperator = Expected<npu::Plan> (*)(const Npu&, Shape&, npu::VerbLog*);

// Those that have a tile program, by name: tools/npu/operators.cpp lists them.
std::map<std::string, PlanOperator>& planned_operators();
template <class At> struct Registered {
  Registered() {
    using Op = decltype(std::declval<const At&>().make(std::declval<Tensors&>()));
    planned_operators().emplace(
        Op::name, [](const Npu& npu, Shape& shape, npu::VerbLog* verbs) { return shape.plan<At>(npu, verbs); });
  }
};

}  // namespace inlay::tools
