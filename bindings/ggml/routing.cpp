// How a mixture's experts are chosen and weighted: ggml's TOP_K, or its ARGSORT, of which the first columns are taken,
// and SUM_ROWS.
#include <ggml-impl.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

// body(x, y) for the rows of both; so much work an element.
template <class T, class Body> void each_row(const Context& context, const ggml_tensor* op, Work each, Body&& body) {
  const ggml_tensor* const x = op->src[0];
  const Work work = static_cast<double>(ggml_nelements(x)) * each;
  const index n1 = x->ne[1], n2 = x->ne[2];
  context.cpu.parallel().ranges(ggml_nrows(x), 1, work, [&](index begin, index end) {
    for (index row = begin; row < end; ++row) {
      const std::array<index, 4> at{0, row % n1, row / n1 % n2, row / n1 / n2};
      body(view_of<ConstView<1>>(x, {0}, at).template as<float>(), view_of<View<1>>(op, {0}, at).template as<T>());
    }
  });
}

// Whether `a` comes before `b`: of equal values the first, and what is no number last in either order.
struct Order {
  const float* x;
  bool falls;

  bool operator()(std::int32_t a, std::int32_t b) const {
    const float left = x[a], right = x[b];
    if (left == right) return a < b;
    if (std::isnan(left) || std::isnan(right)) return std::isnan(left) == std::isnan(right) ? a < b : std::isnan(right);
    return falls ? left > right : left < right;
  }
};

}  // namespace

bool supports_argsort(const ggml_tensor* op) {
  return is_f32_rows(op->src[0]) && op->type == GGML_TYPE_I32 && has_dense_rows(op);
}

Status argsort(Context& context, const ggml_tensor* op) {
  const index size = op->ne[0];
  const bool falls = ggml_get_op_params_i32(op, 0) == GGML_SORT_ORDER_DESC;
  each_row<std::int32_t>(context, op, Work{.operations = 1000}, [=](const float* x, std::int32_t* order) {
    std::iota(order, order + size, 0);
    std::sort(order, order + size, Order{x, falls});
  });
  return {};
}

bool supports_top_k(const ggml_tensor* op) { return supports_argsort(op) && op->ne[0] <= op->src[0]->ne[0]; }

// The largest first. ggml asks for no order among them.
Status top_k(Context& context, const ggml_tensor* op) {
  const index size = op->src[0]->ne[0], k = op->ne[0];
  each_row<std::int32_t>(context, op, Work{.operations = 100}, [=](const float* x, std::int32_t* chosen) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(size));
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), Order{x, true});
    std::copy_n(order.begin(), k, chosen);
  });
  return {};
}

bool supports_sum_rows(const ggml_tensor* op) { return is_f32_rows(op->src[0]) && op->type == GGML_TYPE_F32; }

Status sum_rows(Context& context, const ggml_tensor* op) {
  const index size = op->src[0]->ne[0];
  each_row<float>(context, op, Work{.operations = 16},
                  [=](const float* x, float* sum) { *sum = static_cast<float>(std::accumulate(x, x + size, 0.0)); });
  return {};
}

}  // namespace inlay::ggml_binding
