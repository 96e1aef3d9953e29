// Attention, rotary embedding and cache of ONNX through Inlay's operators.
#include <cmath>

#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/softmax.hpp>

#include "tools/onnx/node.hpp"

namespace inlay::tools {

namespace {

// [batch, heads, len, dim], or [batch, len, heads * dim] with the number of heads as an attribute.
struct Heads {
  OnnxTensor* tensor;
  index batch = 0, heads = 0, len = 0, dim = 0;
  bool fused = false;

  // [batch, len, heads, dim], as FlashAttention takes it.
  View<4> view() const {
    if (fused) return tensor->view<4>({batch, len, heads, dim});
    return tensor->view<4>({batch, len, heads, dim}, {heads * len * dim, dim, len * dim, 1});
  }
  // [len, dim] of one head.
  View<2> matrix(index b, index h) const {
    const View<4> all = view();
    View<2> part = tensor->view<2>({len, dim}, {all.strides[1], 1});
    part.data = static_cast<unsigned char*>(part.data) + byte_size(part.dtype, b * all.strides[0] + h * all.strides[2]);
    return part;
  }
};

Heads heads_of(OnnxTensor& x, index count) {
  if (x.rank() == 4) return {&x, x.dims[0], x.dims[1], x.dims[2], x.dims[3], false};
  return {&x, x.dims[0], count, x.dims[1], x.dims[2] / count, true};
}

// past [batch, heads, past_len, dim] followed by `now`, as [batch, heads, len, dim].
OnnxTensor concatenated(OnnxTensor* past, const Heads& now) {
  const index before = past ? past->dims[2] : 0;
  OnnxTensor all(now.tensor->dtype, {now.batch, now.heads, before + now.len, now.dim});
  for (index b = 0; b < now.batch; ++b)
    for (index h = 0; h < now.heads; ++h)
      for (index t = 0; t < before + now.len; ++t)
        for (index d = 0; d < now.dim; ++d) {
          const index to = ((b * now.heads + h) * (before + now.len) + t) * now.dim + d;
          all.set(to, t < before ? past->get(((b * now.heads + h) * before + t) * now.dim + d)
                                 : at(now.view(), b, t - before, h, d));
        }
  return all;
}

// A mask of 2 to 4 dimensions as [batch|1, heads|1, queries|1, keys].
View<4> mask_view(OnnxTensor& mask) {
  std::array<index, 4> extents{1, 1, 1, 1};
  for (index d = 0; d < mask.rank(); ++d) extents[4 - mask.rank() + d] = mask.dims[d];
  return mask.view<4>(extents);
}

// The mask, with keys beyond it that nobody sees.
OnnxTensor for_all_keys(const OnnxTensor& mask, index keys) {
  if (mask.dims.back() == keys) return mask;
  std::vector<index> dims = mask.dims;
  dims.back() = keys;
  OnnxTensor all(mask.dtype, dims);
  const index given = mask.dims.back();
  for (index i = 0; i < all.size(); ++i)
    all.set(i, i % keys < given ? mask.get(i / keys * given + i % keys) : mask.dtype == DType::boolean ? 0 : -HUGE_VAL);
  return all;
}

// What ONNX gives beside Y: the scores after the product (0), the softcap (1), the mask (2) or the
// softmax (3). The product and the softmax are operators; scaling, capping and adding in between are
// not operators of their own, but steps inside attention.
Expected<OnnxTensor> scores(exec::Eager& run, const OnnxNode& node, const Heads& q, const Heads& k, double scale,
                            OnnxTensor* mask, bool causal, index past) {
  const index mode = node.integer("qk_matmul_output_mode", 0);
  const double cap = node.number("softcap", 0), infinity = HUGE_VAL;
  OnnxTensor all(DType::f32, {q.batch, q.heads, q.len, k.len});
  for (index b = 0; b < q.batch; ++b)
    for (index h = 0; h < q.heads; ++h) {
      View<2> part = all.view<2>({q.len, k.len});
      part.data = part.as<float>() + (b * q.heads + h) * q.len * k.len;
      run(Linear<Host>{.x = q.matrix(b, h), .weight_rows = k.matrix(b, h / (q.heads / k.heads)), .y = part});
      for (index i = 0; i < q.len; ++i)
        for (index j = 0; j < k.len; ++j) {
          double s = at(part, i, j) * scale;
          if (mode >= 1 && cap > 0) s = cap * std::tanh(s / cap);
          if (mode >= 2 && mask != nullptr) {
            const View<4> m = mask_view(*mask);
            const auto pick = [&](int d, index at) { return m.extents[d] == 1 ? 0 : at; };
            const double value = at(m, pick(0, b), pick(1, h), pick(2, i), j);
            s = m.dtype == DType::boolean ? (value != 0 ? s : -infinity) : s + value;
          }
          if (mode >= 2 && causal && j > i + past) s = -infinity;
          put(part, i, j, s);
        }
    }
  if (mode == 3)
    run(Softmax<Host>{.x = all.view<3>({1, q.batch * q.heads * q.len, k.len}),
                      .y = all.view<3>({1, q.batch * q.heads * q.len, k.len})});
  if (Status status = run.take_status(); !status.ok()) return failure(std::move(status));
  return converted(all, q.tensor->dtype);
}

}  // namespace

Expected<OnnxOutputs> run_attention(exec::Eager& run, OnnxNode& node) {
  const Heads q = heads_of(*node.inputs[0], node.integer("q_num_heads", 0));
  const Heads k = heads_of(*node.inputs[1], node.integer("kv_num_heads", 0));
  const Heads v = heads_of(*node.inputs[2], node.integer("kv_num_heads", 0));
  OnnxTensor* past_k = node.has(4) ? &*node.inputs[4] : nullptr;
  OnnxTensor* past_v = node.has(5) ? &*node.inputs[5] : nullptr;
  const index past = past_k ? past_k->dims[2] : 0;
  OnnxTensor keys = concatenated(past_k, k), values = concatenated(past_v, v);
  const Heads all_k = heads_of(keys, 0), all_v = heads_of(values, 0);

  std::vector<index> dims = q.tensor->dims;
  dims.back() = q.fused ? q.heads * v.dim : v.dim;
  OnnxTensor y(q.tensor->dtype, dims);
  const Heads out{&y, q.batch, q.heads, q.len, v.dim, q.fused};
  const double scale = node.number("scale", 1 / std::sqrt(static_cast<double>(q.dim)));
  const bool causal = node.integer("is_causal", 0) != 0;
  const std::vector<std::int64_t> start(static_cast<std::size_t>(q.batch), past);  // ONNX aligns queries top-left
  // A scale of 0 is one; the operator's says that there is none. All scores are 0 then, as they are of queries of
  // zeros.
  OnnxTensor none = scale == 0 ? OnnxTensor(q.tensor->dtype, q.tensor->dims) : OnnxTensor();
  Heads queries = q;
  if (scale == 0) queries.tensor = &none;
  FlashAttention<Host> op{.q = queries.view(), .k = all_k.view(), .v = all_v.view(), .out = out.view()};
  op.q_start = {start.data(), {q.batch}};
  op.scale = scale == 0 ? 1 : static_cast<float>(scale);
  op.softcap = static_cast<float>(node.number("softcap", 0));
  op.bias_order = BiasOrder::scale_softcap_bias;
  op.causal = causal;
  OnnxTensor mask, given_mask;
  if (node.has(3)) {
    given_mask = mask = for_all_keys(*node.inputs[3], all_k.len);
    if (mask.dtype == DType::boolean) {
      for (index i = 0; i < mask.size(); ++i) mask.set(i, mask.get(i) == 0);  // ONNX: true takes part
      op.mask = mask_view(mask);
    } else {
      op.bias = mask_view(mask);
    }
  }
  run(op);
  OnnxOutputs outputs{y, keys, values};
  if (node.outputs.size() > 3 && node.outputs[3]) {
    auto s = scores(run, node, q, all_k, scale, node.has(3) ? &given_mask : nullptr, causal, past);
    if (!s) return failure(std::move(s.error()));
    outputs.push_back(std::move(*s));
  }
  return finish(run, std::move(outputs));
}

Expected<OnnxOutputs> run_rotary_embedding(exec::Eager& run, OnnxNode& node) {
  const Heads x = heads_of(*node.inputs[0], node.integer("num_heads", 0));
  OnnxTensor y(x.tensor->dtype, x.tensor->dims);
  if (y.size() == 0) return finish(run, {y});
  const Heads out{&y, x.batch, x.heads, x.len, x.dim, x.fused};
  OnnxTensor &cos = *node.inputs[1], &sin = *node.inputs[2];
  const index pairs = cos.dims.back();
  for (index b = 0; b < x.batch; ++b) {
    const auto part = [&](const Heads& heads) {
      const View<4> all = heads.view().slice(0, b, 1);
      return View<3>(all.data, all.dtype, {x.len, x.heads, x.dim}, {all.strides[1], all.strides[2], 1});
    };
    Rope<Host> op{.x = part(x), .cos = {}, .sin = {}, .y = part(out)};
    op.interleaved = node.integer("interleaved", 0) != 0;
    if (node.has(3)) {  // rows of the caches by position; else the caches have a row for each token
      op.cos = cos.rows(1);
      op.sin = sin.rows(1);
      const View<2> ids = node.inputs[3]->rows(1).slice(0, b, 1);
      op.positions = {ids.data, ids.dtype, {x.len}};
    } else {
      op.cos = cos.view<2>({x.batch * x.len, pairs}).slice(0, b * x.len, x.len);
      op.sin = sin.view<2>({x.batch * x.len, pairs}).slice(0, b * x.len, x.len);
    }
    run(op);
  }
  return finish(run, {y});
}

// The cache [batch, heads, slots, dim] is a paged one with a block for each sequence.
Expected<OnnxOutputs> run_tensor_scatter(exec::Eager& run, OnnxNode& node) {
  OnnxTensor cache = *node.inputs[0];
  OnnxTensor& update = *node.inputs[1];
  const index batch = cache.dims[0], heads = cache.dims[1], slots = cache.dims[2], dim = cache.dims[3];
  const index tokens = update.dims[2];
  if (update.size() == 0) return finish(run, {cache});
  for (index b = 0; b < batch; ++b) {
    const index first = node.has(2) ? static_cast<index>(node.inputs[2]->get(b)) : 0;
    std::vector<std::int64_t> mapping;
    for (index t = 0; t < tokens; ++t) mapping.push_back(b * slots + first + t);
    View<3> key = update.view<3>({tokens, heads, dim}, {dim, tokens * dim, 1});
    key.data = static_cast<unsigned char*>(key.data) + byte_size(update.dtype, b * heads * tokens * dim);
    run(ReshapeAndCache<Host>{.k = key,
                              .k_cache = head_major_cache(cache.view<4>({batch, heads, slots, dim})),
                              .slot_mapping = {mapping.data(), {tokens}}});
  }
  return finish(run, {cache});
}

}  // namespace inlay::tools
