// Bytes: a row of the table is read a token, a row of y written (its lines are read first): the table
// of Llama-3-8B has 128256 rows, far beyond any cache; rows are drawn at random. The limit is memory.
#include <inlay/ops/embedding.hpp>

#include "bench/support/measure.hpp"
#include "bench/support/operands.hpp"

namespace inlay::bench {
namespace {

constexpr index vocab = 32768, dim = 4096, tokens = 512;

void embedding(benchmark::State& state, DType type, GgmlType format) {
  const Cpu cpu = bench::cpu();
  const index columns = type == DType::u8 ? ggml_row_bytes(format, dim) : dim;
  std::vector<std::byte> table(static_cast<std::size_t>(byte_size(type, vocab * columns)));
  std::mt19937 rng(2);
  // Small codes everywhere; where block scales and floats lie, numbers near 2^-5 or zero.
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    table[i] = static_cast<std::byte>(rng() & 0x1f);
    table[i + 1] = std::byte{0x28};
  }
  Operand<1> ids(DType::i32, {tokens}, false), row_scale(DType::f32, {vocab}, false);
  for (index t = 0; t < tokens; ++t) ids.view(0).as<std::int32_t>()[t] = static_cast<std::int32_t>(rng() % vocab);
  Operand<2> y(DType::bf16, {tokens, dim});
  const auto op = [&](index i) {
    Embedding<Host> op{.table = ConstView<2>(table.data(), type, {vocab, columns}),
                       .ids = ids.view(0),
                       .y = y.view(i),
                       .format = format};
    if (type == DType::i8) op.row_scale = row_scale.view(0);
    return op;
  };
  const double error = error_against_reference(cpu, op(0), y.view(0), 4);
  const double bytes = static_cast<double>(tokens * (byte_size(type, columns) + 2 * byte_size(DType::bf16, dim)));
  measure(state, cpu, {.bytes = bytes}, error, [&](index i) {
    for (index t = 0; t < tokens; ++t) {
      std::int32_t& id = ids.view(0).as<std::int32_t>()[t];
      id = (id + 7919) % vocab;  // other rows each time
    }
    benchmark::DoNotOptimize(run(cpu, op(i)).ok());
  });
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
