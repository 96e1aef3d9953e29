// The same operator over another memory space: every field moved, through the operator's list of fields.
//
//   auto moved = rebind<Host>(op, [&](const auto& field, const auto& view) { return copy_of(view); });
//   run(cpu, moved.op);
//
// `move(field, view)` gives the view in the space To. A field that has one type in both operators (a scalar, or
// SwapBlocks' pairs, which always lie with the host) is copied; a view that was left out stays left out.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/core/fields.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

namespace detail {

template <class Op, class To> struct InSpace;
template <template <class> class Op, class From, class To> struct InSpace<Op<From>, To> {
  using type = Op<To>;
  using space = From;
};
// SwapBlocks: from one space to another.
template <template <class, class> class Op, class Source, class Target, class To>
struct InSpace<Op<Source, Target>, To> {
  using type = Op<To, To>;
  using space = std::conditional_t<std::is_same_v<Source, Host>, Target, Source>;
};

// Where the views of a list lie that was moved; for other fields, nothing.
template <class T> struct ListStorage {};
template <ListOfViews T> struct ListStorage<T> { std::vector<std::remove_const_t<typename T::element_type>> views; };

// By its place among the fields.
template <std::size_t i, class T> struct ListAt { [[no_unique_address]] ListStorage<T> list; };

template <class Places, class... Ts> struct ListsAt;
template <std::size_t... i, class... Ts> struct ListsAt<std::index_sequence<i...>, Ts...> : ListAt<i, Ts>... {
  template <std::size_t n> INLAY_INLINE auto& at() { return list_at<n>(*this); }

 private:
  template <std::size_t n, class T> INLAY_INLINE static ListStorage<T>& list_at(ListAt<n, T>& place) {
    return place.list;
  }
};

template <class Fields> struct ListsOf;
template <class Op, class... Ts>
struct ListsOf<FieldList<Op, Ts...>> : ListsAt<std::index_sequence_for<Ts...>, Ts...> {};

}  // namespace detail

// The same kind of view, of the space To: one that is written stays so.
template <class V, class To>
using ViewIn =
    std::conditional_t<std::is_same_v<V, View<V::rank, typename V::space>>, View<V::rank, To>, ConstView<V::rank, To>>;

// The operator over the space To, and the space of an operator: the device's where it has two.
template <class Op, class To> using InSpace = typename detail::InSpace<std::remove_cvref_t<Op>, To>::type;
template <class Op> using SpaceOfOp = typename detail::InSpace<std::remove_cvref_t<Op>, Host>::space;

// An operator and the lists that it looks at. May be moved, not copied: a copy's lists would be the original's.
template <class Op> struct Rebound {
  Op op;
  detail::ListsOf<std::remove_const_t<decltype(Op::fields)>> lists = {};

  Rebound() = default;
  Rebound(Rebound&&) = default;
  Rebound& operator=(Rebound&&) = default;
};

inline namespace INLAY_UNIT_ISA {

template <class To, class Op, class Move> Rebound<InSpace<Op, To>> rebind(const Op& op, Move&& move) {
  using Moved = InSpace<Op, To>;
  Rebound<Moved> result;
  // Once for each type of a field, not for each field.
  const auto one = [&]<class From, class Target>(const auto& field, const From& from, Target& to, auto& list) {
    if constexpr (std::is_same_v<From, Target>) {
      to = from;
    } else if constexpr (ListOfViews<From>) {
      list.views.reserve(from.size());
      for (const auto& view : from) list.views.push_back(move(field, view));
      to = list.views;
    } else if (from.present()) {
      to = move(field, from);
    } else {
      to.dtype = from.dtype;
    }
  };
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (one(fields_of<Op>.template at<i>(), op.*(fields_of<Op>.template at<i>().member),
         result.op.*(fields_of<Moved>.template at<i>().member), result.lists.template at<i>()),
     ...);
  }
  (std::make_index_sequence<Moved::fields.count>{});
  return result;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
