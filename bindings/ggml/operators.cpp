// Which operator of ggml is whose.
#include "bindings/ggml/operators.hpp"

#include <string>

#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

struct Operator {
  bool (*supports)(const ggml_tensor*) = nullptr;  // null: none of this device's
  Status (*compute)(Context&, const ggml_tensor*) = nullptr;
};

constexpr Operator view{[](const ggml_tensor*) { return true; }, [](Context&, const ggml_tensor*) { return Status(); }};

Operator operator_of(ggml_op op) {
  if (is_view(op)) return view;
  switch (op) {
    case GGML_OP_MUL_MAT: return {supports_mul_mat, mul_mat};
    case GGML_OP_MUL_MAT_ID: return {supports_mul_mat_id, mul_mat_id};
    case GGML_OP_FLASH_ATTN_EXT: return {supports_flash_attention, flash_attention};
    case GGML_OP_RMS_NORM: return {supports_norm, rms_norm};
    case GGML_OP_NORM: return {supports_norm, layer_norm};
    case GGML_OP_ROPE: return {supports_rope, rope};
    case GGML_OP_SOFT_MAX: return {supports_soft_max, soft_max};
    case GGML_OP_GLU: return {supports_glu, glu};
    case GGML_OP_UNARY: return {supports_unary, unary};
    case GGML_OP_ADD:
    case GGML_OP_SUB:
    case GGML_OP_MUL:
    case GGML_OP_DIV: return {supports_binary, binary};
    case GGML_OP_ADD_ID: return {supports_add_id, add_id};
    case GGML_OP_REPEAT: return {supports_repeat, repeat};
    case GGML_OP_SCALE: return {supports_map, scale};
    case GGML_OP_CLAMP: return {supports_map, clamp};
    case GGML_OP_SQR: return {supports_map, square};
    case GGML_OP_SQRT: return {supports_map, square_root};
    case GGML_OP_ARGSORT: return {supports_argsort, argsort};
    case GGML_OP_TOP_K: return {supports_top_k, top_k};
    case GGML_OP_SUM_ROWS: return {supports_sum_rows, sum_rows};
    case GGML_OP_GET_ROWS: return {supports_get_rows, get_rows};
    case GGML_OP_SET_ROWS: return {supports_set_rows, set_rows};
    case GGML_OP_CPY:
    case GGML_OP_CONT:
    case GGML_OP_DUP: return {supports_copy, copy};
    case GGML_OP_CONCAT: return {supports_concat, concat};
    default: return {};
  }
}

}  // namespace

bool supports(const ggml_tensor* op) {
  const Operator found = operator_of(op->op);
  return found.supports != nullptr && found.supports(op);
}

Status compute(Context& context, const ggml_tensor* op) {
  const Operator found = operator_of(op->op);
  if (found.compute == nullptr) return unsupported(std::string(ggml_op_desc(op)) + " is no operator of this device");
  return found.compute(context, op);
}

}  // namespace inlay::ggml_binding
