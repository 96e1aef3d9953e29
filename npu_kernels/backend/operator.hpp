// The members of Operator (inlay/npu.hpp) from an operator's program. Included by npu_kernels/<op>.cpp alone.
#pragma once

#include <string>

#include "npu_kernels/backend/plan.hpp"
#include "npu_kernels/backend/program.hpp"
#include "npu_kernels/backend/runtime.hpp"

namespace inlay::npu {

template <class Op> Status declined(const Device&, const Op&) { return {}; }

// Everything of an operator that its time depends on: shapes, strides, types, scalars, and lists of whole numbers.
template <class Op> std::string shape_key(const Op& op) {
  std::string key(Op::name);
  const auto number = [&](const auto& value) { key += " " + std::to_string(value); };
  const auto view = [&](const auto& v) {
    key.append(" ").append(v.present() ? name(v.dtype) : "-");
    for (index extent : v.extents) number(extent);
    for (index stride : v.strides) number(stride);
    using V = std::remove_cvref_t<decltype(v)>;
    if constexpr (V::rank == 1 && std::is_const_v<std::remove_pointer_t<decltype(v.data)>>)  // not what is written
      if (v.present() && (v.dtype == DType::i32 || v.dtype == DType::i64))
        for (index i = 0; i < v.extents[0]; ++i)
          number(v.dtype == DType::i64 ? static_cast<const std::int64_t*>(v.data)[i * v.strides[0]]
                                       : static_cast<const std::int32_t*>(v.data)[i * v.strides[0]]);
  };
  for_each_field(op, [&](const auto&, const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (ViewLike<T>) {
      view(value);
    } else if constexpr (ListOfViews<T>) {
      for (const auto& each : value) view(each);
    } else if constexpr (std::is_enum_v<T>) {
      number(static_cast<long>(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      number(value);
    }
  });
  return key;
}

template <class Op> Status Operator<Op>::supports(const Npu& npu, const Op& op) {
  return declined(npu.runtime().device(), op);
}
template <class Op> std::size_t Operator<Op>::scratch_bytes(const Npu& npu, const Op& op) {
  Runtime& runtime = npu.runtime();
  return runtime.scratch_bytes([&](GlobalMemory& memory) { return program(memory, op, runtime.choices()); });
}
template <class Op> Status Operator<Op>::compute(const Npu& npu, const Op& op, const Workspace& workspace) {
  Runtime& runtime = npu.runtime();
  return runtime.run(Op::name, workspace, [&](GlobalMemory& memory) { return program(memory, op, runtime.choices()); });
}
template <class Op> Expected<NpuPrice> Operator<Op>::price(const Npu& npu, const Op& op) {
  Runtime& runtime = npu.runtime();
  return runtime.price(shape_key(op), [&](GlobalMemory& memory) { return program(memory, op, runtime.choices()); });
}
template <class Op> Expected<Plan> Operator<Op>::plan(const Npu& npu, const Op& op) {
  Runtime& runtime = npu.runtime();
  return runtime.plan(Op::name, [&](GlobalMemory& memory) { return program(memory, op, runtime.choices()); });
}

}  // namespace inlay::npu
