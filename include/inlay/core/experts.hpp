// Experts of a mixture: a linear layer for each, of which a row meets one ("grouped GEMM").
//
//   expert_ends [experts] i32     rows of x and y lie by expert: those of expert e are expert_ends[e-1] ..
//   expert_ends[e]
//
//     row   0    1    2    3    4    5    6
//         |   expert 0   | expert 1 | expert 3   |     expert_ends = 3 5 5 7: the third has none
//
// What the experts have each lies behind each other along the first extent: weights packed one by one, biases, scales.
// An operator with such a field is one linear where it is left out; `moe_routing` writes it.
//
// A backend with memory of its own, or that says `groups_experts`, computes all of them in one call of compute. For
// others `run` gives compute what each expert does as an operator of its own, expert_part(op, e, rows): they need
// nothing for it. The CPU takes those parts itself (core/expert_jobs.hpp).
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/overflow.hpp>

namespace inlay {

template <class Op>
concept TakesExperts = requires(const Op& op) {
  op.expert_ends;
  op.experts();
};

template <class Backend>
inline constexpr bool groups_experts = !std::is_same_v<typename std::remove_cvref_t<Backend>::Space, Host> || requires {
  requires std::remove_cvref_t<Backend>::groups_experts;
};

// Rows first .. first + count of x and y.
struct ExpertRows {
  index first, count;
};

inline namespace INLAY_UNIT_ISA {

template <class Op> bool has_experts(const Op& op) {
  if constexpr (TakesExperts<Op>) return op.expert_ends.present();
  return false;
}

// Of host memory, and checked.
template <class Op> ExpertRows rows_of_expert(const Op& op, index expert) {
  const auto* ends = op.expert_ends.template as<std::int32_t>();
  const index step = op.expert_ends.strides[0], first = expert == 0 ? 0 : ends[(expert - 1) * step];
  return {first, ends[expert * step] - first};
}

// What expert e has of a view that all experts share along the first extent; of one that was left out nothing.
template <class V> V of_expert(const V& view, index expert, index experts) {
  if (!view.present()) return view;
  const index each = view.extents[0] / experts;
  return view.slice(0, expert * each, each);
}

// An end that is none, in the words of every backend.
inline Status wrong_expert_end(index expert, index end, index rows) {
  return invalid("expert_ends[" + number(expert) + "] is " + number(end) + "; ends must ascend from 0 to " +
                 number(rows) + ", the rows of x");
}

inline constexpr const char* no_expert =
    "has extent 0 in dimension 0; it must have an end for each expert, one at least";

// What the demands on all else gave, or an end that is none: contents are seen on the host alone.
template <class Op> Status check_expert_ends(const Op& op, Status status) {
  if constexpr (std::is_same_v<typename decltype(op.expert_ends)::space, Host>) {
    if (!status.ok() || !op.expert_ends.present()) return status;
    const index rows = op.x.extents[0], experts = op.expert_ends.extents[0];
    index before = 0;
    for (index e = 0; e < experts; ++e) {
      const index end = op.expert_ends.template as<std::int32_t>()[e * op.expert_ends.strides[0]];
      if (end < (e + 1 < experts ? before : rows) || end > rows) return wrong_expert_end(e, end, rows);
      before = end;
    }
  }
  return status;
}

// Calls visit(op), or visit(what an expert does) for each expert that has rows, until one is refused.
template <class Backend, class Op, class Visit> Status each_part(const Op& op, Visit&& visit) {
  if constexpr (TakesExperts<Op> && !groups_experts<Backend>) {
    if (has_experts(op)) {
      for (index e = 0; e < op.experts(); ++e)
        if (const ExpertRows rows = rows_of_expert(op, e); rows.count > 0)
          if (Status status = visit(expert_part(op, e, rows)); !status.ok()) return status;
      return {};
    }
  }
  return visit(op);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
