// Runs the main loops of linear_w4a16's int8_activations once, for scripts/arm_counts.py to count their instructions:
//
//   arm_loops_<level> ROWS SLOTS OFFSETS     4-bit codes of four panels in groups of 32, scales of f16, and offsets if
//   1
#include <cstdlib>
#include <vector>

#include "cpu_kernels/linear/w4a16_int8.hpp"

namespace inlay::cpu {
namespace {

using Level = isa::INLAY_LEVEL;

template <bool Offsets> void run(index rows, index slots) {
  constexpr simd::Codes Kind = simd::Codes::four;
  constexpr int bits = simd::bits_of<Kind>;
  constexpr index panels = w4_int8_job_panels, group = 32;
  const index words = w4_steps(slots, bits), groups = slots / group;
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(panels * words * w4_step_bytes(bits)));
  std::vector<f16> of_groups(static_cast<std::size_t>(panels * groups * w4_panel));
  std::vector<float> y(static_cast<std::size_t>(rows * panels * w4_panel));
  LinearW4a16<Host> op;
  op.x = ConstView<2>(y.data(), {rows, slots});  // its extents are read alone
  op.codes = View<3>(codes.data(), {panels, words, 64});
  op.scales = View<3>(of_groups.data(), {panels, groups, w4_panel});
  if (Offsets) op.offsets = op.scales;
  op.y = View<2>(y.data(), {rows, panels * w4_panel});
  op.group = group;
  op.bits = bits;
  const W4Weight w(op);
  std::vector<std::int8_t> bytes(static_cast<std::size_t>(rows * words * simd::CodeSums<Level, Kind>::word_bytes));
  std::vector<float> step(static_cast<std::size_t>(rows * groups)), sum = step;
  std::vector<float> scales(static_cast<std::size_t>(groups * W4Scales::width)), offsets = scales;
  std::vector<std::int32_t> start(step.size()), segment_words(static_cast<std::size_t>(groups));
  W4Bytes x{.rows = rows, .row_bytes = words * simd::CodeSums<Level, Kind>::word_bytes, .segments = groups};
  x.segment_words = segment_words.data();
  x.bytes = bytes.data();
  x.step = step.data();
  x.sum = sum.data();
  x.start = start.data();
  x.measure_segments(w, simd::codes_of_word<Kind>);
  if (rows > 1)
    return w4_int8_job<Level, Kind, Offsets, 0>(
        op, w, x, {.first = 0, .begin = 0, .end = w4_int8_tiles<Level, Kind>.count(rows), .more = false},
        {.scale = scales.data(), .offset = Offsets ? offsets.data() : nullptr}, nullptr);
  constexpr int wide = w4_int8_row_panels(simd::Floats<Level>::size, bits);
  for (index first = 0; first < panels; first += wide)
    w4_int8_row<Level, Kind, wide, Offsets, false>(w, x, first, y.data() + first * w4_panel);
}

}  // namespace
}  // namespace inlay::cpu

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const inlay::index rows = std::atoi(arguments[1]), slots = std::atoi(arguments[2]);
  std::atoi(arguments[3]) ? inlay::cpu::run<true>(rows, slots) : inlay::cpu::run<false>(rows, slots);
}
