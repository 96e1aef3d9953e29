// Makes an operator's row of its `fields`: for ops_*.cpp.
#pragma once

#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include <inlay/core/rebind.hpp>
#include <inlay/cpu.hpp>

#include "bindings/c/operators.hpp"
#include "bindings/c/words.hpp"

namespace inlay::c {

namespace detail {

template <class View> View view_of(const AnyView& any) {
  View view;
  view.data = any.data;
  view.dtype = any.dtype;
  for (std::size_t d = 0; d < View::rank; ++d) view.extents[d] = any.extents[d], view.strides[d] = any.strides[d];
  return view;
}

template <class Op, std::size_t i> void set(void* bound, const Value& value) {
  auto& target = *static_cast<Rebound<Op>*>(bound);
  auto& member = target.op.*(fields_of<Op>.template at<i>().member);
  using T = std::remove_reference_t<decltype(member)>;
  if constexpr (ViewLike<T>) {
    member = view_of<T>(value.view);
  } else if constexpr (ListOfViews<T>) {
    auto& views = target.lists.template at<i>().views;
    for (const AnyView& any : value.list) views.push_back(view_of<typename T::value_type>(any));
    member = views;
  } else if constexpr (std::is_same_v<T, float>) {
    member = value.number;
  } else {
    static_assert(std::is_same_v<T, bool> || std::is_enum_v<T> || std::is_same_v<T, index>);
    member = static_cast<T>(value.integer);
  }
}

template <class Op, std::size_t i> constexpr FieldRow field_row() {
  constexpr auto& field = fields_of<Op>.template at<i>();
  using T = std::remove_cvref_t<decltype(std::declval<Op&>().*(field.member))>;
  FieldRow row{.name = field.name.data(), .role = field.role, .kind = INLAY_TENSOR, .set = set<Op, i>};
  if constexpr (ViewLike<T>) {
    static_assert(T::rank <= max_rank);
    row.rank = T::rank;
  } else if constexpr (ListOfViews<T>) {
    row.kind = INLAY_LIST;
    row.rank = T::value_type::rank;
  } else {
    const T value = Op{}.*(field.member);
    if constexpr (std::is_same_v<T, float>) {
      row.kind = INLAY_NUMBER;
      row.default_number = value;
    } else if constexpr (std::is_enum_v<T>) {
      row.kind = INLAY_WORD;
      row.default_word = word_of(value);
      row.words = word_list<T>.data();
      row.value_of_word = [](std::size_t word) { return static_cast<index>(Words<T>::rows[word].value); };
    } else {
      row.kind = std::is_same_v<T, bool> ? INLAY_FLAG : INLAY_INTEGER;
      row.default_integer = value;
    }
  }
  return row;
}

template <class Op> inline constexpr std::size_t field_count = Op::fields.count;
template <class Op> inline constexpr auto field_rows = []<std::size_t... i>(std::index_sequence<i...>) {
  static_assert(sizeof...(i) <= max_fields);
  return std::array{field_row<Op, i>()...};
}
(std::make_index_sequence<field_count<Op>>{});

template <class Op> Status run(const Computing& backend, Arguments arguments, Scratch& scratch) {
  Rebound<Op> bound;
  if (Status status = set_fields(field_rows<Op>, arguments, &bound); !status.ok()) return status;
  const auto provide = [&](std::size_t needed) { return scratch.take(needed); };
  return backend.cpu != nullptr ? inlay::run(*backend.cpu, bound.op, provide)
                                : inlay::run(Reference{}, bound.op, provide);
}

template <class Op> Status workspace_bytes(const Computing& backend, Arguments arguments, std::size_t& bytes) {
  Rebound<Op> bound;
  if (Status status = set_fields(field_rows<Op>, arguments, &bound); !status.ok()) return status;
  if (Status status = check(bound.op); !status.ok()) return status;
  bytes = backend.cpu != nullptr ? inlay::workspace_bytes(*backend.cpu, bound.op)
                                 : inlay::workspace_bytes(Reference{}, bound.op);
  return {};
}

}  // namespace detail

template <class Op>
inline constexpr OperatorRow row{Op::name.data(), detail::field_rows<Op>, detail::run<Op>, detail::workspace_bytes<Op>};

}  // namespace inlay::c
