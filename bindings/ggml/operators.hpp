// One pair for each operator of ggml: whether its shapes and types are covered, and the work itself.
#pragma once

#include <span>

#include "bindings/ggml/backend.hpp"

namespace inlay::ggml_binding {

bool supports_mul_mat(const ggml_tensor* op);
Status mul_mat(Context& context, const ggml_tensor* op);
bool is_hadamard(const ggml_tensor* op);  // a MUL_MAT that needs no matrix
bool supports_hadamard(const ggml_tensor* op);
Status hadamard(Context& context, const ggml_tensor* op);
bool supports_mul_mat_id(const ggml_tensor* op);
Status mul_mat_id(Context& context, const ggml_tensor* op);
// Several of one x and one choice of experts, of which the first extents of x and ids tell for all.
Status mul_mat_ids(Context& context, std::span<const ggml_tensor* const> ops);
bool supports_flash_attention(const ggml_tensor* op);
Status flash_attention(Context& context, const ggml_tensor* op);
bool supports_norm(const ggml_tensor* op);  // RMS_NORM NORM
Status rms_norm(Context& context, const ggml_tensor* op);
Status layer_norm(Context& context, const ggml_tensor* op);
bool supports_rope(const ggml_tensor* op);
Status rope(Context& context, const ggml_tensor* op);
bool supports_soft_max(const ggml_tensor* op);
Status soft_max(Context& context, const ggml_tensor* op);
bool supports_glu(const ggml_tensor* op);
Status glu(Context& context, const ggml_tensor* op);
bool supports_unary(const ggml_tensor* op);
Status unary(Context& context, const ggml_tensor* op);
bool supports_binary(const ggml_tensor* op);  // ADD SUB MUL DIV
Status binary(Context& context, const ggml_tensor* op);
bool supports_add_id(const ggml_tensor* op);
Status add_id(Context& context, const ggml_tensor* op);
bool supports_repeat(const ggml_tensor* op);
Status repeat(Context& context, const ggml_tensor* op);
bool supports_map(const ggml_tensor* op);  // SCALE CLAMP SQR SQRT
Status scale(Context& context, const ggml_tensor* op);
Status clamp(Context& context, const ggml_tensor* op);
Status square(Context& context, const ggml_tensor* op);
Status square_root(Context& context, const ggml_tensor* op);
bool supports_function(const ggml_tensor* op);  // those of UNARY that are no operator's
Status function(Context& context, const ggml_tensor* op);
bool supports_argsort(const ggml_tensor* op);
Status argsort(Context& context, const ggml_tensor* op);
bool supports_top_k(const ggml_tensor* op);
Status top_k(Context& context, const ggml_tensor* op);
bool supports_sum_rows(const ggml_tensor* op);
Status sum_rows(Context& context, const ggml_tensor* op);
bool supports_get_rows(const ggml_tensor* op);
Status get_rows(Context& context, const ggml_tensor* op);
bool supports_set_rows(const ggml_tensor* op);
Status set_rows(Context& context, const ggml_tensor* op);
bool supports_copy(const ggml_tensor* op);  // CPY CONT DUP
Status copy(Context& context, const ggml_tensor* op);
bool supports_concat(const ggml_tensor* op);
Status concat(Context& context, const ggml_tensor* op);

}  // namespace inlay::ggml_binding
