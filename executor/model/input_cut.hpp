// Of a packed linear what multiplies some of its inputs: a rank's part of a sum (RankCut).
#pragma once

#include <string>

#include <inlay/model/linear_weight.hpp>

namespace inlay::exec {

struct InputRange {
  index first, count;
  index all;  // inputs that the weight has
};

// Refused where the codes of a weight lie in an order of their own, or a range ends within a group that has one scale.
// `name`: the tensor's.
Expected<LinearWeight> inputs_of(const LinearWeight& whole, const InputRange& own, const std::string& name);

}  // namespace inlay::exec
