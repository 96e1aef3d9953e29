// The limit is memory.
#include "shapes/quantize.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void quantize(benchmark::State& state, const QuantizeShape& shape) {
  const auto row = [](Quantize<Host> op, index r) {
    keep_row(r, op.x, op.y);
    if (op.row_scale.present()) keep_row(r, op.row_scale);
    if (op.row_zero.present()) keep_row(r, op.row_zero);
    return op;
  };
  measure(state, shape, {.rows = shape.rows, .row = row});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::f16})
    for (bool dynamic : {false, true})
      for (DType code : {DType::i8, DType::u8})
        add("quantize/" + std::string(name(type)) + "/" + std::string(name(code)) +
                (dynamic ? "/dynamic/" : "/static/") + "512x4096",
            [=](benchmark::State& state) {
              quantize(state, {512, 4096, type, code, dynamic});
            });
}

}  // namespace inlay::bench
