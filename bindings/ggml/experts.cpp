// What the experts of a mixture compute: ggml's MUL_MAT_ID, a token's products with the experts that `ids` chooses for
// it, and ADD_ID, their biases. Rows are brought together by expert, as the linears of mixtures want them
// (core/experts.hpp), and taken apart again. Weights [k, n, experts] are those of mul_mat.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include <inlay/core/entries.hpp>
#include <inlay/ops/linear.hpp>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/packed_weights.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

bool supports_weight(const ggml_tensor* weight) {
  if (weight->ne[3] != 1 || !ggml_is_contiguous(weight)) return false;
  if (is_float(weight->type)) return true;
  ggml_backend_buffer_t buffer = buffer_of(weight);
  // Experts begin with panels. Weights that lie elsewhere would be packed in each call.
  return is_quantized(static_cast<GgmlType>(weight->type)) && weight->ne[1] % w4_panel == 0 &&
         (buffer == nullptr || buffer->buft == buffer_type());
}

ConstView<1> choices_of(const ggml_tensor* ids, index token) { return view_of<ConstView<1>>(ids, {0}, {0, token}); }

Status check_ids(const ggml_tensor* ids, index experts) {
  for (index token = 0; token < ids->ne[1]; ++token)
    if (Status status = check_entries("ids", choices_of(ids, token), experts); !status.ok()) return status;
  return {};
}

// body(row, token, choice) for each choice of each token.
template <class Body> void each_choice(const Context& context, const ggml_tensor* ids, index size, Body&& body) {
  const index used = ids->ne[0], rows = used * ids->ne[1];
  const Work work{.bytes = 2.0 * sizeof(float) * static_cast<double>(rows * size)};
  context.cpu.parallel().ranges(rows, 1, work, [&](index begin, index end) {
    for (index row = begin; row < end; ++row) body(row, row / used, row % used);
  });
}

// Where each choice lies among rows sorted by expert, in context.slots, and where each expert's rows end.
void sort_by_expert(Context& context, const ggml_tensor* ids, index experts) {
  const index used = ids->ne[0], tokens = ids->ne[1];
  context.expert_ends.assign(static_cast<std::size_t>(experts), 0);
  context.slots.clear();
  const auto each_end = [&](auto&& body) {
    for (index token = 0; token < tokens; ++token)
      for (index i = 0; i < used; ++i)
        body(context.expert_ends[static_cast<std::size_t>(entry(choices_of(ids, token), i))]);
  };
  each_end([](std::int32_t& rows) { ++rows; });
  std::int32_t begin = 0;  // each end becomes its expert's first row, and is counted up to the end again
  for (std::int32_t& end : context.expert_ends) begin += std::exchange(end, begin);
  each_end([&](std::int32_t& next) { context.slots.push_back(next++); });
}

// Of one weight, or of several that are joined.
Status linear(Context& context, std::span<const ggml_tensor* const> weights, ConstView<2> x, View<2> y) {
  const ggml_tensor* const weight = weights[0];
  const ConstView<1> ends(context.expert_ends.data(), {weight->ne[2]});
  if (is_float(weight->type)) {
    const ConstView<2> rows(weight->data, dtype_of_type(weight->type), {ggml_nrows(weight), weight->ne[0]});
    return context.run(Linear<Host>{.x = x, .weight_rows = rows, .expert_ends = ends, .y = y});
  }
  const auto product = [&](const PackedW4& packed) {
    LinearW4a16<Host> op = packed.op(x, y, {}, W4Compute::int8_activations);
    op.expert_ends = ends;
    return context.run(op);
  };
  if (PackedWeights* const kept = packed_weights(weight)) {
    const auto slice = kept->all(weights, context.cpu.parallel());
    return slice ? product(*slice->whole) : Status(slice.error().code(), slice.error().message());
  }
  const auto own = pack(weights, context.cpu.parallel());
  return own ? product(*own) : Status(own.error().code(), own.error().message());
}

template <class T> T* row_of(const ggml_tensor* tensor, index i1, index i2) {
  return reinterpret_cast<T*>(address_of(tensor, i1, i2, 0));
}

}  // namespace

bool supports_mul_mat_id(const ggml_tensor* op) {
  const ggml_tensor *weight = op->src[0], *x = op->src[1], *ids = op->src[2];
  return supports_weight(weight) && is_f32_rows(x) && x->ne[3] == 1 && ids->type == GGML_TYPE_I32 && is_f32_rows(op);
}

Status mul_mat_id(Context& context, const ggml_tensor* op) { return mul_mat_ids(context, {&op, 1}); }

Status mul_mat_ids(Context& context, std::span<const ggml_tensor* const> ops) {
  const ggml_tensor *x = ops[0]->src[1], *ids = ops[0]->src[2];
  const index k = x->ne[0], rows = ids->ne[0] * ids->ne[1], experts = ops[0]->src[0]->ne[2];
  std::array<const ggml_tensor*, most_joined> weights{};
  index channels = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    weights[i] = ops[i]->src[0];
    channels += weights[i]->ne[1];
  }
  if (Status status = check_ids(ids, experts); !status.ok()) return status;
  sort_by_expert(context, ids, experts);
  context.floats.resize(static_cast<std::size_t>(rows * (k + channels)));
  float* const gathered = context.floats.data();
  float* const products = gathered + rows * k;
  const auto slot_of = [&](index row) { return context.slots[static_cast<std::size_t>(row)]; };
  each_choice(context, ids, k, [&](index row, index token, index choice) {
    // All choices of a token have one row, or each has its own.
    std::copy_n(row_of<const float>(x, choice % x->ne[1], token), k, gathered + slot_of(row) * k);
  });
  const View<2> y(products, {rows, channels});
  if (Status status = linear(context, {weights.data(), ops.size()}, ConstView<2>(gathered, {rows, k}), y); !status.ok())
    return status;
  each_choice(context, ids, channels, [&](index row, index token, index choice) {
    const float* from = products + slot_of(row) * channels;
    for (const ggml_tensor* op : ops) {
      std::copy_n(from, op->ne[0], row_of<float>(op, choice, token));
      from += op->ne[0];
    }
  });
  return {};
}

bool supports_add_id(const ggml_tensor* op) {
  const ggml_tensor *x = op->src[0], *bias = op->src[1], *ids = op->src[2];
  return is_f32_rows(x) && x->ne[3] == 1 && is_f32_rows(bias) && ids->type == GGML_TYPE_I32 && is_f32_rows(op);
}

Status add_id(Context& context, const ggml_tensor* op) {
  const ggml_tensor *x = op->src[0], *bias = op->src[1], *ids = op->src[2];
  if (Status status = check_ids(ids, bias->ne[1]); !status.ok()) return status;
  each_choice(context, ids, op->ne[0], [&](index, index token, index choice) {
    const float* const from = row_of<const float>(x, choice, token);
    const float* const added = row_of<const float>(bias, entry(choices_of(ids, token), choice), 0);
    float* const to = row_of<float>(op, choice, token);
    for (index i = 0; i < op->ne[0]; ++i) to[i] = from[i] + added[i];
  });
  return {};
}

}  // namespace inlay::ggml_binding
