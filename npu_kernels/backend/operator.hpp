// The members of Operator (inlay/npu.hpp) from an operator's program. Included by npu_kernels/<op>.cpp alone.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "npu_kernels/backend/plan.hpp"
#include "npu_kernels/backend/program.hpp"
#include "npu_kernels/backend/runtime.hpp"

namespace inlay::npu {

template <class Op> Status declined(const Device&, const Op&) { return {}; }
template <class Op> WeightForm weight_form(const Device&, const Op&) { return {}; }
template <class Op> Packing packing(GlobalMemory&, const Op&, const Choices&) { return {}; }

template <class Member, class... Members>
constexpr bool is_among(Member member, const std::tuple<Members...>& members) {
  const auto same = [&](auto other) {
    if constexpr (std::is_same_v<Member, decltype(other)>)
      return member == other;
    else
      return false;
  };
  return std::apply([&](auto... other) { return (false || ... || same(other)); }, members);
}

// visit(element) for each of a list's, whatever its strides.
template <class V, class Visit> void for_each_element(const V& list, Visit&& visit) {
  const auto* first = static_cast<const std::byte*>(static_cast<const void*>(list.data));
  const index rows = V::rank == 2 ? list.extents[0] : 1, columns = list.extents[V::rank - 1];
  static_assert(V::rank <= 2);
  for (index r = 0; r < rows; ++r)
    for (index c = 0; c < columns; ++c)
      visit(first + byte_size(list.dtype, r * (V::rank == 2 ? list.strides[0] : 0) + c * list.strides[V::rank - 1]));
}

// Everything that a program depends on. Returns the blocks of its weight, if it has been packed: the last operand.
template <class Op> std::byte* describe(Runtime& runtime, const Op& op) {
  Call& call = runtime.call();
  call.start(Op::name);
  for_each_field(op, [&](const auto& field, const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (ViewLike<T>) {
      call.operand(value, field.is_written());
      if constexpr (T::rank <= 2)
        if (is_among(field.member, lists_read<Op>))
          for_each_element(value, [&](const std::byte* element) {
            call.contents(element, static_cast<std::size_t>(byte_size(value.dtype, 1)));
          });
    } else if constexpr (ListOfViews<T>) {
      call.number(value.size());
      for (const auto& each : value) call.operand(each, false);
    } else if (!is_among(field.member, scalars_unread<Op>)) {
      call.number(value);
    }
  });
  const WeightForm weight = weight_form(runtime.device(), op);
  if (weight.place == nullptr) return nullptr;
  const std::span<std::byte> blocks = runtime.packed().find(weight);
  call.operand(ConstView<1>(blocks.data(), DType::i8, {static_cast<index>(blocks.size())}), false);
  return blocks.data();
}

// The operator as its program is made: symbols for addresses, lists in `kept`.
template <class Op> Op without_places(const Op& op, const Call& call, std::vector<std::shared_ptr<void>>& kept) {
  Op result = op;
  std::size_t operand = 0;
  const auto place = [&](auto& view) { view.data = call.symbol(operand++); };
  for_each_field(result, [&](const auto& field, auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (ListOfViews<T>) {
      auto views = std::make_shared<std::vector<typename T::value_type>>(value.begin(), value.end());
      for (auto& each : *views) place(each);
      value = *views;
      kept.push_back(std::move(views));
    } else if constexpr (ViewLike<T>) {
      const T given = value;
      place(value);
      if constexpr (T::rank <= 2) {
        if (!is_among(field.member, lists_read<Op>) || given.empty()) return;
        const auto element_bytes = static_cast<std::size_t>(byte_size(given.dtype, 1));
        auto elements = std::make_shared<std::vector<std::byte>>();
        for_each_element(given, [&](const std::byte* element) {
          elements->insert(elements->end(), element, element + element_bytes);
        });
        value = T(elements->data(), given.dtype, given.extents);
        kept.push_back(std::move(elements));
      }
    } else if (is_among(field.member, scalars_unread<Op>)) {
      value = {};
    }
  });
  return result;
}

template <class Op> Prepared& prepared(Runtime& runtime, const Op& op) {
  std::byte* blocks = describe(runtime, op);
  if (Prepared* known = runtime.prepared()) return *known;
  std::vector<std::shared_ptr<void>> kept;
  const Op symbols = without_places(op, runtime.call(), kept);
  if (blocks != nullptr) blocks = runtime.call().symbol(runtime.call().operands() - 1);
  return runtime.prepare([&](GlobalMemory& memory) { return program(memory, symbols, runtime.choices(blocks)); },
                         std::move(kept));
}

template <class Op> Status Operator<Op>::supports(const Npu& npu, const Op& op) {
  Runtime& runtime = npu.runtime();
  if (Status status = declined(runtime.device(), op); !status.ok()) return status;
  if (!runtime.tries_programs() || writes_nothing(op)) return {};
  const std::string& lacks = prepared(runtime, op).lacks;
  return lacks.empty() ? Status() : unsupported(lacks);
}
template <class Op> std::size_t Operator<Op>::scratch_bytes(const Npu& npu, const Op& op) {
  return prepared(npu.runtime(), op).workspace_bytes;
}
template <class Op> Status Operator<Op>::compute(const Npu& npu, const Op& op, const Workspace& workspace) {
  Runtime& runtime = npu.runtime();
  if (npu.options().mode == NpuMode::functional) return runtime.run(Op::name, prepared(runtime, op), workspace);
  std::byte* const blocks = describe(runtime, op);
  return runtime.run_checked(Op::name, workspace,
                             [&](GlobalMemory& memory) { return program(memory, op, runtime.choices(blocks)); });
}
template <class Op> Expected<NpuPrice> Operator<Op>::price(const Npu& npu, const Op& op) {
  Runtime& runtime = npu.runtime();
  std::byte* const blocks = describe(runtime, op);
  if (const NpuPrice* known = runtime.priced()) return *known;
  return runtime.price([&](GlobalMemory& memory) { return program(memory, op, runtime.choices(blocks)); });
}
template <class Op> Expected<Plan> Operator<Op>::plan(const Npu& npu, const Op& op) {
  Runtime& runtime = npu.runtime();
  std::byte* const blocks = describe(runtime, op);
  return runtime.plan(Op::name, [&](GlobalMemory& memory) { return program(memory, op, runtime.choices(blocks)); });
}
template <class Op> std::size_t Operator<Op>::packed_bytes(const Npu& npu, const Op& op) {
  Runtime& runtime = npu.runtime();
  return packing(runtime.planning(), op, runtime.choices()).bytes;
}
template <class Op> Status Operator<Op>::pack(const Npu& npu, const Op& op, std::span<std::byte> memory) {
  Runtime& runtime = npu.runtime();
  const Packing how = packing(runtime.planning(), op, runtime.choices());
  return how.bytes == 0 ? Status() : runtime.pack(Op::name, weight_form(runtime.device(), op), how, memory);
}

}  // namespace inlay::npu
