// Shares of the linear layers.
#include <string>
#include <vector>

#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>

#include "tests/machine/programs/shares.hpp"

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

// Of packed weights. Misses: hexagon-htp-like brings weights in for every 64 rows, as many as its two accumulators
// hold, 14 of 30 cycles; systolic128 passes packed panels through global memory, as blocks of 128 cut them.
TEST(shares, linear_f16) {
  struct Forms {
    Case of;
    double packed;  // floor
  };
  for (const auto& [c, packed_floor] : {Forms{{"ascend-a2-like", 512, 4096, 4096, 0.58}, 0.82},
                                        {{"ascend-a2-like", 2048, 4096, 4096, 0.78}, 0.86},
                                        {{"systolic128", 512, 4096, 4096, 0.76}, 0.44},
                                        {{"systolic128", 2048, 4096, 4096, 0.79}, 0.67},
                                        {{"hexagon-htp-like", 512, 4096, 4096, 0.53}, 0.47}})
    for (const bool packed : {false, true}) {
      Addresses at;
      Linear<Host> op{.x = at.view<2>(DType::f16, {c.m, c.k}), .y = at.view<2>(DType::f16, {c.m, c.n})};
      if (packed)
        op.weight = at.view<3>(DType::f16, linear_packed_extents(c.n, c.k, DType::f16));
      else
        op.weight_rows = at.view<2>(DType::f16, {c.n, c.k});
      const std::string what = std::string("linear f16, ") + (packed ? "packed, " : "rows, ") + shape(c);
      expect_share(what, c.device, op, packed ? packed_floor : c.floor);
    }
}

// Misses, below 0.75: on ascend-a2-like the vector cores lay the weights out anew before any product starts, all bytes
// twice through global memory; on systolic128 few rows leave the arrays waiting for panels of 64 KB.
TEST(shares, linear_int8) {
  for (const Case& c : {Case{"ascend-a2-like", 128, 4096, 4096, 0.46},
                        {"ascend-a2-like", 512, 4096, 4096, 0.52},
                        {"ascend-a2-like", 2048, 4096, 4096, 0.72},
                        {"systolic128", 128, 4096, 4096, 0.46},
                        {"systolic128", 512, 4096, 4096, 0.64},
                        {"systolic128", 2048, 4096, 4096, 0.74},
                        {"hexagon-htp-like", 128, 4096, 4096, 0.78}}) {
    Addresses at;
    const std::vector<std::int32_t> sums(static_cast<std::size_t>(c.n));  // a price reads lists of whole numbers
    const LinearInt8<Host> op{.x = at.view<2>(DType::i8, {c.m, c.k}),
                              .x_scale = at.view<1>(DType::f32, {c.m}),
                              .weight = at.view<3>(DType::i8, linear_int8::packed_extents(c.n, c.k)),
                              .weight_sum = {sums.data(), {c.n}},
                              .weight_scale = at.view<1>(DType::f32, {c.n}),
                              .y = at.view<2>(DType::f16, {c.m, c.n})};
    const std::string what = "linear_int8, " + shape(c);
    expect_share(what, c.device, op, c.floor);
  }
}

// Codes become f16 once where staging is the vector unit's memory. Misses: two halves of each weight, and A2's weights,
// pass through global memory, sixteen times and eight times the bytes of the codes.
TEST(shares, linear_w4a16) {
  for (const Case& c : {Case{"hexagon-htp-like", 1, 4096, 4096, 0.89}, {"ascend-a2-like", 1, 4096, 4096, 0}})
    for (NpuActivations mode : {NpuActivations::f16, NpuActivations::exact}) {
      Addresses at;
      const index group = 128;
      const LinearW4a16<Host> op{.x = at.view<2>(DType::f16, {c.m, c.k}),
                                 .codes = at.view<3>(DType::u8, {w4_panels(c.n), w4_steps(c.k, 4), 64}),
                                 .scales = at.view<3>(DType::f16, {w4_panels(c.n), w4_groups(c.k, group), w4_panel}),
                                 .y = at.view<2>(DType::f16, {c.m, c.n}),
                                 .group = group};
      const std::string what =
          std::string("linear_w4a16, ") + (mode == NpuActivations::f16 ? "f16, " : "exact, ") + shape(c);
      expect_share(what, c.device, op, mode == NpuActivations::f16 ? c.floor : 0, mode);
    }
}

}  // namespace
}  // namespace inlay::test
