// Bytes: x is read, y is written, which reads its lines first. The limit is memory.
#include <inlay/ops/dequantize.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void dequantize(benchmark::State& state, DType code, DType type, bool per_channel, index rows, index cols) {
  Operand<2> x(code, {rows, cols}), y(type, {rows, cols});
  Operand<2> scale(DType::f32, {per_channel ? 1 : rows, per_channel ? cols : 1}, false);
  const auto op = [&](index i) { return Dequantize<Host>{.x = x.view(i), .scale = scale.view(0), .y = y.view(i)}; };
  const double written = static_cast<double>(byte_size(type, rows * cols));
  const double bytes = static_cast<double>(byte_size(code, rows * cols)) + 2 * written;
  const auto row = [=](Dequantize<Host> op, index r) {
    keep_row(r, op.x, op.y);
    if (!per_channel) keep_row(r, op.scale);
    return op;
  };
  measure(state, {.bytes = bytes, .written = written}, op, {.rows = rows, .row = row, .ulps = 1});
}

}  // namespace

void add_all() {
  for (DType code : {DType::i8, DType::u4})
    for (DType type : {DType::f32, DType::f16})
      for (bool per_channel : {false, true})
        add("dequantize/" + std::string(name(code)) + "/" + std::string(name(type)) +
                (per_channel ? "/channel/" : "/token/") + "512x4096",
            [=](benchmark::State& state) { dequantize(state, code, type, per_channel, 512, 4096); });
}

}  // namespace inlay::bench
