#include "executor/model/gguf/latent.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/check_model.hpp"

namespace inlay::exec {

namespace {

constexpr const char* log_multiplier = ".rope.scaling.yarn_log_multiplier";

bool is_yarn(const ModelConfig& c) { return c.ropes[0].scaling == RopeConfig::Scaling::yarn; }

// Rows of each head's k, which the file has as columns, above those of its v.
Status join(const ModelConfig& c, const std::string& origin, const WeightTensor& k, const WeightTensor& v,
            WeightTensor& whole, std::vector<std::shared_ptr<const Mapping>>& memory) {
  const index rank = c.latent.kv_rank, value = c.latent.value_dim, nope = c.head_dim - c.latent.rope_dim;
  const std::array<index, 4> k_extents = {c.heads, rank, nope}, v_extents = {c.heads, value, rank};
  for (const auto& [tensor, extents] : {std::pair{&k, k_extents}, {&v, v_extents}}) {
    const WeightTensor must{.rank = 3, .extents = extents};
    if (tensor->rank != 3 || tensor->extents != extents)
      return {StatusCode::corrupt_data, origin + ": the tensor " + quote(tensor->name) + " has extents " +
                                            describe_extents(*tensor) + "; they must be " + describe_extents(must)};
    if (!is_weight_type(tensor->type) || tensor->type == GgmlType::I8)
      return {StatusCode::unsupported, origin + ": the tensor " + quote(tensor->name) + " has the type " +
                                           std::string(ggml_format(tensor->type).name) +
                                           "; it must be a float or a block format"};
  }
  whole.type = GgmlType::F32, whole.rank = 2;
  whole.extents = {c.heads * (nope + value), rank};
  whole.bytes = whole.size() * static_cast<index>(sizeof(float));
  auto mapping = Mapping::anonymous(static_cast<std::size_t>(whole.bytes));
  if (!mapping) return std::move(mapping.error());
  auto* to = reinterpret_cast<float*>((*mapping)->mutable_data());
  whole.data = (*mapping)->mutable_data();
  std::vector<float> row(static_cast<std::size_t>(nope));
  const index k_bytes = ggml_row_bytes(k.type, nope), v_bytes = ggml_row_bytes(v.type, rank);
  for (index head = 0; head < c.heads; ++head) {
    for (index r = 0; r < rank; ++r) {
      dequantize_row(k.type, k.data + (head * rank + r) * k_bytes, nope, row.data());
      for (index i = 0; i < nope; ++i) to[i * rank + r] = row[static_cast<std::size_t>(i)];
    }
    to += nope * rank;
    for (index i = 0; i < value; ++i, to += rank)
      dequantize_row(v.type, v.data + (head * value + i) * v_bytes, rank, to);
  }
  memory.push_back(std::move(*mapping));
  return {};
}

}  // namespace

void read_gguf_latent(GgufMetadata& meta, const std::string& arch, const Family& family, ModelConfig& c) {
  if (family.latent.kv_rank == 0) return;
  LatentConfig& l = c.latent;
  const auto integer = [&](const char* key, index& to, bool required) {
    return meta.integer(arch + key, to, required);
  };
  integer(".attention.kv_lora_rank", l.kv_rank, true), integer(".attention.q_lora_rank", l.q_rank, false);
  integer(".rope.dimension_count", l.rope_dim, true);
  if (integer(".attention.key_length_mla", c.head_dim, false)) {
    integer(".attention.value_length_mla", l.value_dim, true);
    if (meta.ok() && c.kv_heads != 1)
      meta.fail(StatusCode::corrupt_data, "the key " + quote(arch + ".attention.head_count_kv") + " is " +
                                              std::to_string(c.kv_heads) + "; it must be 1, as there is a " +
                                              quote(arch + ".attention.key_length_mla"));
    c.kv_heads = c.heads;
  } else {
    integer(".attention.key_length", c.head_dim, true);
    const bool stated = family.latent.value_dim > 0;  // else MiniCPM3, whose writers leave it out
    if (!stated && meta.ok()) l.value_dim = c.dim / c.heads;
    integer(".attention.value_length", l.value_dim, stated);
  }
  l.norm_eps = c.norm_eps;
  // Of a rank below 1 the model would be one without latent vectors.
  if (meta.ok() && (l.kv_rank < 1 || l.q_rank < 0))
    meta.fail(StatusCode::corrupt_data, "the ranks of latent vectors must be positive");
}

void write_gguf_latent(const ModelConfig& c, const std::string& arch, GgufWriter& writer) {
  if (!c.is_latent()) return;
  const auto number = [&](const char* key, index value) { writer.set(arch + key, static_cast<std::uint32_t>(value)); };
  number(".attention.kv_lora_rank", c.latent.kv_rank);
  if (c.latent.q_rank > 0) number(".attention.q_lora_rank", c.latent.q_rank);
  if (!is_yarn(c)) return;
  const double head = static_cast<double>(c.head_dim), scale = c.attn_scale == 0 ? 1 / std::sqrt(head) : c.attn_scale;
  const double sharpened = std::sqrt(scale * std::sqrt(head)), logarithm = std::log(c.ropes[0].factor);
  writer.set(arch + log_multiplier, static_cast<float>(logarithm > 0 ? (sharpened - 1) / logarithm : 0));
}

void read_gguf_latent_scale(GgufMetadata& meta, const std::string& arch, ModelConfig& c) {
  double multiplier = 0;
  if (!is_yarn(c) || !meta.number(arch + log_multiplier, multiplier, true)) return;
  const double sharpened = 1 + multiplier * std::log(std::max(c.ropes[0].factor, 1.0));
  c.attn_scale = sharpened * sharpened / std::sqrt(static_cast<double>(c.head_dim));
}

Status join_gguf_latent(const ModelConfig& c, const std::string& origin, std::vector<WeightTensor>& tensors,
                        std::vector<std::shared_ptr<const Mapping>>& memory) {
  if (!c.is_latent()) return {};
  constexpr std::string_view k_part = "k_b.weight", v_part = "v_b.weight", both = "kv_b.weight";
  std::unordered_map<std::string_view, const WeightTensor*> named;
  for (const WeightTensor& each : tensors) named.emplace(each.name, &each);
  std::vector<WeightTensor> kept;
  for (WeightTensor& each : tensors) {
    const std::string_view name = each.name;
    const bool is_k = name.ends_with(".attn_k_b.weight"), is_v = name.ends_with(".attn_v_b.weight");
    const std::string stem(name.substr(0, name.size() - (is_k || is_v ? k_part.size() : 0)));
    const auto other = named.find(stem + std::string(is_k ? v_part : k_part));
    if ((!is_k && !is_v) || other == named.end() || named.contains(stem + std::string(both))) {
      kept.push_back(each);  // `named` looks at its name
      continue;
    }
    if (!is_k) continue;
    WeightTensor whole{.name = stem + std::string(both)};
    if (Status status = join(c, origin, each, *other->second, whole, memory); !status) return status;
    kept.push_back(std::move(whole));
  }
  tensors = std::move(kept);
  return {};
}

}  // namespace inlay::exec
