// Small linear problems of fits: y = x0 v0 + x1 v1 + .., by the squares of errors, each a part of its equation's scale.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace inlay::npu {

inline constexpr std::size_t most_unknowns = 3;

struct Equation {
  std::array<double, most_unknowns> x{};
  double y = 0;
  double scale = 1;  // above 0: of what y was read from; errors are a part of it
};

struct Solution {
  bool determined = false;  // false: the equations leave some unknown open
  std::array<double, most_unknowns> value{}, error{};
  // Of the last unknown divided by the one before it: its standard error, which knows how the two go together.
  double quotient_error = 0;
  std::size_t used = 0;  // equations: those that are far off the others are left out
  double spread = 0;     // of their errors, a part of their scales
};

// Of the first `unknowns` ones. `determined` asks for twice as many equations as unknowns.
Solution solve_scaled(std::span<const Equation> equations, std::size_t unknowns);

// The inverse of a symmetric n x n matrix, row by row; empty where it is not positive definite to within 1e-10 of its
// diagonal.
std::vector<double> inverse_of_definite(const std::vector<double>& matrix, std::size_t n);

}  // namespace inlay::npu
