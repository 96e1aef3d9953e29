// What all attention operators share: from a dot product to a score, and which keys a query sees.
//
//   s = scale * (q . k)  ->  + bias  ->  softcap * tanh(s / softcap)  ->  mask  ->  softmax
//
// Positions count the keys of one sequence from 0. A query at `position` sees key j if
//
//   position - window_left <= j <= position + window_right           (negative windows: no limit)
//
// and causal means window_right = 0. Query i of q_len stands at i + kv_len - q_len unless the operator
// is told otherwise: the last query sees the last key (bottom-right alignment), and where kv_len < q_len
// the first queries see nothing. A key under a mask has a score of true minus infinity, and its K
// and V never reach the output. A row that sees no key: output 0, lse -inf
// or, where sinks are given, the sink.
//
// What is not finite and seen shows: a NaN in q, in a visible K, its bias or scale makes its row NaN, as a score of
// +inf does; a NaN in a visible V makes that dim of the row NaN, and an infinity infinite or NaN, even where the
// key's weight is too small for its type.
//
// Sinks: one logit per head enters the denominator and nothing else. lse counts it too, so that of
// several parts to be merged exactly one is given the sinks.
#pragma once

#include <cmath>
#include <optional>

#include <inlay/core/inline.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

// bias is ALiBi's and bias's sum.
enum class BiasOrder : unsigned char {
  scale_bias_softcap,  // softcap(scale * dot + bias)      the default; Ascend's pse_type 0 (multiply, then add)
  scale_softcap_bias,  // softcap(scale * dot) + bias      ONNX
  bias_scale_softcap,  // softcap(scale * (dot + bias))    Ascend's pse_type 1 (add, then multiply)
};

// What products of flash_attention may be made of. bf16_products lets a backend round q, k, v and the weights of a row
// to bf16 before they are multiplied: relative error 2^-8 each at most; their sums stay f32, and so does the
// denominator. The CPU does where it has the dot product and K and V are floats; who has none, and the reference, round
// nothing.
enum class AttentionCompute : unsigned char { exact_float, bf16_products };

inline namespace INLAY_UNIT_ISA {

// Ascend's pse_type, for engines that carry it. 2 and 3 take slopes in place of a bias: none is the answer to them.
constexpr std::optional<BiasOrder> bias_order_of_pse_type(int pse_type) {
  if (pse_type == 0) return BiasOrder::scale_bias_softcap;
  if (pse_type == 1) return BiasOrder::bias_scale_softcap;
  return std::nullopt;
}

}  // namespace INLAY_UNIT_ISA

struct ScoreRule {
  double scale = 1;
  double softcap = 0;  // 0: none
  BiasOrder bias_order = BiasOrder::scale_bias_softcap;
};

inline namespace INLAY_UNIT_ISA {

// The score as the references compute it. A bias of -inf is a mask and stays -inf behind any softcap.
inline double score(const ScoreRule& rule, double dot, double bias) {
  if (bias == -HUGE_VAL) return bias;
  const auto softcap = [&](double s) { return rule.softcap > 0 ? rule.softcap * std::tanh(s / rule.softcap) : s; };
  switch (rule.bias_order) {
    case BiasOrder::scale_softcap_bias: return softcap(rule.scale * dot) + bias;
    case BiasOrder::bias_scale_softcap: return softcap(rule.scale * (dot + bias));
    case BiasOrder::scale_bias_softcap: break;
  }
  return softcap(rule.scale * dot + bias);
}

// Operators hold these as scalars of their own; scale 0 stands for 1 / sqrt(head_dim).
template <class Op> ScoreRule score_rule(const Op& op, index head_dim) {
  return {.scale = op.scale != 0 ? op.scale : 1 / std::sqrt(static_cast<double>(head_dim < 1 ? 1 : head_dim)),
          .softcap = op.softcap,
          .bias_order = op.bias_order};
}

}  // namespace INLAY_UNIT_ISA

struct KeyRange {
  index begin = 0, end = 0;
  INLAY_INLINE constexpr bool empty() const { return begin >= end; }
};

// Fewer keys than this: offsets in tables and masks, and what is added to them, fit an index.
inline constexpr index longest_kv_len = index{1} << 57;

// How far from key 0 a query may be said to stand, on either side: f64 holds distances exactly up to here.
inline constexpr index farthest_position = index{1} << 53;

inline namespace INLAY_UNIT_ISA {

// The keys of 0..kv_len-1 that a query at `position` sees; empty() where it sees none. A window of any size: where it
// reaches past the keys nothing is added up.
constexpr KeyRange visible_keys(index position, index kv_len, index window_left, index window_right) {
  KeyRange keys{0, kv_len};
  if (window_left >= 0 && window_left < position) keys.begin = position - window_left;
  if (window_right >= 0 && window_right < kv_len - position - 1) keys.end = position + window_right + 1;
  return keys;
}

// The rows of a view of `rows` that hold `length` keys which end `padding` rows before its end: none where they do not
// fit. A negative padding is none, and no more than all rows are padding.
[[gnu::always_inline]] constexpr KeyRange left_padded_keys(index rows, index length, index padding) {
  padding = padding < 0 ? 0 : padding < rows ? padding : rows;
  const index begin = rows - padding - length;
  return begin < 0 ? KeyRange{} : KeyRange{begin, begin + length};
}

// Bit `i` of a packed mask, least significant bit of a byte first.
constexpr bool packed_bit(const unsigned char* bits, index i) { return (bits[i / 8] >> (i % 8) & 1) != 0; }

// ALiBi's slope of one head (Press et al., 2022): 2^(-8 (h+1) / n) for a power of two n; otherwise the
// slopes of the power of two below, then every second one of twice that power. The bias is
// slope * (key - position).
inline double alibi_slope(index head, index heads) {
  index power = 1;
  while (2 * power <= heads) power *= 2;
  return head < power ? std::exp2(-8.0 * static_cast<double>(head + 1) / static_cast<double>(power))
                      : std::exp2(-4.0 * static_cast<double>(2 * (head - power) + 1) / static_cast<double>(power));
}

// [tokens, heads, dim] as [1, tokens, heads, dim]: a ragged batch that q_indptr or kv_indptr divides.
template <class Space> [[gnu::always_inline]] constexpr ConstView<4, Space> ragged(const ConstView<3, Space>& tokens) {
  const auto& [n, heads, dim] = tokens.extents;
  const auto& [step, head_step, one] = tokens.strides;
  return {tokens.data, tokens.dtype, {1, n, heads, dim}, {0, step, head_step, one}};
}
template <class Space> [[gnu::always_inline]] constexpr View<4, Space> ragged(const View<3, Space>& tokens) {
  const auto& [n, heads, dim] = tokens.extents;
  const auto& [step, head_step, one] = tokens.strides;
  return {tokens.data, tokens.dtype, {1, n, heads, dim}, {0, step, head_step, one}};
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
