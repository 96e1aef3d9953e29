// The limit is memory: Llama-3-8B has 128256 rows, far beyond any cache; rows are drawn at random.
#include "shapes/embedding.hpp"
#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

void embedding(benchmark::State& state, DType type, GgmlType format) {
  const EmbeddingShape shape{512, cut(32768, 2048), 4096, type, DType::bf16, format};
  // Other rows in each call.
  constexpr index lists = 64;
  std::mt19937 rng(2);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(lists * shape.tokens));
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(rng() % shape.vocab);
  Operands operands;
  const auto op = [&](index i) {
    Embedding<Host> op = shape.make(operands.of_call(i));
    op.ids = ConstView<1>(ids.data() + i % lists * shape.tokens, {shape.tokens});
    return op;
  };
  const auto row = [](Embedding<Host> op, index r) {
    keep_row(r, op.ids, op.y);
    return op;
  };
  measure(state, work_at(shape), op, {.rows = shape.tokens, .row = row, .ulps = 4});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::bf16, DType::i8})
    add("embedding/" + std::string(name(type)) + "/512x4096",
        [=](benchmark::State& state) { embedding(state, type, GgmlType::F32); });
  for (GgmlType format : {GgmlType::Q8_0, GgmlType::Q4_0, GgmlType::Q5_0, GgmlType::Q4_K, GgmlType::Q5_K,
                          GgmlType::Q6_K, GgmlType::Q2_K, GgmlType::Q3_K, GgmlType::IQ4_XS, GgmlType::MXFP4})
    add("embedding/" + std::string(ggml_format(format).name) + "/512x4096",
        [=](benchmark::State& state) { embedding(state, DType::u8, format); });
}

}  // namespace inlay::bench
