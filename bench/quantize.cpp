// Bytes: x is read once from memory (the dynamic form's second look finds it in the cache), y is
// written, which reads its lines first. The limit is memory.
#include <inlay/ops/quantize.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void quantize(benchmark::State& state, DType type, DType code, bool dynamic, index rows, index cols) {
  Operand<2> x(type, {rows, cols}), y(code, {rows, cols}), scale(DType::f32, {1, 1}, false);
  Operand<1> row_scale(DType::f32, {rows}, false), row_zero(code, {rows}, false);
  *scale.view(0).as<float>() = 1.0f / 127;
  const auto op = [&](index i) {
    Quantize<Host> op{.x = x.view(i), .y = y.view(i)};
    if (dynamic) op.row_scale = row_scale.view(0);
    if (dynamic && code == DType::u8) op.row_zero = row_zero.view(0);
    if (!dynamic) op.scale = scale.view(0);
    return op;
  };
  const double written = static_cast<double>(byte_size(code, rows * cols));
  const double bytes = static_cast<double>(byte_size(type, rows * cols)) + 2 * written;
  const auto row = [=](Quantize<Host> op, index r) {
    keep_row(r, op.x, op.y);
    if (op.row_scale.present()) keep_row(r, op.row_scale);
    if (op.row_zero.present()) keep_row(r, op.row_zero);
    return op;
  };
  measure(state, {.bytes = bytes, .written = written}, op, {.rows = rows, .row = row});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16})
    for (bool dynamic : {false, true})
      for (DType code : {DType::i8, DType::u8})
        add("quantize/" + std::string(name(type)) + "/" + std::string(name(code)) +
                (dynamic ? "/dynamic/" : "/static/") + "512x4096",
            [=](benchmark::State& state) { quantize(state, type, code, dynamic, 512, 4096); });
}

}  // namespace inlay::bench
