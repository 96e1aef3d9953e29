// ggml's FLASH_ATTN_EXT: queries [dim, n_q, heads, batch] over views of the KV cache [dim, n_kv, kv_heads, batch], with
// a mask that is added behind the softcap. Attention reads elements of one type at one stride, so that a quantized
// cache, whose scales lie between its codes, is widened to f16 first, and a mask that ALiBi scales by head is written
// out: for as many heads at once as stay in a core's cache.
#include <algorithm>
#include <cstring>
#include <numeric>

#include <inlay/ops/embedding.hpp>
#include <inlay/ops/flash_attention.hpp>

#include "bindings/ggml/mask.hpp"
#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

struct Parameters {
  float scale, max_bias, softcap;
};
Parameters parameters(const ggml_tensor* op) {
  Parameters read;
  std::memcpy(&read, op->op_params, sizeof read);
  return read;
}

bool is_cache(const ggml_tensor* cache) { return is_float_rows(cache) || is_packed_rows(cache); }

constexpr index bytes_at_once = 1 << 20;

// Some heads of K or V, widened.
struct Heads {
  index first, count;

  // Into `room`, [keys, heads, dim].
  Status widen(Context& context, const ggml_tensor* cache, index batch, f16* room) const {
    const index keys = cache->ne[1], dim = cache->ne[0];
    const auto bytes = static_cast<index>(ggml_row_size(cache->type, dim));
    // Heads that follow each other are rows of their own length together.
    const index together = static_cast<index>(cache->nb[2]) == bytes ? count : 1;
    for (index head = 0; head < count; head += together) {
      const ConstView<2> table(address_of(cache, 0, first + head, batch), DType::u8, {keys, together * bytes},
                               {static_cast<index>(cache->nb[1]), 1});
      const View<2> wide(room + head * dim, DType::f16, {keys, together * dim}, {count * dim, 1});
      Status status = context.run(Embedding<Host>{.table = table,
                                                  .ids = {context.rows.data(), {keys}},
                                                  .y = wide,
                                                  .format = static_cast<GgmlType>(cache->type)});
      if (!status.ok()) return status;
    }
    return {};
  }
};

// Those heads of one sequence: where they lie, or, where they are blocks, in `room`.
Status open_cache(Context& context, const ggml_tensor* cache, index batch, Heads heads, f16* room, ConstView<4>& view) {
  if (!is_packed(cache->type)) {
    view = view_of<ConstView<4>>(cache, {3, 1, 2, 0}).slice(0, batch, 1).slice(2, heads.first, heads.count);
    return {};
  }
  view = {room, DType::f16, {1, cache->ne[1], heads.count, cache->ne[0]}};
  return heads.widen(context, cache, batch, room);
}

// Along a dimension that may be shared.
template <class V> V part(const V& view, int dimension, index first, index count) {
  return view.present() && view.extents[static_cast<std::size_t>(dimension)] != 1 ? view.slice(dimension, first, count)
                                                                                  : view;
}

Status attend_by_heads(Context& context, const ggml_tensor* op, const FlashAttention<Host>& all) {
  const ggml_tensor *k = op->src[1], *v = op->src[2], *mask = op->src[3];
  const float max_bias = parameters(op).max_bias;
  const index queries = op->src[0]->ne[1], q_heads = op->src[0]->ne[2];
  const index keys = k->ne[1], kv_heads = k->ne[2], group = q_heads / kv_heads;
  const index k_size = is_packed(k->type) ? keys * k->ne[0] : 0, v_size = is_packed(v->type) ? keys * v->ne[0] : 0;
  const index widened = (k_size + v_size) * static_cast<index>(sizeof(f16));
  const index scaled = max_bias > 0 ? group * queries * keys * static_cast<index>(sizeof(float)) : 0;
  const index at_once = std::clamp<index>(bytes_at_once / std::max<index>(widened + scaled, 1), 1, kv_heads);
  context.wide.resize(static_cast<std::size_t>(at_once * (k_size + v_size)));
  if (const auto needed = static_cast<std::size_t>(keys); context.rows.size() < needed) {
    context.rows.resize(needed);
    std::iota(context.rows.begin(), context.rows.end(), 0);
  }
  for (index batch = 0; batch < k->ne[3]; ++batch)
    for (index head = 0; head < kv_heads; head += at_once) {
      const Heads heads{head, std::min(at_once, kv_heads - head)};
      const index first = head * group, count = heads.count * group;
      FlashAttention<Host> some = all;
      if (Status status = open_cache(context, k, batch, heads, context.wide.data(), some.k); !status.ok())
        return status;
      f16* const behind = context.wide.data() + heads.count * k_size;
      if (Status status = open_cache(context, v, batch, heads, behind, some.v); !status.ok()) return status;
      some.q = all.q.slice(0, batch, 1).slice(2, first, count);
      some.out = all.out.slice(0, batch, 1).slice(2, first, count);
      some.bias = part(part(all.bias, 0, batch, 1), 1, first, count);
      if (max_bias > 0) {
        const MaskedHeads masked{first, count, q_heads};
        const auto scaled_mask = mask_of_heads(context, mask, max_bias, masked, batch % mask->ne[3], queries);
        some.bias = {scaled_mask.data, scaled_mask.dtype, {1, count, queries, keys}};
      }
      if (all.sinks.present()) some.sinks = all.sinks.slice(0, first, count);
      if (Status status = context.run(some); !status.ok()) return status;
    }
  return {};
}

}  // namespace

bool supports_flash_attention(const ggml_tensor* op) {
  const ggml_tensor *q = op->src[0], *k = op->src[1], *v = op->src[2], *mask = op->src[3], *sinks = op->src[4];
  const Parameters read = parameters(op);
  if (read.scale == 0) return false;  // names another one here
  if (read.max_bias != 0 && (read.max_bias < 0 || mask == nullptr)) return false;
  if (!is_f32_rows(q) || !is_cache(k) || !is_cache(v)) return false;
  if (k->ne[3] != q->ne[3] || v->ne[3] != q->ne[3] || v->ne[2] != k->ne[2] || q->ne[2] % k->ne[2] != 0) return false;
  if (mask != nullptr &&
      (!is_float_rows(mask) || mask->ne[1] < q->ne[1] || (mask->ne[2] != 1 && mask->ne[2] != q->ne[2]) ||
       (mask->ne[3] != 1 && mask->ne[3] != q->ne[3])))
    return false;
  return sinks == nullptr || sinks->type == GGML_TYPE_F32;
}

Status flash_attention(Context& context, const ggml_tensor* op) {
  const Parameters read = parameters(op);
  FlashAttention<Host> attention{.q = view_of<ConstView<4>>(op->src[0], {3, 1, 2, 0}),
                                 .k = {},
                                 .v = {},
                                 .out = view_of<View<4>>(op, {3, 2, 1, 0})};
  if (op->src[3] != nullptr)
    attention.bias = view_of<ConstView<4>>(op->src[3], {3, 2, 1, 0}).slice(2, 0, op->src[0]->ne[1]);
  if (op->src[4] != nullptr) attention.sinks = {static_cast<const float*>(op->src[4]->data), {op->src[4]->ne[0]}};
  attention.scale = read.scale;
  attention.softcap = read.softcap;
  attention.bias_order = BiasOrder::scale_softcap_bias;
  if (is_packed(op->src[1]->type) || is_packed(op->src[2]->type) || read.max_bias > 0)
    return attend_by_heads(context, op, attention);
  attention.k = view_of<ConstView<4>>(op->src[1], {3, 1, 2, 0});
  attention.v = view_of<ConstView<4>>(op->src[2], {3, 1, 2, 0});
  return context.run(attention);
}

}  // namespace inlay::ggml_binding
