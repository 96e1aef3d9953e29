#include <vector>

#include <inlay/core/quote.hpp>

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
    case by_family: e.score = mixture.score, e.jitter = mixture.jitter; break;
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
  e.beside = mixture.beside;
  e.biases = mixture.biases, e.choice_bias = mixture.choice_bias || e.score == MoeScore::sigmoid;
  if (mixture.in_groups) {
    integer("expert_group_count", e.groups), integer("expert_group_used_count", e.groups_kept);
    e.group_score = moe_group_score(e);
  }
  if (mixture.shared == Mixture::Shared::gated) {
    e.shared_gate = true, e.shared_hidden = mixture.shared_hidden;
    integer("expert_shared_feed_forward_length", e.shared_hidden, true);
  } else if (mixture.shared == Mixture::Shared::sized) {
    integer("expert_shared_feed_forward_length", e.shared_hidden);
  } else if (mixture.shared == Mixture::Shared::counted) {
    integer("expert_shared_count", shared);
    if (meta.ok() &&
        (shared < 0 || shared > (index{1} << 16) || __builtin_mul_overflow(shared, e.hidden, &e.shared_hidden)))
      meta.fail(StatusCode::corrupt_data, "the key " + quote(arch + ".expert_shared_count") + " is " +
                                              std::to_string(shared) + "; it must be 0 to 65536");
  }
  c.experts = e;
}

GgufSparse read_gguf_sparse(GgufMetadata& meta, const std::string& arch, const ModelConfig& c) {
  GgufSparse sparse;
  if (c.experts.count == 0) return {.first = c.layers};
  const auto integer = [&](const char* name, index& to, index least, index most) {
    const std::string key = arch + "." + name;
    meta.integer(key, to, false);
    if (meta.ok() && (to < least || to > most))
      meta.fail(StatusCode::corrupt_data, "the key " + quote(key) + " is " + std::to_string(to) + "; it must be " +
                                              std::to_string(least) + " to " + std::to_string(most));
  };
  integer("leading_dense_block_count", sparse.first, 0, c.layers);
  integer("interleave_moe_layer_step", sparse.step, 1, c.layers);
  return sparse;
}

void write_gguf_experts(const ModelConfig& c, const std::string& arch, const Mixture& mixture, GgufWriter& writer) {
  const ExpertsConfig& e = c.experts;
  if (e.count == 0) return;
  const auto number = [&](const char* name, index value) {
    writer.set(arch + "." + name, static_cast<std::uint32_t>(value));
  };
  number("expert_count", e.count), number("expert_used_count", e.top_k);
  number("expert_feed_forward_length", e.hidden);
  // Sparsemixer has no number: it goes without saying in its family.
  if (e.score != MoeScore::sparsemixer)
    number("expert_gating_func", e.score == MoeScore::softmax   ? softmax
                                 : e.score == MoeScore::sigmoid ? sigmoid
                                                                : softmax_of_chosen);
  writer.set(arch + ".expert_weights_norm", e.renormalize);
  if (e.scale != 1) writer.set(arch + ".expert_weights_scale", static_cast<float>(e.scale));
  if (e.groups > 1) number("expert_group_count", e.groups), number("expert_group_used_count", e.groups_kept);
  if (mixture.shared == Mixture::Shared::counted)
    number("expert_shared_count", e.shared_hidden / e.hidden);
  else if (e.shared_hidden > 0)
    number("expert_shared_feed_forward_length", e.shared_hidden);
  std::vector<index> sparse;
  for (index i = 0; i < c.layers; ++i)
    if (c.layer(i).sparse) sparse.push_back(i);
  if (sparse.empty()) return;
  if (sparse.front() > 0) number("leading_dense_block_count", sparse.front());
  // llama.cpp wants it in these families; a reader here refuses what it does not describe (check_gguf_config).
  if (const index step = sparse.size() < 2 ? 1 : sparse[1] - sparse[0];
      step > 1 || mixture.sparse == Mixture::Sparse::spaced)
    number("interleave_moe_layer_step", step);
}

}  // namespace inlay::exec
