#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/checkpoint_codes.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/split_tensors.hpp"

namespace inlay::exec {

namespace {

struct Slice {
  const char* name;
  index rows;
};

Status split(const WeightTensor& whole, std::string_view stem, std::string_view kind, std::span<const Slice> slices,
             const std::string& origin, std::vector<WeightTensor>& parts) {
  index rows = 0;
  for (const Slice& each : slices) rows += each.rows;
  if (whole.extents[0] != rows)
    return {StatusCode::corrupt_data, origin + ": the fused tensor " + quote(whole.name) + " has extents " +
                                          describe_extents(whole) + "; it must have " + std::to_string(rows) + " rows"};
  const std::byte* data = whole.data;
  index first = 0;
  for (const Slice& each : slices) {
    WeightTensor part = whole;
    part.name = std::string(stem) + each.name + std::string(kind);
    part.extents[0] = each.rows;
    part.bytes = whole.bytes / rows * each.rows;
    if (whole.codes) {
      auto codes = whole.codes->sliced(std::exchange(first, first + each.rows), each.rows);
      if (!codes)
        return {codes.error().code(), origin + ": " + quote(whole.name) + ": " + std::string(codes.error().message())};
      part.codes = std::make_shared<CheckpointCodes>(std::move(*codes));
    } else {
      part.data = std::exchange(data, data + part.bytes);
    }
    parts.push_back(std::move(part));
  }
  return {};
}

// Which layer "blk.3.attn_qkv.weight" is of; -1: of none.
index layer_of(std::string_view tensor, index layers) {
  constexpr std::string_view prefix = "blk.";
  index layer = -1;
  if (tensor.starts_with(prefix)) std::from_chars(tensor.data() + prefix.size(), tensor.data() + tensor.size(), layer);
  return layer < layers ? layer : -1;
}

// "blk.3.attn_qkv.weight" ends with "attn_qkv.weight": what is before and behind the name; nothing of another tensor.
bool is_part(std::string_view tensor, std::string_view name, std::string_view& stem, std::string_view& kind) {
  for (const std::string_view each : {".weight", ".bias"}) {
    if (!tensor.ends_with(each)) continue;
    const std::string_view before = tensor.substr(0, tensor.size() - each.size());
    if (!before.ends_with(name) || !before.substr(0, before.size() - name.size()).ends_with('.')) continue;
    stem = before.substr(0, before.size() - name.size()), kind = each;
    return true;
  }
  return false;
}

}  // namespace

Status split_tensors(const ModelConfig& c, const std::string& origin, std::vector<WeightTensor>& tensors) {
  const auto has_gate = [](const WeightTensor& each) { return each.name.find(".ffn_gate.") != std::string::npos; };
  const bool fused_up = c.gated && std::none_of(tensors.begin(), tensors.end(), has_gate);
  std::vector<WeightTensor> parts;
  for (const WeightTensor& each : tensors) {
    std::string_view stem, kind;
    Status status;
    const index layer = layer_of(each.name, c.layers);
    if (each.rank > 2 || layer < 0) {
      parts.push_back(each);
    } else if (is_part(each.name, "attn_qkv", stem, kind)) {
      const LayerConfig facts = c.layer(layer);
      const index q = c.heads * facts.head_dim, kv = facts.kv_heads * facts.head_dim;
      const Slice slices[] = {{"attn_q", q}, {"attn_k", kv}, {"attn_v", kv}};
      status = split(each, stem, kind, slices, origin, parts);
    } else if (is_part(each.name, "ffn_gate_up_shexp", stem, kind)) {
      const Slice slices[] = {{"ffn_gate_shexp", c.experts.shared_hidden}, {"ffn_up_shexp", c.experts.shared_hidden}};
      status = split(each, stem, kind, slices, origin, parts);
    } else if (is_part(each.name, "ffn_gate_up", stem, kind) ||
               (fused_up && !c.layer(layer).sparse && is_part(each.name, "ffn_up", stem, kind))) {
      const index hidden = c.layer(layer).hidden;
      const Slice slices[] = {{"ffn_gate", hidden}, {"ffn_up", hidden}};
      status = split(each, stem, kind, slices, origin, parts);
    } else {
      parts.push_back(each);
    }
    if (!status) return status;
  }
  const bool fused = parts.size() > tensors.size();
  tensors = std::move(parts);
  std::unordered_set<std::string_view> names;
  for (const WeightTensor& each : tensors)
    if (fused && !names.insert(each.name).second)
      return {StatusCode::corrupt_data, origin + ": two tensors for " + quote(each.name)};
  return {};
}

}  // namespace inlay::exec
