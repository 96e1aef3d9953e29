// ggml's GLU, whose two halves are tensors of their own or those of one row, and the UNARY functions that gates have.
#include <ggml-impl.h>

#include <inlay/ops/gelu.hpp>
#include <inlay/ops/swiglu.hpp>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

struct Halves {
  ConstView<2> gate, up;
};

Halves halves(const ggml_tensor* op, Rows rows) {
  ConstView<2> whole = rows.of<ConstView<2>>(op->src[0]);
  if (op->src[1] != nullptr) return {whole, rows.of<ConstView<2>>(op->src[1])};
  const index dim = op->ne[0];
  const ConstView<2> first = whole.slice(1, 0, dim), second = whole.slice(1, dim, dim);
  return ggml_get_op_params_i32(op, 1) != 0 ? Halves{second, first} : Halves{first, second};
}

// ggml's approximation by tanh is the one without a suffix.
GeluForm form_of(ggml_glu_op op) {
  return op == GGML_GLU_OP_GEGLU ? GeluForm::tanh : op == GGML_GLU_OP_GEGLU_ERF ? GeluForm::erf : GeluForm::quick;
}

}  // namespace

bool supports_glu(const ggml_tensor* op) {
  const ggml_tensor *gate = op->src[0], *up = op->src[1];
  switch (ggml_get_glu_op(op)) {
    case GGML_GLU_OP_SWIGLU:
    case GGML_GLU_OP_SWIGLU_OAI:
    case GGML_GLU_OP_SWIGLU_CLAMP:
    case GGML_GLU_OP_GEGLU:
    case GGML_GLU_OP_GEGLU_ERF:
    case GGML_GLU_OP_GEGLU_QUICK: break;
    default: return false;
  }
  return is_float_rows(gate) && op->type == gate->type && has_dense_rows(op) &&
         (up == nullptr || (up->type == gate->type && has_dense_rows(up)));
}

Status glu(Context& context, const ggml_tensor* op) {
  const ggml_glu_op kind = ggml_get_glu_op(op);
  const ggml_tensor* const up_tensor = op->src[1] != nullptr ? op->src[1] : op->src[0];
  return each_rows({op, op->src[0], up_tensor}, [&](Rows rows) {
    const auto [gate, up] = halves(op, rows);
    const View<2> y = rows.of<View<2>>(op);
    if (kind == GGML_GLU_OP_SWIGLU) return context.run(Swiglu<Host>{.gate = gate, .up = up, .y = y});
    if (kind == GGML_GLU_OP_SWIGLU_CLAMP)
      return context.run(Swiglu<Host>{.gate = gate, .up = up, .y = y, .limit = ggml_get_op_params_f32(op, 3)});
    if (kind == GGML_GLU_OP_SWIGLU_OAI)
      return context.run(Swiglu<Host>{.gate = gate,
                                      .up = up,
                                      .y = y,
                                      .alpha = ggml_get_op_params_f32(op, 2),
                                      .limit = ggml_get_op_params_f32(op, 3),
                                      .up_offset = 1});
    return context.run(Gelu<Host>{.x = gate, .up = up, .y = y, .form = form_of(kind)});
  });
}

bool supports_unary(const ggml_tensor* op) {
  switch (ggml_get_unary_op(op)) {
    case GGML_UNARY_OP_TANH:
    case GGML_UNARY_OP_GELU:
    case GGML_UNARY_OP_GELU_ERF:
    case GGML_UNARY_OP_GELU_QUICK: return supports_map(op);
    default: return supports_function(op);
  }
}

Status unary(Context& context, const ggml_tensor* op) {
  const ggml_unary_op kind = ggml_get_unary_op(op);
  if (supports_function(op)) return function(context, op);
  const bool tanh = kind == GGML_UNARY_OP_TANH;  // a softcap of 1
  const GeluForm form = tanh                             ? GeluForm::softcap
                        : kind == GGML_UNARY_OP_GELU     ? GeluForm::tanh
                        : kind == GGML_UNARY_OP_GELU_ERF ? GeluForm::erf
                                                         : GeluForm::quick;
  return each_rows({op, op->src[0]}, [&](Rows rows) {
    return context.run(Gelu<Host>{
        .x = rows.of<ConstView<2>>(op->src[0]), .y = rows.of<View<2>>(op), .form = form, .cap = tanh ? 1.0f : 0.0f});
  });
}

}  // namespace inlay::ggml_binding
