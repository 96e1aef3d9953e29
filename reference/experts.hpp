// Of a mixture of experts, in the words of core/experts.hpp. The reference goes by rows of its own, not by the parts
// that `run` makes for other backends: a fault of those shows.
#pragma once

#include <inlay/core/element.hpp>
#include <inlay/core/experts.hpp>

namespace inlay::reference {

// Calls visit(expert, first, end) for the rows first .. end - 1 of x; of a linear without experts visit(0, 0, rows).
template <class Op, class Visit> void for_each_expert(const Op& op, Visit&& visit) {
  index first = 0;
  for (index expert = 0; expert < op.experts(); ++expert) {
    const index end = op.expert_ends.present() ? static_cast<index>(at(op.expert_ends, expert)) : op.x.extents[0];
    visit(expert, first, end);
    first = end;
  }
}

}  // namespace inlay::reference
