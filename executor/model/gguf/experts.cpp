#include <charconv>

#include <inlay/core/quote.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/gguf/experts.hpp"

namespace inlay::exec {

namespace {

// llama.cpp's numbers of what makes logits scores.
enum Gating : index { by_family = 0, softmax = 1, sigmoid = 2, softmax_of_chosen = 3 };

}  // namespace

void read_gguf_experts(GgufMetadata& meta, const std::string& arch, const Mixture& mixture, ModelConfig& c) {
  ExpertsConfig e;
  const auto integer = [&](const char* key, index& to, bool required = false) {
    return meta.integer(arch + "." + key, to, required);
  };
  if (!mixture.gguf || !integer("expert_count", e.count) || e.count == 0) return;
  integer("expert_used_count", e.top_k, true);
  if (!integer("expert_feed_forward_length", e.hidden)) integer("feed_forward_length", e.hidden, true);
  index gating = by_family, shared = 0;
  integer("expert_gating_func", gating);
  switch (gating) {
    case by_family: e.score = mixture.score; break;
    case softmax: e.score = MoeScore::softmax; break;
    case sigmoid: e.score = MoeScore::sigmoid; break;
    case softmax_of_chosen: e.score = MoeScore::softmax_of_chosen; break;
    default:
      return meta.fail(StatusCode::unsupported, "the key " + quote(arch + ".expert_gating_func") + " is " +
                                                    std::to_string(gating) + "; it must be 1, 2 or 3");
  }
  e.renormalize = mixture.gguf_renormalize;
  meta.boolean(arch + ".expert_weights_norm", e.renormalize);
  if (meta.number(arch + ".expert_weights_scale", e.scale, false) && e.scale == 0) e.scale = 1;  // as llama.cpp has it
  e.biases = mixture.biases;
  if (mixture.in_groups) {
    e.choice_bias = true;
    integer("expert_group_count", e.groups), integer("expert_group_used_count", e.groups_kept);
    e.group_score = e.groups > 1 ? MoeGroupScore::sum_of_two : MoeGroupScore::best;
  }
  if (mixture.shared == Mixture::Shared::gated) {
    e.shared_gate = true, e.shared_hidden = mixture.shared_hidden;
    integer("expert_shared_feed_forward_length", e.shared_hidden, true);
  } else if (mixture.shared == Mixture::Shared::counted) {
    integer("expert_shared_count", shared);
    if (meta.ok() &&
        (shared < 0 || shared > (index{1} << 16) || __builtin_mul_overflow(shared, e.hidden, &e.shared_hidden)))
      meta.fail(StatusCode::corrupt_data, "the key " + quote(arch + ".expert_shared_count") + " is " +
                                              std::to_string(shared) + "; it must be 0 to 65536");
  }
  c.experts = e;
}

index read_gguf_first_sparse(GgufMetadata& meta, const std::string& arch, const ModelConfig& c) {
  index first = 0;
  if (c.experts.count == 0) return c.layers;
  meta.integer(arch + ".leading_dense_block_count", first, false);
  if (meta.ok() && (first < 0 || first > c.layers))
    meta.fail(StatusCode::corrupt_data, "the key " + quote(arch + ".leading_dense_block_count") + " is " +
                                            std::to_string(first) + "; it must be 0 to " + std::to_string(c.layers));
  return first;
}

void write_gguf_experts(const ModelConfig& c, const std::string& arch, const Mixture& mixture, GgufWriter& writer) {
  const ExpertsConfig& e = c.experts;
  if (e.count == 0) return;
  const auto number = [&](const char* name, index value) {
    writer.set(arch + "." + name, static_cast<std::uint32_t>(value));
  };
  number("expert_count", e.count), number("expert_used_count", e.top_k);
  number("expert_feed_forward_length", e.hidden);
  number("expert_gating_func", e.score == MoeScore::softmax   ? softmax
                               : e.score == MoeScore::sigmoid ? sigmoid
                                                              : softmax_of_chosen);
  writer.set(arch + ".expert_weights_norm", e.renormalize);
  if (e.scale != 1) writer.set(arch + ".expert_weights_scale", static_cast<float>(e.scale));
  if (e.groups > 1) number("expert_group_count", e.groups), number("expert_group_used_count", e.groups_kept);
  if (mixture.shared == Mixture::Shared::gated) number("expert_shared_feed_forward_length", e.shared_hidden);
  if (mixture.shared == Mixture::Shared::counted) number("expert_shared_count", e.shared_hidden / e.hidden);
  index dense = 0;
  while (dense < c.layers && !c.layer(dense).sparse) ++dense;
  if (dense > 0) number("leading_dense_block_count", dense);
}

std::string gguf_tensor_name(std::string_view name, const Family& family, const ModelConfig& c) {
  constexpr std::string_view blocks = "blk.";
  if (!name.starts_with(blocks)) return std::string(name);
  index layer = -1;
  const auto number = std::from_chars(name.data() + blocks.size(), name.data() + name.size(), layer);
  if (number.ec != std::errc{}) return std::string(name);
  if (family.more_layers && layer >= c.layers) return {};
  const std::string_view part = name.substr(static_cast<std::size_t>(number.ptr - name.data()));
  const std::string theirs = "." + std::string(family.gguf_ffn_norm) + ".";
  if (!family.gguf_ffn_norm.empty() && part.starts_with(theirs))
    return block_name(layer, "ffn_norm." + std::string(part.substr(theirs.size())));
  return std::string(name);
}

}  // namespace inlay::exec
