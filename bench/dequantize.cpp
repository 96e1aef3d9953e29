// The limit is memory.
#include "shapes/dequantize.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void dequantize(benchmark::State& state, const DequantizeShape& shape) {
  const auto row = [=](Dequantize<Host> op, index r) {
    keep_row(r, op.x, op.y);
    if (shape.scale_rows > 1) keep_row(r, op.scale);
    return op;
  };
  measure(state, shape, {.rows = shape.rows, .row = row, .ulps = 1});
}

}  // namespace

void add_all() {
  for (DType code : {DType::i8, DType::u4})
    for (DType type : {DType::f32, DType::f16})
      for (bool per_channel : {false, true})
        add("dequantize/" + std::string(name(code)) + "/" + std::string(name(type)) +
                (per_channel ? "/channel/" : "/token/") + "512x4096",
            [=](benchmark::State& state) {
              DequantizeShape shape{.rows = 512, .dim = 4096, .from = code, .type = type};
              if (per_channel) shape.scale_rows = 1, shape.scale_columns = shape.dim;
              dequantize(state, shape);
            });
}

}  // namespace inlay::bench
