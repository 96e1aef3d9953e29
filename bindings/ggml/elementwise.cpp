// ggml's ADD, SUB, MUL, DIV, whose second operand repeats over the first, and functions of one value: SCALE, CLAMP,
// SQR, SQRT and those of UNARY that no operator has; REPEAT and CONCAT. Rows of any type of float, at any stride;
// memory is the limit.
#include <ggml-impl.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

constexpr index elements_a_task = 8192;

template <class Body> void each_row(const Context& context, const ggml_tensor* of, double bytes, Body&& body) {
  const index rows = ggml_nrows(of), n1 = of->ne[1], n2 = of->ne[2];
  const Work work = static_cast<double>(ggml_nelements(of)) * Work{.bytes = bytes, .operations = 1};
  context.cpu.parallel().ranges(rows, elements_a_task / (of->ne[0] + 1) + 1, work, [&](index begin, index end) {
    for (index row = begin; row < end; ++row) body(row % n1, row / n1 % n2, row / n1 / n2);
  });
}

template <class T> T* row_at(const ggml_tensor* tensor, index i1, index i2, index i3) {
  const std::size_t offset = static_cast<std::size_t>(i1) * tensor->nb[1] +
                             static_cast<std::size_t>(i2) * tensor->nb[2] +
                             static_cast<std::size_t>(i3) * tensor->nb[3];
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + offset);
}

// The compiler makes vectors of the first two loops.
template <class A, class B, class F>
void combine_row(const A* a, index a_step, const B* b, index b_step, index b_size, A* y, index size, F&& f) {
  const auto one = [&](A left, B right) {
    return static_cast<A>(f(static_cast<float>(left), static_cast<float>(right)));
  };
  if (b_size == 1 && a_step == 1) {
    const B value = *b;
    for (index i = 0; i < size; ++i) y[i] = one(a[i], value);
  } else if (b_size == size && a_step == 1 && b_step == 1) {
    for (index i = 0; i < size; ++i) y[i] = one(a[i], b[i]);
  } else {
    for (index i = 0; i < size; ++i) y[i] = one(a[i * a_step], b[i % b_size * b_step]);
  }
}

template <class F> void combine(const Context& context, const ggml_tensor* op, F&& f) {
  const ggml_tensor *a = op->src[0], *b = op->src[1];
  with_float_type(a->type, [&]<class A>(std::type_identity<A>) {
    with_float_type(b->type, [&]<class B>(std::type_identity<B>) {
      each_row(context, op, 2 * sizeof(A) + sizeof(B), [&](index i1, index i2, index i3) {
        combine_row(row_at<const A>(a, i1, i2, i3), stride_of(a, 0),
                    row_at<const B>(b, i1 % b->ne[1], i2 % b->ne[2], i3 % b->ne[3]), stride_of(b, 0), b->ne[0],
                    row_at<A>(op, i1, i2, i3), op->ne[0], f);
      });
    });
  });
}

template <class F> void map(const Context& context, const ggml_tensor* op, F&& f) {
  with_float_type(op->type, [&]<class T>(std::type_identity<T>) {
    each_row(context, op, 2 * sizeof(T), [&](index i1, index i2, index i3) {
      const T* x = row_at<const T>(op->src[0], i1, i2, i3);
      T* y = row_at<T>(op, i1, i2, i3);
      for (index i = 0; i < op->ne[0]; ++i) y[i] = static_cast<T>(f(static_cast<float>(x[i])));
    });
  });
}

}  // namespace

bool supports_binary(const ggml_tensor* op) {
  const ggml_tensor *a = op->src[0], *b = op->src[1];
  return is_float(a->type) && is_float(b->type) && op->type == a->type && has_dense_rows(op);
}

Status binary(Context& context, const ggml_tensor* op) {
  switch (op->op) {
    case GGML_OP_ADD: combine(context, op, [](float a, float b) { return a + b; }); break;
    case GGML_OP_SUB: combine(context, op, [](float a, float b) { return a - b; }); break;
    case GGML_OP_MUL: combine(context, op, [](float a, float b) { return a * b; }); break;
    default: combine(context, op, [](float a, float b) { return a / b; });
  }
  return {};
}

bool supports_repeat(const ggml_tensor* op) { return is_f32_rows(op->src[0]) && is_f32_rows(op); }

Status repeat(Context& context, const ggml_tensor* op) {
  const ggml_tensor* const x = op->src[0];
  each_row(context, op, 2 * sizeof(float), [=](index i1, index i2, index i3) {
    const float* from = row_at<const float>(x, i1 % x->ne[1], i2 % x->ne[2], i3 % x->ne[3]);
    float* to = row_at<float>(op, i1, i2, i3);
    for (index i = 0; i < op->ne[0]; i += x->ne[0]) std::copy_n(from, x->ne[0], to + i);
  });
  return {};
}

bool supports_concat(const ggml_tensor* op) {
  const ggml_tensor *a = op->src[0], *b = op->src[1];
  return a->type == op->type && b->type == op->type && ggml_blck_size(op->type) == 1 && has_dense_rows(a) &&
         has_dense_rows(b) && has_dense_rows(op);
}

// b behind a, along one dimension.
Status concat(Context& context, const ggml_tensor* op) {
  const ggml_tensor *const a = op->src[0], *const b = op->src[1];
  const auto dim = static_cast<std::size_t>(ggml_get_op_params_i32(op, 0));
  const std::size_t size = ggml_type_size(op->type);
  each_row(context, op, 2 * static_cast<double>(size), [=](index i1, index i2, index i3) {
    std::array<index, 4> at{0, i1, i2, i3};
    const auto append = [&](const ggml_tensor* from, char* to) {
      return std::copy_n(row_at<const char>(from, at[1], at[2], at[3]), static_cast<std::size_t>(from->ne[0]) * size,
                         to);
    };
    char* const to = row_at<char>(op, i1, i2, i3);
    if (dim == 0) {
      append(b, append(a, to));
    } else if (at[dim] < a->ne[dim]) {
      append(a, to);
    } else {
      at[dim] -= a->ne[dim];
      append(b, to);
    }
  });
  return {};
}

bool supports_map(const ggml_tensor* op) {
  return is_float_rows(op->src[0]) && op->type == op->src[0]->type && has_dense_rows(op);
}

Status scale(Context& context, const ggml_tensor* op) {
  const float factor = ggml_get_op_params_f32(op, 0), bias = ggml_get_op_params_f32(op, 1);
  map(context, op, [=](float x) { return x * factor + bias; });
  return {};
}

Status clamp(Context& context, const ggml_tensor* op) {
  const float least = ggml_get_op_params_f32(op, 0), most = ggml_get_op_params_f32(op, 1);
  map(context, op, [=](float x) { return x < least ? least : x > most ? most : x; });
  return {};
}

Status square(Context& context, const ggml_tensor* op) {
  map(context, op, [](float x) { return x * x; });
  return {};
}

Status square_root(Context& context, const ggml_tensor* op) {
  map(context, op, [](float x) { return std::sqrt(x); });
  return {};
}

bool supports_function(const ggml_tensor* op) {
  switch (ggml_get_unary_op(op)) {
    case GGML_UNARY_OP_ABS:
    case GGML_UNARY_OP_NEG:
    case GGML_UNARY_OP_EXP:
    case GGML_UNARY_OP_RELU:
    case GGML_UNARY_OP_SILU:
    case GGML_UNARY_OP_SIGMOID:
    case GGML_UNARY_OP_SOFTPLUS: return supports_map(op);
    default: return false;
  }
}

Status function(Context& context, const ggml_tensor* op) {
  switch (ggml_get_unary_op(op)) {
    case GGML_UNARY_OP_ABS: map(context, op, [](float x) { return std::abs(x); }); break;
    case GGML_UNARY_OP_NEG: map(context, op, [](float x) { return -x; }); break;
    case GGML_UNARY_OP_EXP: map(context, op, [](float x) { return std::exp(x); }); break;
    case GGML_UNARY_OP_RELU: map(context, op, [](float x) { return x > 0 ? x : 0; }); break;
    case GGML_UNARY_OP_SILU: map(context, op, [](float x) { return x / (1 + std::exp(-x)); }); break;
    case GGML_UNARY_OP_SIGMOID: map(context, op, [](float x) { return 1 / (1 + std::exp(-x)); }); break;
    // Beyond 20 the sum is x itself in f32, long before e^x is infinite.
    default: map(context, op, [](float x) { return x > 20 ? x : std::log1p(std::exp(x)); });
  }
  return {};
}

}  // namespace inlay::ggml_binding
