// An operator as the backend sees it, from its program: included by npu_kernels/<op>.cpp, which instantiates
//
//   template struct Operator<RmsNorm<Host>>;
//
// The backend (runtime.hpp) knows no type of an operator, and a program's file knows nothing of the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/core/fields.hpp>
#include <inlay/core/layout.hpp>

#include "npu_kernels/backend/any_operator.hpp"
#include "npu_kernels/backend/features.hpp"

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

template <class Op> class TypedOperator final : public AnyOperator {
 public:
  explicit TypedOperator(const Op& op) : op_(op) {}

  std::string_view name() const override { return Op::name; }
  bool nothing_to_write() const override { return writes_nothing(op_); }
  Status refusal(const Device& device) const override {
    if (Status status = declined(device, op_); !status.ok()) return status;
    std::uint64_t each_by_itself = 0;
    for_each_operand([&](const ByteRange& at) { each_by_itself += static_cast<std::uint64_t>(at.end - at.begin); });
    if (each_by_itself <= device.memories[0].bytes) return {};  // known estimates take no memory to be found
    std::vector<ByteRange> operands;
    for_each_operand([&](const ByteRange& at) { operands.push_back(at); });
    return lacks_global_memory(device, std::move(operands));
  }
  WeightForm weight(const Device& device) const override { return weight_form(device, op_); }
  Program make_program(GlobalMemory& memory, const Choices& choices) const override {
    return program(memory, op_, choices);
  }
  Packing make_packing(GlobalMemory& memory, const Choices& choices) const override {
    return packing(memory, op_, choices);
  }

  void add_to(CallKey& key) const override {
    for_each_field(op_, [&](const auto& field, const auto& value) {
      using T = std::remove_cvref_t<decltype(value)>;
      if constexpr (ViewLike<T>) {
        key.operand(value, field.is_written());
        if constexpr (T::rank <= 2)
          if (is_among(field.member, lists_read<Op>))
            for_each_element(value, [&](const std::byte* element) {
              key.contents(element, static_cast<std::size_t>(byte_size(value.dtype, 1)));
            });
      } else if constexpr (ListOfViews<T>) {
        key.number(value.size());
        for (const auto& each : value) key.operand(each, false);
      } else if (!is_among(field.member, scalars_unread<Op>)) {
        key.number(value);
      }
    });
  }

  std::unique_ptr<AnyOperator> with_symbols(const CallKey& key) const override {
    auto result = std::make_unique<TypedOperator>(op_);
    std::size_t operand = 0;
    const auto place = [&](auto& view) { view.data = key.symbol(operand++); };
    for_each_field(result->op_, [&](const auto& field, auto& value) {
      using T = std::remove_cvref_t<decltype(value)>;
      if constexpr (ListOfViews<T>) {
        auto views = std::make_shared<std::vector<typename T::value_type>>(value.begin(), value.end());
        for (auto& each : *views) place(each);
        value = *views;
        result->lists_.push_back(std::move(views));
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
          result->lists_.push_back(std::move(elements));
        }
      } else if (is_among(field.member, scalars_unread<Op>)) {
        value = {};
      }
    });
    return result;
  }

 private:
  // visit(bytes) of each.
  template <class Visit> void for_each_operand(Visit&& visit) const {
    for_each_view(op_, [&](const auto&, const auto& view) {
      if (view.present() && !view.empty()) visit(byte_range(view));
    });
  }

  Op op_;
  std::vector<std::shared_ptr<void>> lists_;
};

template <class Op>
void Operator<Op>::visit(const Op& op, void* context, void (*visit)(void* context, const AnyOperator& op)) {
  visit(context, TypedOperator<Op>(op));
}

}  // namespace inlay::npu
