// Rows of a table by token id.
//
//   y[t,:] = scale * table[ids[t],:]
//
//   table f32 f16 bf16   [vocab, dim]         elements
//   table i8             [vocab, dim]         times row_scale[ids[t]]
//   table u8             [vocab, row bytes]   rows of GGUF blocks (core/ggml_blocks.hpp), `format` says
//                                             which; dim is y's, a multiple of the block
//
// Computed in f32 and rounded once. Gemma's scale is sqrt(dim). An id outside the table is refused
// before anything is written.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/entries.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/quantization.hpp>

namespace inlay {

template <class Space = Host> struct Embedding {
  ConstView<2, Space> table;           // [vocab, dim]   f32 f16 bf16 i8 u8, see above; row stride free
  ConstView<1, Space> row_scale = {};  // [vocab]        f32; with an i8 table only
  ConstView<1, Space> ids;             // [tokens]       i32 i64
  View<2, Space> y;                    // [tokens, dim]  f32 f16 bf16
  GgmlType format = GgmlType::F32;     // of a u8 table
  float scale = 1;

  static constexpr std::string_view name = "embedding";
  static constexpr auto fields =
      FieldList{in("table", &Embedding::table),       optional_in("row_scale", &Embedding::row_scale),
                in("ids", &Embedding::ids),           out("y", &Embedding::y),
                scalar("format", &Embedding::format), scalar("scale", &Embedding::scale)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Embedding<Space>& op) {
  const index vocab = op.table.extents[0], dim = op.y.extents[1];
  const bool blocks = op.table.dtype == DType::u8;
  Status status =
      Check(op)
          .dtype(op.table, DTypes{DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8})
          .that(!blocks || is_quantized(op.format), op.format, "must be a block format where the table is u8")
          .that(!blocks || ggml_row_bytes(op.format, dim) != 0 || dim == 0, op.y,
                [&] {
                  return "has rows of " + number(dim) + "; they must be a multiple of the block, " +
                         number(ggml_format(op.format).block);
                })
          .extent(op.table, 1, blocks ? ggml_row_bytes(op.format, dim) : dim)
          .that(op.row_scale.present() == (op.table.dtype == DType::i8), op.row_scale,
                "must be given with an i8 table, and only then")
          .dtype(op.row_scale, DType::f32)
          .extent(op.row_scale, 0, vocab)
          .dtype(op.ids, ids)
          .extent(op.ids, 0, op.y.extents[0])
          .dtype(op.y, floats)
          .finite(op.scale);
  return status.ok() ? check_entries("ids", op.ids, vocab) : std::move(status);
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
