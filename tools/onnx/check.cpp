#include "tools/onnx/check.hpp"

#include <cmath>

#include <inlay/ops/quantize.hpp>

namespace inlay::tools {

namespace {

Status wrong(const std::string& reason) { return {StatusCode::corrupt_data, reason}; }
Status no(const std::string& reason) { return {StatusCode::unsupported, reason}; }

std::string shape(const std::vector<index>& dims) {
  std::string text = "[";
  for (std::size_t d = 0; d < dims.size(); ++d) text += (d ? ", " : "") + std::to_string(dims[d]);
  return text + "]";
}

bool is_float(DType type) { return floats.contains(type); }
bool is_byte(DType type) { return type == DType::i8 || type == DType::u8; }

// Demands on one node, in the order in which they are stated; the first that is not met is kept.
class Demands {
 public:
  explicit Demands(const OnnxNode& node) : node_(node) {}

  const OnnxTensor& at(std::size_t input) const { return *node_.inputs[input]; }
  bool has(std::size_t input) const { return node_.has(input); }

  Demands& that(bool met, const std::string& reason) {
    if (status_.ok() && !met) status_ = wrong(reason);
    return *this;
  }
  Demands& covered(bool met, const std::string& reason) {
    if (status_.ok() && !met) status_ = no(reason);
    return *this;
  }
  Demands& rank(std::size_t input, const char* name, index lowest, index highest) {
    const index got = at(input).rank();
    return that(got >= lowest && got <= highest, std::string(name) + " has " + std::to_string(got) +
                                                     " dimensions; it must have " + std::to_string(lowest) +
                                                     (lowest == highest ? "" : " to " + std::to_string(highest)));
  }
  Demands& dims(std::size_t input, const char* name, const std::vector<index>& expected) {
    return that(at(input).dims == expected,
                std::string(name) + " has shape " + shape(at(input).dims) + "; it must be " + shape(expected));
  }
  Demands& same_type(std::size_t input, const char* name, std::size_t other, const char* other_name) {
    return that(at(input).dtype == at(other).dtype,
                std::string(name) + " is " + std::string(inlay::name(at(input).dtype)) + " and " + other_name + " is " +
                    std::string(inlay::name(at(other).dtype)) + "; they must be of one type");
  }
  // Broadcast to `expected` as NumPy does.
  Demands& broadcast(std::size_t input, const char* name, const std::vector<index>& expected) {
    const std::vector<index>& got = at(input).dims;
    bool fits = got.size() <= expected.size();
    for (std::size_t d = 0; fits && d < got.size(); ++d) {
      const index want = expected[expected.size() - got.size() + d];
      fits = got[d] == want || got[d] == 1;
    }
    return that(fits,
                std::string(name) + " has shape " + shape(got) + ", which does not broadcast to " + shape(expected));
  }
  // An axis of input 0, as ONNX counts it.
  Demands& axis(std::int64_t otherwise) {
    const index rank = at(0).rank(), given = node_.integer("axis", otherwise);
    return that(given >= -rank && given < rank,
                "axis is " + std::to_string(given) + " of " + std::to_string(rank) + " dimensions");
  }
  bool met() const { return status_.ok(); }
  Status status() { return std::move(status_); }

 private:
  const OnnxNode& node_;
  Status status_;
};

// [batch, heads, len, dim], from 4 dimensions or from 3 and a number of heads. Demanded before: rank 3 or 4.
std::vector<index> four(const OnnxTensor& x, index heads) {
  if (x.rank() == 4) return x.dims;
  return {x.dims[0], heads, x.dims[1], x.dims[2] / heads};
}

Demands& splits(Demands& demands, std::size_t input, const char* name, const char* attribute, index heads) {
  const OnnxTensor& x = demands.at(input);
  if (x.rank() != 3) return demands;
  return demands.that(heads > 0 && x.dims[2] % heads == 0, std::string(attribute) + " is " + std::to_string(heads) +
                                                               "; it must be positive and divide the " +
                                                               std::to_string(x.dims[2]) + " elements of a row of " +
                                                               name);
}

Status check_attention(const OnnxNode& node) {
  Demands demands(node);
  demands.rank(0, "Q", 3, 4).rank(1, "K", 3, 4).rank(2, "V", 3, 4);
  if (!demands.met()) return demands.status();
  const index q_heads = node.integer("q_num_heads", 0), kv_heads = node.integer("kv_num_heads", 0);
  const index rank = demands.at(0).rank();
  demands.that(demands.at(1).rank() == rank && demands.at(2).rank() == rank, "Q, K and V differ in their dimensions");
  splits(demands, 0, "Q", "q_num_heads", q_heads);
  splits(demands, 1, "K", "kv_num_heads", kv_heads);
  splits(demands, 2, "V", "kv_num_heads", kv_heads);
  for (std::size_t input : {0, 1, 2}) demands.that(is_float(demands.at(input).dtype), "Q, K and V must be floats");
  demands.same_type(1, "K", 0, "Q");
  if (!demands.met()) return demands.status();
  const auto q = four(demands.at(0), q_heads), k = four(demands.at(1), kv_heads), v = four(demands.at(2), kv_heads);
  demands.that(k[0] == q[0] && v[0] == q[0], "Q, K and V differ in their batch")
      .that(k[1] == v[1] && k[2] == v[2], "K " + shape(k) + " and V " + shape(v) + " differ in heads or length")
      .that(k[3] == q[3], "Q " + shape(q) + " and K " + shape(k) + " differ in the length of a head")
      .that(k[1] > 0 && q[1] > 0 && q[1] % k[1] == 0,
            std::to_string(q[1]) + " heads of Q for " + std::to_string(k[1]) + " of K; they must be a multiple");
  demands.that(demands.has(4) == demands.has(5), "past_key and past_value come together");
  index past = 0;
  if (demands.met() && demands.has(4)) {
    demands.rank(4, "past_key", 4, 4).rank(5, "past_value", 4, 4);
    if (!demands.met()) return demands.status();
    past = demands.at(4).dims[2];
    demands.dims(4, "past_key", {k[0], k[1], past, k[3]}).dims(5, "past_value", {v[0], v[1], past, v[3]});
    demands.same_type(4, "past_key", 1, "K").same_type(5, "past_value", 2, "V");
  }
  if (demands.met() && demands.has(3)) {
    const DType type = demands.at(3).dtype;
    demands.that(type == DType::boolean || is_float(type), "attn_mask must be of floats or of booleans")
        .covered(demands.at(3).rank() >= 2 && demands.at(3).rank() <= 4,
                 "attn_mask has " + std::to_string(demands.at(3).rank()) + " dimensions");
    if (!demands.met()) return demands.status();
    // From 24 on it may be shorter than the keys, and nobody sees those beyond it.
    const index keys = past + k[2], last = demands.at(3).dims.back();
    const bool shorter = node.opset >= 24 && last < keys;
    demands.broadcast(3, "attn_mask", {q[0], q[1], q[2], shorter ? last : keys});
    if (demands.met()) demands.covered(shorter || last == keys, "attn_mask is one for all keys");
  }
  const std::int64_t mode = node.integer("qk_matmul_output_mode", 0);
  demands.that(mode >= 0 && mode <= 3, "qk_matmul_output_mode is " + std::to_string(mode) + "; it must be 0 to 3");
  return demands.covered(!demands.has(6), "no nonpad_kv_seqlen").status();
}

Status check_rotary_embedding(const OnnxNode& node) {
  Demands demands(node);
  demands.rank(0, "X", 3, 4);
  if (!demands.met()) return demands.status();
  const index heads = node.integer("num_heads", 0);
  splits(demands, 0, "X", "num_heads", heads);
  if (!demands.met()) return demands.status();
  const auto x = four(demands.at(0), heads);
  const index given = node.integer("rotary_embedding_dim", 0), turned = given == 0 ? x[3] : given;
  demands.that(is_float(demands.at(0).dtype), "X must be of floats")
      .that(turned >= 0 && turned <= x[3] && turned % 2 == 0,
            "rotary_embedding_dim is " + std::to_string(turned) + "; it must be even, up to " + std::to_string(x[3]))
      .same_type(1, "cos_cache", 0, "X")
      .same_type(2, "sin_cache", 0, "X");
  if (demands.has(3)) {
    demands.rank(1, "cos_cache", 2, 2).dims(3, "position_ids", {x[0], x[2]});
    if (!demands.met()) return demands.status();
    demands.dims(1, "cos_cache", {demands.at(1).dims[0], turned / 2}).dims(2, "sin_cache", demands.at(1).dims);
  } else {
    demands.dims(1, "cos_cache", {x[0], x[2], turned / 2}).dims(2, "sin_cache", {x[0], x[2], turned / 2});
  }
  return demands.status();
}

Status check_tensor_scatter(const OnnxNode& node) {
  Demands demands(node);
  if (node.text("mode", "linear") != "linear") return no("no circular cache");
  const OnnxTensor &cache = demands.at(0), &update = demands.at(1);
  demands.covered(cache.rank() == 4 && update.rank() == 4 && node.axis("axis", -2, 4) == 2,
                  "kv_cache has [batch, heads, slots, dim]: 4 dimensions, written along the third");
  if (!demands.met()) return demands.status();
  const index batch = cache.dims[0], slots = cache.dims[2], tokens = update.dims[2];
  demands.same_type(1, "update", 0, "past_cache")
      .dims(1, "update", {batch, cache.dims[1], tokens, cache.dims[3]})
      .that(tokens <= slots, std::to_string(tokens) + " tokens for " + std::to_string(slots) + " slots");
  if (demands.has(2)) {
    demands.dims(2, "write_indices", {batch}).that(demands.at(2).dtype == DType::i64, "write_indices must be i64");
    for (index b = 0; demands.met() && b < batch; ++b) {
      const double first = demands.at(2).get(b);
      demands.that(first >= 0 && first <= static_cast<double>(slots - tokens),
                   "write_indices has " + std::to_string(demands.at(2).get(b)) + " at " + std::to_string(b) +
                       "; it must be 0 to " + std::to_string(slots - tokens));
    }
  }
  return demands.status();
}

Status check_rms_norm(const OnnxNode& node) {
  Demands demands(node);
  demands.axis(-1);
  if (!demands.met()) return demands.status();
  const OnnxTensor& x = demands.at(0);
  const index axis = node.axis("axis", -1, x.rank());
  const std::vector<index> normed(x.dims.begin() + axis, x.dims.end());
  return demands.broadcast(1, "scale", x.dims)
      .covered(demands.at(1).dims == normed,
               "scale has shape " + shape(demands.at(1).dims) + "; rms_norm takes " + shape(normed))
      .status();
}

// Before 13 what lies from the axis on is one row.
Status check_softmax(const OnnxNode& node) { return Demands(node).axis(node.opset < 13 ? 1 : -1).status(); }

Status check_argmax(const OnnxNode& node) {
  Demands demands(node);
  demands.axis(0);
  const std::vector<index>& dims = demands.at(0).dims;
  demands.that(demands.met() && dims[node.axis("axis", 0, demands.at(0).rank())] > 0,
               "x has shape " + shape(dims) + "; its axis must have an element, or nothing is the largest");
  for (index i = 0; demands.met() && i < demands.at(0).size(); ++i)
    demands.covered(std::isfinite(demands.at(0).get(i)), "sampling takes finite logits");
  return demands.status();
}

Status check_swiglu(const OnnxNode& node) {
  Demands demands(node);
  return demands.dims(1, "b", demands.at(0).dims).same_type(1, "b", 0, "a").status();
}

Status check_gather(const OnnxNode& node) {
  Demands demands(node);
  demands.axis(0).that(ids.contains(demands.at(1).dtype), "indices must be i32 or i64");
  return demands
      .covered(demands.met() && node.axis("axis", 0, demands.at(0).rank()) == 0,
               "embedding gathers whole rows: axis 0 only")
      .status();
}

// a [.., m, k] times b [.., k, n]; which batches may differ is for products() to say.
Demands& multiplies(Demands& demands, std::size_t a, std::size_t b) {
  demands.that(demands.at(a).rank() > 0 && demands.at(b).rank() > 0, "a matrix product of a scalar");
  if (!demands.met()) return demands;
  const auto& left = demands.at(a).dims;
  const auto& right = demands.at(b).dims;
  const index inner = right.size() > 1 ? right[right.size() - 2] : right[0];
  return demands.that(left.back() == inner,
                      "the inner dimensions of a matrix product differ: " + shape(left) + " and " + shape(right));
}

// One number for a whole matrix, or one for each of its rows or columns.
Demands& one_or_each(Demands& demands, std::size_t input, const char* name, index each) {
  if (!demands.met() || !demands.has(input)) return demands;
  const index count = demands.at(input).size();
  return demands.that(count == 1 || count == each, std::string(name) + " has " + std::to_string(count) +
                                                       " elements; it must have 1 or " + std::to_string(each));
}

index rows_of(const OnnxTensor& a) { return a.rank() > 1 ? a.dims[a.rank() - 2] : 1; }
index columns_of(const OnnxTensor& b) { return b.rank() > 1 ? b.dims.back() : 1; }

Status check_matmul(const OnnxNode& node) {
  Demands demands(node);
  return multiplies(demands, 0, 1).same_type(1, "B", 0, "A").status();
}

Status check_matmul_integer(const OnnxNode& node) {
  Demands demands(node);
  multiplies(demands, 0, 1)
      .that(is_byte(demands.at(0).dtype) && is_byte(demands.at(1).dtype), "A and B must be i8 or u8");
  if (demands.met() && demands.has(2)) demands.same_type(2, "a_zero_point", 0, "A");
  if (demands.met() && demands.has(3)) demands.same_type(3, "b_zero_point", 1, "B");
  one_or_each(demands, 2, "a_zero_point", rows_of(demands.at(0)));
  return one_or_each(demands, 3, "b_zero_point", columns_of(demands.at(1))).status();
}

Status check_qlinear_matmul(const OnnxNode& node) {
  Demands demands(node);
  multiplies(demands, 0, 3)
      .that(is_byte(demands.at(0).dtype) && is_byte(demands.at(3).dtype), "a and b must be i8 or u8");
  for (std::size_t scale : {1, 4, 6}) demands.that(is_float(demands.at(scale).dtype), "scales must be floats");
  demands.same_type(2, "a_zero_point", 0, "a").same_type(5, "b_zero_point", 3, "b");
  demands.that(is_byte(demands.at(7).dtype), "y_zero_point must be i8 or u8");
  const index rows = rows_of(demands.at(0)), columns = columns_of(demands.at(3));
  one_or_each(demands, 1, "a_scale", rows);
  one_or_each(demands, 2, "a_zero_point", rows);
  one_or_each(demands, 4, "b_scale", columns);
  one_or_each(demands, 5, "b_zero_point", columns);
  one_or_each(demands, 6, "y_scale", rows);
  return one_or_each(demands, 7, "y_zero_point", rows).status();
}

// QuantizeLinear and DequantizeLinear: one scale, one for each index of an axis, or one for each block of it.
Status check_granularity(const OnnxNode& node) {
  Demands demands(node);
  const OnnxTensor &x = demands.at(0), &scale = demands.at(1);
  demands.that(is_float(scale.dtype), "the scale must be of floats");
  if (demands.has(2))
    demands.that(demands.at(2).dims == scale.dims || (demands.at(2).size() == 1 && scale.size() == 1),
                 "the zero point has shape " + shape(demands.at(2).dims) + "; the scale has " + shape(scale.dims));
  const index block = node.integer("block_size", 0);
  demands.that(block >= 0, "block_size is " + std::to_string(block) + "; it must be positive, or 0");
  if (!demands.met() || scale.size() == 1) return demands.status();
  demands.axis(1);
  if (!demands.met()) return demands.status();
  const index axis = node.axis("axis", 1, x.rank());
  if (block == 0 || scale.rank() != x.rank()) return demands.dims(1, "the scale", {x.dims[axis]}).status();
  std::vector<index> blocks = x.dims;
  blocks[axis] = x.dims[axis] / block + (x.dims[axis] % block != 0);
  return demands.dims(1, "the scale", blocks).status();
}

Status check_quantize(const OnnxNode& node) {
  Demands demands(node);
  demands.that(is_float(demands.at(0).dtype), "x must be of floats");
  // From 23 on the quotient is one of this type, the scale's where nothing is said; before it was not stated.
  const index said = node.integer("precision", 0);
  const bool f32 = said == 0 ? node.opset < 23 || demands.at(1).dtype == DType::f32 : said == onnx_type(DType::f32);
  demands.covered(f32, "quantize divides in f32");
  return demands.met() ? check_granularity(node) : demands.status();
}

Status check_dequantize(const OnnxNode& node) {
  Demands demands(node);
  const index to = node.integer("output_dtype", 0);
  demands.covered(quantized_types.contains(demands.at(0).dtype), "dequantize reads i8 u8 i4 u4")
      .covered(to == 0 || to == onnx_type(demands.at(1).dtype), "dequantize writes the type of the scale");
  if (demands.has(2)) demands.same_type(2, "the zero point", 0, "x");
  return demands.met() ? check_granularity(node) : demands.status();
}

struct Rule {
  const char* op_type;
  int since;                    // the first version that is what we compute
  std::string_view attributes;  // that are read, or say nothing of the numbers
  std::size_t inputs;           // that must be there
  Status (*check)(const OnnxNode&);
};

constexpr Rule rules[] = {
    {"Attention", 23, "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision", 3,
     check_attention},
    {"RotaryEmbedding", 23, "interleaved num_heads rotary_embedding_dim", 3, check_rotary_embedding},
    {"TensorScatter", 24, "axis mode", 2, check_tensor_scatter},
    {"RMSNormalization", 23, "axis epsilon stash_type", 2, check_rms_norm},
    {"Softmax", 1, "axis", 1, check_softmax},
    {"SwiGLU", 28, "alpha", 2, check_swiglu},
    {"Gelu", 20, "approximate", 1, nullptr},
    {"MatMul", 1, "", 2, check_matmul},
    {"MatMulInteger", 10, "", 2, check_matmul_integer},
    {"QLinearMatMul", 10, "", 8, check_qlinear_matmul},
    {"QuantizeLinear", 10, "axis block_size output_dtype precision saturate", 2, check_quantize},
    {"DequantizeLinear", 10, "axis block_size output_dtype", 2, check_dequantize},
    {"Gather", 1, "axis", 2, check_gather},
    {"ArgMax", 1, "axis keepdims select_last_index", 1, check_argmax},
    {"Cast", 6, "round_mode saturate to", 1, nullptr}};

// What a version or an attribute means that nobody has read would be computed as if it were not there.
Status check_version(const OnnxNode& node, const Rule& rule) {
  if (node.opset < rule.since || node.opset > latest_opset)
    return no(node.op_type + " of opset " + std::to_string(node.opset) + "; it must be " + std::to_string(rule.since) +
              " to " + std::to_string(latest_opset));
  for (const auto& [name, value] : node.attributes)
    if ((' ' + std::string(rule.attributes) + ' ').find(' ' + name + ' ') == std::string::npos)
      return no("the attribute " + name + " of " + node.op_type);
  if (node.integer("stash_type", 1) != 1) return no("rms_norm's sums are f32");
  return {};
}

}  // namespace

Status check_node(const OnnxNode& node) {
  for (const Rule& rule : rules) {
    if (node.op_type != rule.op_type) continue;
    if (Status status = check_version(node, rule); !status.ok()) return status;
    for (std::size_t i = 0; i < rule.inputs; ++i)
      if (!node.has(i)) return wrong(node.op_type + " lacks its input " + std::to_string(i));
    return rule.check ? rule.check(node) : Status();
  }
  return no("no operator for " + node.op_type);
}

}  // namespace inlay::tools
