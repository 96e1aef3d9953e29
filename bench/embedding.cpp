// Bytes: a row of the table is read a token, a row of y written (its lines are read first): the table
// of Llama-3-8B has 128256 rows, far beyond any cache; rows are drawn at random. The limit is memory.
#include <inlay/ops/embedding.hpp>

#include "bench/support/measure.hpp"

namespace inlay::bench {
namespace {

constexpr index dim = 4096, tokens = 512;

void embedding(benchmark::State& state, DType type, GgmlType format) {
  const index vocab = cut(32768, 2048), columns = type == DType::u8 ? ggml_row_bytes(format, dim) : dim;
  std::vector<std::byte> table(static_cast<std::size_t>(byte_size(type, vocab * columns)));
  std::mt19937 rng(2);
  // Small codes everywhere; where block scales and floats lie, numbers near 2^-5 or zero.
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    table[i] = static_cast<std::byte>(rng() & 0x1f);
    table[i + 1] = std::byte{0x28};
  }
  // Other rows in each call.
  constexpr index lists = 64;
  std::vector<std::int32_t> ids(lists * tokens);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(rng() % vocab);
  Operand<1> row_scale(DType::f32, {vocab}, false);
  Operand<2> y(DType::bf16, {tokens, dim});
  const auto op = [&](index i) {
    Embedding<Host> op{.table = ConstView<2>(table.data(), type, {vocab, columns}),
                       .ids = ConstView<1>(ids.data() + i % lists * tokens, {tokens}),
                       .y = y.view(i),
                       .format = format};
    if (type == DType::i8) op.row_scale = row_scale.view(0);
    return op;
  };
  const double written = static_cast<double>(tokens * byte_size(DType::bf16, dim));
  const double bytes = static_cast<double>(tokens * byte_size(type, columns)) + 2 * written;
  const auto row = [](Embedding<Host> op, index r) {
    keep_row(r, op.ids, op.y);
    return op;
  };
  measure(state, {.bytes = bytes, .written = written}, op, {.rows = tokens, .row = row, .ulps = 4});
}

}  // namespace

void add_all() {
  for (DType type : {DType::f32, DType::bf16, DType::i8})
    add("embedding/" + std::string(name(type)) + "/512x4096",
        [=](benchmark::State& state) { embedding(state, type, GgmlType::F32); });
  for (GgmlType format : {GgmlType::Q8_0, GgmlType::Q4_0, GgmlType::Q4_K, GgmlType::Q6_K})
    add("embedding/" + std::string(ggml_format(format).name) + "/512x4096",
        [=](benchmark::State& state) { embedding(state, DType::u8, format); });
}

}  // namespace inlay::bench
