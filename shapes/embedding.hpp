// Rows of a table, of floats, codes or blocks, at some size.
#pragma once

#include <inlay/ops/embedding.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct EmbeddingShape {
  index tokens = 256, vocab = 128256, dim = 4096;
  DType table = DType::f16, type = DType::f32;
  GgmlType format = GgmlType::F32;  // of a table of u8

  void read(auto& from) {
    from.size("tokens", tokens), from.size("vocab", vocab), from.size("dim", dim);
    from.type("table", table), from.type("type", type);
  }
  index columns() const { return table == DType::u8 ? ggml_row_bytes(format, dim) : dim; }
  Embedding<Host> make(Tensors& tensors) const {
    // Small bytes, as some of them are scales in f16.
    const auto rows = table == DType::u8 ? tensors.kept(table, {vocab, columns()}, {{0, 0x3f}})
                                         : tensors.kept(table, {vocab, columns()});
    return {.table = rows,
            .row_scale = table == DType::i8 ? tensors.kept(DType::f32, {vocab}, {{0.5, 1.5}}) : ConstView<1>(),
            .ids = tensors.list(DType::i32, {tokens}, [&](index t) { return t * 7919 % vocab; }),
            .y = tensors.out(type, {tokens, dim}),
            .format = format};
  }
  // Rows of a table that no cache holds.
  CallCost cost() const {
    const double y = bytes_of(type, tokens * dim);
    return {.bytes = bytes_of(table, tokens * columns()) + 2 * y, .written = y};
  }
};

}  // namespace inlay
