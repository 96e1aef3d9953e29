// Doubles made of integers (cl_kernels/support/double.clh) are the host's own, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include <inlay/cl.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "tests/support/files.hpp"
#include "tests/support/requirements.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::test {
namespace {

using Bits = std::vector<std::uint64_t>;

// Every exponent that results stay normal with, many that are near to one another, zeros, and digits that are all
// nought or one at their end: ties.
Bits operands(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 rng(seed);
  Bits list(count);
  for (auto& bits : list) {
    const std::uint64_t reach = rng() % 2 ? 4 : 400, digits = rng() >> 12;
    const std::uint64_t kept = ~std::uint64_t{0} << rng() % 53;
    const std::uint64_t filled = rng() % 2 ? digits & kept : (digits | ~kept) & 0xfffffffffffff;
    bits = (rng() & std::uint64_t{1} << 63) | (1023 - reach / 2 + rng() % reach) << 52 | filled;
    if (rng() % 50 == 0) bits &= std::uint64_t{1} << 63;
  }
  return list;
}

struct Case {
  const char* expression;  // of the numbers a and b
  std::function<std::uint64_t(std::uint64_t, std::uint64_t)> expected;
};

std::string program_of(std::span<const Case> cases) {
  std::string text = exec::test::read_text(inlay::test::source_path("cl_kernels/support/double.clh"));
  const std::string once = "#pragma once";
  text.erase(text.find(once), once.size());
  text +=
      "kernel void each(int which, global const ulong* first, global const ulong* second, global ulong* y) {"
      "  const size_t i = get_global_id(0); const ulong a = first[i], b = second[i]; switch (which) {";
  for (std::size_t i = 0; i < cases.size(); ++i)
    text += "case " + std::to_string(i) + ": y[i] = " + cases[i].expression + "; break;\n";
  return text + "} }";
}

TEST(ClDoubles, are_the_hosts) {
  auto cl = Cl::make();
  INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
  const auto number = [](std::uint64_t bits) { return std::bit_cast<double>(bits); };
  const auto bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  const auto of_float = [](std::uint64_t a) { return std::bit_cast<float>(static_cast<std::uint32_t>(a)); };
  const Case cases[] = {
      {"SUM(a, b)", [&](auto a, auto b) { return bits(number(a) + number(b)); }},
      {"DIFFERENCE(a, b)", [&](auto a, auto b) { return bits(number(a) - number(b)); }},
      {"DIFFERENCE(a, a ^ (b & 3))", [&](auto a, auto b) { return bits(number(a) - number(a ^ (b & 3))); }},
      {"PRODUCT(a, b)", [&](auto a, auto b) { return bits(number(a) * number(b)); }},
      {"QUOTIENT(a, (b & 0xbffffffffffffffful) | 0x3ff0000000000000ul)",
       [&](auto a, auto b) { return bits(number(a) / number((b & 0xbfffffffffffffff) | 0x3ff0000000000000)); }},
      {"QUOTIENT(a, 0x4010000000000000ul)", [&](auto a, auto) { return bits(number(a) / 4); }},
      {"ROOT(MAGNITUDE(a))", [&](auto a, auto) { return bits(std::sqrt(std::abs(number(a)))); }},
      {"AT_LEAST(a, b)", [&](auto a, auto b) { return std::uint64_t{number(a) >= number(b)}; }},
      {"AT_LEAST(a, a ^ (b & 1))", [&](auto a, auto b) { return std::uint64_t{number(a) >= number(a ^ (b & 1))}; }},
      {"OF_FLOAT(as_float((uint)a))",
       [&](auto a, auto) {
         const float v = of_float(a);
         return std::isnan(v) ? bits(std::copysign(std::numeric_limits<double>::infinity(), v)) : bits(v);
       }},
      {"as_uint(TO_FLOAT(a))",
       [&](auto a, auto) { return std::uint64_t{std::bit_cast<std::uint32_t>(static_cast<float>(number(a)))}; }},
      {"OF_LONG((long)a)", [&](auto a, auto) { return bits(static_cast<double>(static_cast<std::int64_t>(a))); }},
      {"OF_LONG((long)a >> (b & 63))",
       [&](auto a, auto b) { return bits(static_cast<double>(static_cast<std::int64_t>(a) >> (b & 63))); }},
      {"OF_ULONG(a)", [&](auto a, auto) { return bits(static_cast<double>(a)); }},
      {"TO_ULONG(OF_ULONG(a >> ((b & 63) | 1)))",
       [&](auto a, auto b) { return static_cast<std::uint64_t>(static_cast<double>(a >> ((b & 63) | 1))); }},
      {"CEILING(PRODUCT(OF_ULONG((a >> 20) | 1), OF_ULONG((b & 15) | 1)) - ((b >> 4 & 15) << 52))",
       [&](auto a, auto b) {
         const double whole = static_cast<double>((a >> 20) | 1) * static_cast<double>((b & 15) | 1);
         return static_cast<std::uint64_t>(std::ceil(number(bits(whole) - ((b >> 4 & 15) << 52))));
       }},
  };
  auto program = cl->runtime().programs().build(program_of(cases), "-cl-std=CL1.2", "doubles");
  ASSERT_TRUE(program.has_value()) << program.error().message();
  cl::Kernel kernel(clCreateKernel(*program, "each", nullptr));
  clReleaseProgram(*program);
  const Bits a = operands(1, 1 << 15), b = operands(2, 1 << 15);
  const ClAddress first = *cl->allocate(a.size() * 8), second = *cl->allocate(a.size() * 8),
                  y = *cl->allocate(a.size() * 8);
  ASSERT_TRUE(cl->upload(first, std::as_bytes(std::span(a))).ok());
  ASSERT_TRUE(cl->upload(second, std::as_bytes(std::span(b))).ok());
  for (int which = 0; const Case& c : cases) {
    Bits got(a.size());
    kernel.set(0, which++), kernel.set(1, first.memory), kernel.set(2, second.memory), kernel.set(3, y.memory);
    const cl::Grid grid{.groups = {static_cast<index>(a.size())}, .lanes = {}};
    ASSERT_TRUE(cl->runtime().enqueue(kernel.object(), "each", grid).ok());
    ASSERT_TRUE(cl->download(std::as_writable_bytes(std::span(got)), y).ok());
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(got[i], c.expected(a[i], b[i])) << c.expression << " of " << number(a[i]) << ", " << number(b[i]);
  }
}

// Constants are written twice, as numbers for devices that have doubles and as bits for those that have none.
TEST(ClDoubles, constants_are_their_bits) {
  int found = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(inlay::test::source_path("cl_kernels"))) {
    if (!file.is_regular_file()) continue;
    const std::string text = exec::test::read_text(file.path().string());
    const std::regex constant(R"(NUMBER\(([^ ,()]+)(?: / (\d+))?,\s+0x([0-9a-f]{16})\))");
    for (std::sregex_iterator one(text.begin(), text.end(), constant), end; one != end; ++one, ++found) {
      double value = std::stod((*one)[1].str());
      if ((*one)[2].matched) value /= std::stod((*one)[2].str());
      EXPECT_EQ(std::bit_cast<std::uint64_t>(value), std::stoull((*one)[3].str(), nullptr, 16)) << (*one)[0];
    }
  }
  EXPECT_EQ(found, 21);
}

}  // namespace
}  // namespace inlay::test
