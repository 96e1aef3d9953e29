// Shares of the linear layers.
#include <string>
#include <vector>

#include "shapes/linear.hpp"
#include "shapes/linear_int8.hpp"
#include "shapes/linear_w4a16.hpp"
#include "tests/npu/programs/shares.hpp"

namespace inlay::test {
namespace {

struct Case {
  const char* device;
  index m, n, k;
  double floor;
};

std::string shape(const Case& c) {
  return std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k);
}

// Misses, below 0.75: hexagon-htp-like brings weights in for every 64 rows, as many as its accumulators hold, so that
// 8 of 10.8 cycles of a step are products, 0.74 at most; x comes before the first of them, interleaved (66.1 % became
// 65.7 % when that was estimated), and drains take the same queue. On ascend-a2-like rows of 512 are three tiles of a
// core's accumulators: global memory gives the weight no sooner than the first of them is multiplied, and the others
// wait for it.
TEST(shares, linear_f16) {
  struct Forms {
    Case of;
    double packed;  // floor
  };
  for (const auto& [c, packed_floor] : {Forms{{"ascend-a2-like", 1, 4096, 4096, 0.85}, 0.89},
                                        {{"ascend-a2-like", 512, 4096, 4096, 0.70}, 0.82},
                                        {{"ascend-a2-like", 2048, 4096, 4096, 0.81}, 0.86},
                                        {{"systolic128", 512, 4096, 4096, 0.79}, 0.79},
                                        {{"systolic128", 2048, 4096, 4096, 0.84}, 0.82},
                                        {{"hexagon-htp-like", 512, 4096, 4096, 0.65}, 0.65},
                                        {{"hexagon-htp-like", 128, 4096, 14336, 0.98}, 0.99},
                                        {{"hexagon-htp-like", 512, 4096, 14336, 0.54}, 0.64},
                                        {{"systolic32", 1, 4096, 4096, 0.97}, 0.98},
                                        {{"systolic32", 512, 4096, 4096, 0.31}, 0.31}})
    for (const bool packed : {false, true}) {
      AbsentTensors tensors;
      const LinearShape at{.m = c.m, .n = c.n, .k = c.k, .in_rows = !packed};
      const std::string what = std::string("linear f16, ") + (packed ? "packed, " : "rows, ") + shape(c);
      expect_share(what, c.device, at.make(tensors), packed ? packed_floor : c.floor);
    }
}

// Misses, below 0.75: on ascend-a2-like few rows are multiplied sooner than global memory gives their weights, which
// pass the vector cores: 19400 cycles for the bytes alone, and the first chunk and the last rows beside them; on
// systolic128 the eight products of 128 rows fill and drain the arrays, 381 cycles each, between the first weights'
// way in and the last rows' way out.
TEST(shares, linear_int8) {
  for (const Case& c : {Case{"ascend-a2-like", 128, 4096, 4096, 0.60},
                        {"ascend-a2-like", 512, 4096, 4096, 0.62},
                        {"ascend-a2-like", 2048, 4096, 4096, 0.77},
                        {"systolic128", 1, 4096, 4096, 0.69},
                        {"systolic128", 128, 4096, 4096, 0.68},
                        {"systolic128", 512, 4096, 4096, 0.83},
                        {"systolic128", 2048, 4096, 4096, 0.89},
                        {"systolic32", 1, 4096, 4096, 0.67},
                        {"systolic32", 512, 4096, 4096, 0.55},
                        {"hexagon-htp-like", 128, 4096, 4096, 0.93},
                        {"hexagon-htp-like", 512, 4096, 4096, 0.72}}) {
    AbsentTensors tensors;
    expect_share("linear_int8, " + shape(c), c.device, LinearInt8Shape{c.m, c.n, c.k, DType::i8}.make(tensors),
                 c.floor);
  }
}

// A weight that is packed spares the pass that each call makes of it: "Weights as they come" (docs/npu.md).
TEST(shares, packed_weights) {
  constexpr index n = 4096, k = 4096;
  constexpr DType i8 = DType::i8, f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32;
  const std::vector<std::byte> weight(static_cast<std::size_t>(4 * n * k));  // of any type
  struct Packed {
    const char* device;
    DType x, w;
    index m;
    double floor;
    bool rows = false;
  };
  for (const Packed& c : {Packed{"ascend-a2-like", i8, i8, 1, 0.80},
                          {"ascend-a2-like", i8, i8, 128, 0.78},
                          {"ascend-a2-like", i8, i8, 512, 0.76},
                          {"ascend-a2-like", i8, i8, 2048, 0.83},
                          {"ascend-a2-like", f16, f16, 512, 0.82, true},
                          {"ascend-a2-like", f16, bf16, 1, 0.88},
                          {"hexagon-htp-like", f16, bf16, 1, 0.96},
                          {"systolic32", f16, bf16, 1, 0.97},
                          {"systolic128", f16, bf16, 1, 0.92},
                          {"ascend-a2-like", f32, f32, 1, 0.68},
                          {"hexagon-htp-like", f32, f32, 1, 0.44},
                          {"systolic32", f32, f32, 1, 0.48},
                          {"systolic128", f32, f32, 1, 0.29},
                          {"ascend-a2-like", f32, f32, 512, 0.19},
                          {"systolic128", f32, f32, 512, 0.14}}) {
    AbsentTensors tensors;
    const auto expect_more = [&](const std::string& what, const auto& op) {
      const std::string whole = what + ", " + shape({c.device, c.m, n, k, 0});
      const double unpacked = expect_share(whole, c.device, op, 0);
      EXPECT_GT(expect_packed_share(whole, c.device, op, c.floor), unpacked) << whole;
    };
    if (c.w == i8) {
      LinearInt8<Host> op = LinearInt8Shape{c.m, n, k, i8}.make(tensors);
      op.weight.data = weight.data();
      expect_more("linear_int8", op);
      continue;
    }
    Linear<Host> op =
        LinearShape{.m = c.m, .n = n, .k = k, .type = c.x, .weight = c.w, .in_rows = c.rows}.make(tensors);
    (c.rows ? op.weight_rows.data : op.weight.data) = weight.data();
    expect_more(std::string("linear, x ") + std::string(name(c.x)) + ", w " + std::string(name(c.w)), op);
  }
}

// The misses, with a low floor: on ascend-a2-like codes pass the vector cores and the L2 as f16, eight times their
// bytes, and upper bits are its vector unit's work. Other layers of Llama 8B than the square one have other tiles: they
// must fit the vector unit's memory.
TEST(shares, linear_w4a16) {
  struct W4 {
    const char* device;
    NpuActivations mode;
    index group;
    bool zeros;
    double floor;
    index m = 1, n = 4096, bits = 4;
  };
  constexpr NpuActivations exact = NpuActivations::exact, f16 = NpuActivations::f16;
  for (const W4& c : {W4{"hexagon-htp-like", exact, 128, false, 0.97},
                      {"hexagon-htp-like", exact, 128, true, 0.93},
                      {"hexagon-htp-like", exact, 32, false, 0.96},
                      {"hexagon-htp-like", f16, 128, false, 0.89},
                      {"ascend-a2-like", exact, 128, false, 0.31},
                      {"ascend-a2-like", f16, 128, false, 0.33},
                      {"ascend-a2-like", f16, 128, false, 0.47, 128},
                      {"ascend-a2-like", exact, 128, true, 0.35, 1, 6144},
                      {"ascend-a2-like", exact, 128, true, 0.33, 512, 6144},
                      {"ascend-a2-like", exact, 128, true, 0.24, 128},
                      {"ascend-a2-like", exact, 128, true, 0.31, 512},
                      {"hexagon-htp-like", exact, 128, true, 0.26, 512},
                      {"hexagon-htp-like", exact, 32, false, 0.97, 1, 4096, 5},
                      {"hexagon-htp-like", exact, 32, false, 0.97, 1, 4096, 6},
                      {"hexagon-htp-like", f16, 32, false, 0.81, 1, 4096, 5},
                      {"hexagon-htp-like", f16, 32, false, 0.96, 1, 4096, 6},
                      {"ascend-a2-like", exact, 32, false, 0.30, 1, 4096, 5},
                      {"ascend-a2-like", exact, 32, false, 0.34, 1, 4096, 6},
                      {"ascend-a2-like", f16, 32, false, 0.28, 1, 4096, 5},
                      {"ascend-a2-like", f16, 32, false, 0.32, 1, 4096, 6}}) {
    AbsentTensors tensors;
    const LinearW4a16Shape at{.m = c.m, .n = c.n, .group = c.group, .bits = c.bits, .has_zeros = c.zeros};
    const std::string what = "linear_w4a16, " + std::to_string(c.bits) + " bits, " + (c.mode == f16 ? "f16" : "exact") +
                             ", groups of " + std::to_string(c.group) + (c.zeros ? ", zeros, " : ", ") +
                             std::to_string(c.m) + " x " + std::to_string(c.n) + " x 4096";
    expect_share(what, c.device, at.make(tensors), c.floor, c.mode);
  }
}

}  // namespace
}  // namespace inlay::test
