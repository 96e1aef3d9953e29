// ggml's GET_ROWS and SET_ROWS: the embedding's rows, and those of a KV cache. A row outside is an error, and nothing
// of its matrix is written.
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/kv_cache.hpp>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

// The matrix at (i2, i3): rows of blocks are rows of bytes.
ConstView<2> table_at(const ggml_tensor* table, index i2, index i3) {
  if (!is_packed(table->type)) return view_of<ConstView<2>>(table, {1, 0}, {0, 0, i2, i3});
  const auto row = static_cast<index>(ggml_row_size(table->type, table->ne[0]));
  return {address_of(table, 0, i2, i3), DType::u8, {table->ne[1], row}, {static_cast<index>(table->nb[1]), 1}};
}

}  // namespace

bool supports_get_rows(const ggml_tensor* op) {
  const ggml_tensor *table = op->src[0], *ids = op->src[1];
  return (is_float(table->type) || is_packed(table->type)) && has_dense_rows(table) && is_f32_rows(op) &&
         ids->type == GGML_TYPE_I32;
}

Status get_rows(Context& context, const ggml_tensor* op) {
  const ggml_tensor *table = op->src[0], *ids = op->src[1];
  for (index i2 = 0; i2 < ids->ne[2]; ++i2)
    for (index i1 = 0; i1 < ids->ne[1]; ++i1) {
      Embedding<Host> embedding{.table = table_at(table, i1, i2),
                                .ids = view_of<ConstView<1>>(ids, {0}, {0, i1, i2, 0}),
                                .y = view_of<View<2>>(op, {1, 0}, {0, 0, i1, i2})};
      if (is_packed(table->type)) embedding.format = static_cast<GgmlType>(table->type);
      if (Status status = context.run(embedding); !status.ok()) return status;
    }
  return {};
}

bool supports_set_rows(const ggml_tensor* op) {
  const ggml_tensor *rows = op->src[0], *ids = op->src[1];
  if (ids->type != GGML_TYPE_I32 && ids->type != GGML_TYPE_I64) return false;
  if (is_packed_rows(op)) return is_f32_rows(rows) && ggml_get_type_traits(op->type)->from_float_ref != nullptr;
  return is_float_rows(rows) && is_float_rows(op);
}

namespace {

// Blocks of a quantized cache, in which ggml itself rounds: one scale lies within each block, where ReshapeAndCache
// keeps one for a head beside them.
void quantize_rows(const Context& context, const ggml_tensor* op, index i2, index i3) {
  const ggml_tensor* const rows = op->src[0];
  const auto quantize = ggml_get_type_traits(op->type)->from_float_ref;
  const Work work{.operations = 32.0 * static_cast<double>(rows->ne[0] * rows->ne[1])};
  context.cpu.parallel().ranges(rows->ne[1], 1, work, [&](index begin, index end) {
    for (index i = begin; i < end; ++i)
      quantize(view_of<ConstView<1>>(rows, {0}, {0, i, i2, i3}).as<float>(),
               address_of(op, context.slots[static_cast<std::size_t>(i)], i2, i3), op->ne[0]);
  });
}

}  // namespace

// A cache whose blocks are single rows.
Status set_rows(Context& context, const ggml_tensor* op) {
  const ggml_tensor *rows = op->src[0], *ids = op->src[1];
  context.slots.resize(static_cast<std::size_t>(rows->ne[1]));
  for (index i3 = 0; i3 < rows->ne[3]; ++i3)
    for (index i2 = 0; i2 < rows->ne[2]; ++i2) {
      const auto list = view_of<ConstView<1>>(ids, {0}, {0, i2 % ids->ne[1], i3 % ids->ne[2], 0});
      // ReshapeAndCache skips what is negative, which is no row of ggml's either.
      if (Status status = check_entries("rows", list, op->ne[1]); !status.ok()) return status;
      for (std::size_t i = 0; i < context.slots.size(); ++i) context.slots[i] = entry(list, static_cast<index>(i));
      if (is_packed(op->type)) {
        quantize_rows(context, op, i2, i3);
        continue;
      }
      const View<2> cache = view_of<View<2>>(op, {1, 0}, {0, 0, i2, i3});
      const index dim = op->ne[0];
      Status status = context.run(ReshapeAndCache<Host>{
          .k = view_of<ConstView<3>>(rows, {1, 3, 0}, {0, 0, i2, i3}).slice(1, 0, 1),
          .k_cache = {cache.data, cache.dtype, {cache.extents[0], 1, 1, 1, dim}, {cache.strides[0], dim, dim, dim, 1}},
          .slot_mapping = {context.slots.data(), {rows->ne[1]}}});
      if (!status.ok()) return status;
    }
  return {};
}

}  // namespace inlay::ggml_binding
