// How linears that two devices have are cut between them, in the words of their users:
//
//   none                 not at all; the default
//   rows:0.5             the second device has that share of the output channels (rows of the weight)
//   sequence:0.5         of the tokens
//   multi-sequence:0.5   of the tokens, in passes of powers of two, as an NPU of static graphs has them
//   hybrid:0.5           of the elements: the first tokens' first channels, the square root of the share of each
//
// Without a number the share is a half. A linear that is too small to be cut so is the second device's whole.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <inlay/exec/schedule/cut_linears.hpp>
#include <inlay/exec/split/solver.hpp>

namespace inlay::exec {

class SplitWords {
 public:
  // What is refused is named.
  static Expected<SplitWords> parse(std::string_view words);

  // As the solver would say it: the second device is its NPU.
  LinearSplit of(const LinearShape& shape) const;
  bool cuts_nothing() const { return cut_ == Cut::npu_only; }

 private:
  Cut cut_ = Cut::npu_only;
  double share_ = 0.5;
};

// The parts of a split, each of which has elements. What pads the last pass is nobody's.
std::vector<PlacedPart> parts_of(const LinearSplit& split, const LinearShape& shape, std::size_t gpu, std::size_t npu);

}  // namespace inlay::exec
