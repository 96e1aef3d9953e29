// A sequence of statements with numbers in them becomes loops: where a stretch comes again and again, and each of its
// numbers is affine in how often it came, or goes around as the slots of a ring do.
//
//   load 0, load 4096, load 8192, load 0      for i < 4: load 4096 * (i % 3)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace inlay::npu::emit {

// step * i, or step * ((i + phase) % cycle), i of the loop that is `up` loops outside of the innermost.
struct Term {
  std::size_t up = 0;
  std::int64_t step = 0;
  std::int64_t cycle = 0, phase = 0;
  bool operator==(const Term&) const = default;
};

struct Value {
  std::int64_t base = 0;
  std::vector<Term> terms{};
};

// A statement, $0, $1 .. in it stand for its values; or a loop.
struct Statement {
  std::string text{};
  std::vector<Value> values{};
  std::int64_t trips = 0;  // of a loop
  std::vector<Statement> body{};
  bool is_loop() const { return trips > 0; }
};

std::vector<Statement> rolled(std::vector<Statement> statements);

// The lines of a program in C++: loops count i, j, k ..
std::string lines_of(const std::vector<Statement>& statements, std::size_t indent);

}  // namespace inlay::npu::emit
