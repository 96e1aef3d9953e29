// The ISA levels that a program tests, and those that this machine lacks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include <inlay/cpu.hpp>

#include "tests/support/requirements.hpp"

namespace inlay::test {

inline bool has_level(Isa level) { return std::ranges::count(available_isas(), level) == 1; }

// Of a backend, as on_backend names it: does bf16_products round there?
inline bool multiplies_bf16(std::string_view label) { return label.starts_with("cpu avx512_bf16"); }

// Every program that tests backends shows which levels of this architecture it could not run.
class HasLevel : public ::testing::Test {
 public:
  explicit HasLevel(Isa level) : level_(level) {}
  void TestBody() override {
    INLAY_NEEDS(has_level(level_), std::string(name(level_)), "this machine has no " + std::string(name(level_)));
  }

 private:
  Isa level_;
};

inline const bool levels_are_shown = [] {
  for (Isa level : all_isas)
    ::testing::RegisterTest("levels", std::string(name(level)).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [level]() -> ::testing::Test* { return new HasLevel(level); });
  return true;
}();

}  // namespace inlay::test
