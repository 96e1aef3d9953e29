// inlay inspect: what is in a model file, in one screen.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/model/load.hpp>
#include <inlay/text/tokenizer.hpp>

#include "tools/commands.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

void line(const char* what, const std::string& text) { std::printf("%-14s %s\n", what, text.c_str()); }

std::string number(double value, const char* form = "%.4g") {
  char text[32];
  std::snprintf(text, sizeof(text), form, value);
  return text;
}

std::string megabytes(double bytes) { return number(bytes * 1e-6, bytes < 1e7 ? "%.2f MB" : "%.0f MB"); }

std::string counted(index count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Of several parts, those that are there.
std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// "8 kv heads of 128", or where layers differ "16 kv heads of 256 in 50 layers and 4 kv heads of 512 in 10 layers".
std::string heads_of_layers(const exec::ModelConfig& c) {
  std::vector<std::pair<std::string, index>> kinds;
  for (index i = 0; i < c.layers; ++i) {
    const exec::LayerConfig layer = c.layer(i);
    const index value_dim = c.value_dim(layer);
    const std::string text = counted(layer.kv_heads, "kv head") + " of " + std::to_string(layer.head_dim) +
                             (value_dim != layer.head_dim ? " and " + std::to_string(value_dim) : "");
    const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == text; });
    found == kinds.end() ? void(kinds.emplace_back(text, 1)) : void(++found->second);
  }
  std::string text;
  for (const auto& [kind, layers] : kinds)
    text += (text.empty() ? "" : " and ") + kind + (kinds.size() > 1 ? " in " + counted(layers, "layer") : "");
  return text;
}

void print_sizes(const exec::ModelConfig& c) {
  line("sizes", joined({counted(c.layers, "layer"), "dim " + std::to_string(c.dim), counted(c.heads, "head"),
                        heads_of_layers(c), "hidden " + std::to_string(c.hidden),
                        "vocabulary " + std::to_string(c.vocab), "context " + std::to_string(c.context)}));
}

std::string latents(const exec::LatentConfig& latent) {
  return "k and v of " + std::to_string(latent.kv_rank) + " numbers" +
         (latent.q_rank > 0 ? " and q of " + std::to_string(latent.q_rank) : "");
}

void print_attention(const exec::ModelConfig& c) {
  index windowed = 0, still = 0, shared = 0, without_v = 0;
  for (index i = 0; i < c.layers; ++i) {
    const exec::LayerConfig layer = c.layer(i);
    windowed += layer.window > 0;
    still += layer.rope == exec::LayerConfig::no_rope;
    shared += layer.kv_layer != exec::LayerConfig::own_kv;
    without_v += layer.v_is_k;
  }
  constexpr const char* qk_norms[] = {"", "q and k normed by head", "q and k normed by row",
                                      "q and k normed behind rope",
                                      "q and k normed by head, each by weights of its own"};
  line("attention",
       joined({windowed > 0 ? "window of " + std::to_string(c.sliding_window) + " in " + std::to_string(windowed) +
                                  " of " + counted(c.layers, "layer")
                            : "all keys",
               c.is_latent() ? latents(c.latent) : "", c.qkv_bias ? "biases" : "", c.sinks ? "sinks" : "",
               qk_norms[static_cast<int>(c.qk_norm)], c.attn_scale > 0 ? "scores times " + number(c.attn_scale) : "",
               c.attn_softcap > 0 ? "scores within " + number(c.attn_softcap) : "",
               still > 0 ? "no rope in " + counted(still, "layer") : "", c.v_norm ? "v normed by head" : "",
               without_v > 0 ? "v is k in " + counted(without_v, "layer") : "",
               shared > 0 ? counted(shared, "layer") + " with the keys and values of earlier ones" : ""}));
  constexpr const char* scalings[] = {"", "linear", "yarn", "llama3", "factors", "longrope"};
  for (const exec::RopeConfig& rope : c.ropes) {
    const bool scaled = rope.scaling != exec::RopeConfig::Scaling::none;
    line("rope", joined({"theta " + number(rope.theta, "%g"),
                         rope.dim < c.head_dim ? std::to_string(rope.dim) + " elements of a head" : "",
                         scaled ? std::string(scalings[static_cast<int>(rope.scaling)]) +
                                      (rope.factor != 1 ? " " + number(rope.factor) : "")
                                : ""}));
  }
}

void print_layers(const exec::ModelConfig& c) {
  constexpr const char* activations[] = {"silu", "gelu", "gelu by tanh", "squared relu", "clipped silu", "xielu"};
  const exec::LayerNorms& n = c.norms;
  line("layers",
       joined({n.before_attn && n.behind_attn ? "norms before and behind branches"
               : n.before_attn                ? "norms before branches"
                                              : "norms behind branches",
               std::string(c.gated ? "gate through " : "no gate, ") + activations[static_cast<int>(c.activation)],
               c.norm == exec::NormKind::layer ? "means taken off" : "", c.parallel ? "branches side by side" : "",
               c.mlp_bias ? "biases of the feed-forward" : "",
               c.embed_scale != 1 ? "embeddings times " + number(c.embed_scale) : "",
               c.residual_scale != 1 ? "branches times " + number(c.residual_scale) : "",
               c.final_softcap > 0 ? "logits within " + number(c.final_softcap) : "",
               c.logit_scale != 1 ? "logits times " + number(c.logit_scale) : "",
               !c.norm_weights ? "norms without weights" : "", c.embed_norm ? "a norm of the embedding" : "",
               c.layer_scales ? "a scale of the stream behind each" : "",
               c.layer_inputs.dim > 0 ? std::to_string(c.layer_inputs.dim) + " inputs of the token for each" : "",
               c.tie_embeddings ? "the head is the embedding" : ""}));
}

void print_experts(const exec::ModelConfig& c) {
  const exec::ExpertsConfig& e = c.experts;
  if (e.count == 0) return;
  index sparse = 0;
  for (index i = 0; i < c.layers; ++i) sparse += c.layer(i).sparse;
  constexpr const char* scores[] = {"softmax", "sigmoid", "softmax of the chosen", "sparsemixer"};
  line("experts",
       joined({std::to_string(e.top_k) + " of " + std::to_string(e.count) + " in " + counted(sparse, "layer"),
               "hidden " + std::to_string(e.hidden),
               e.shared_hidden > 0
                   ? "a shared one of " + std::to_string(e.shared_hidden) + (e.shared_gate ? " with a gate" : "")
                   : "",
               e.beside ? "beside the feed-forward" : "", scores[static_cast<int>(e.score)],
               e.groups > 1 ? std::to_string(e.groups_kept) + " of " + std::to_string(e.groups) + " groups" : "",
               e.biases ? "biases" : "", e.choice_bias ? "a bias of the choice" : "",
               e.renormalize ? "renormalized" : "", e.scale != 1 ? "times " + number(e.scale) : ""}));
}

void print_tensors(const exec::ModelFile& file) {
  struct Sum {
    index count = 0, elements = 0, bytes = 0;
  };
  std::map<std::string, Sum> types;
  Sum all;
  for (const exec::WeightTensor& tensor : file.tensors()) {
    const std::string codes = tensor.code_format();
    for (Sum* sum : {&all, &types[codes.empty() ? std::string(ggml_format(tensor.type).name) : codes]})
      ++sum->count, sum->elements += tensor.size(), sum->bytes += tensor.bytes;
  }
  line("parameters", number(static_cast<double>(all.elements) * 1e-6, "%.4g million") + " in " +
                         megabytes(static_cast<double>(all.bytes)));
  std::vector<std::pair<std::string, Sum>> sorted(types.begin(), types.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  for (const auto& [name, sum] : sorted)
    line(&name == &sorted.front().first ? "tensors" : "",
         name + ": " + std::to_string(sum.count) + ", " + megabytes(static_cast<double>(sum.bytes)));
  const exec::ModelConfig& c = file.config;
  for (const DType type : {DType::f16, DType::i8}) {
    if (!exec::check_kv_type(c, type).ok()) continue;
    const index token = exec::bytes_a_token(exec::cache_shape(c, type, 1, 1));
    line(type == DType::f16 ? "cache" : "", std::to_string(token) + " bytes a token in " + kv_type_word(type) + ", " +
                                                megabytes(static_cast<double>(token * c.context)) +
                                                " for the whole context");
  }
}

void print_tokenizer(const exec::TokenizerData& data) {
  using Kind = exec::TokenizerData::Kind;
  if (data.kind == Kind::none) return line("tokenizer", data.problem.empty() ? "none" : "not read: " + data.problem);
  const auto tokenizer = exec::Tokenizer::make(data);
  if (!tokenizer) return line("tokenizer", "not read: " + std::string(tokenizer.error().message()));
  const auto named = [&](exec::Token id) {
    return std::to_string(id) + " " + quote(std::string(data.tokens.at(static_cast<std::size_t>(id))));
  };
  std::vector<std::string> ends;
  for (std::size_t id = 0; id < data.tokens.size(); ++id)
    if (tokenizer->stops(static_cast<exec::Token>(id))) ends.push_back(named(static_cast<exec::Token>(id)));
  line("tokenizer",
       joined({data.kind == Kind::spm   ? "pieces by score (SPM)"
               : data.kind == Kind::bpe ? "pairs of bytes by rank (BPE)"
                                        : "pairs of characters by rank (BPE)",
               data.pre.empty() ? "" : "words of " + data.pre, std::to_string(data.tokens.size()) + " tokens",
               data.bos == data.no_token ? "no BOS" : "BOS " + named(data.bos)}));
  line("ends of text", ends.empty() ? "none" : joined(ends));
  line("chat template",
       data.chat_template.empty() ? "none" : counted(static_cast<index>(data.chat_template.size()), "character"));
}

int inspect(const std::string& path) {
  const std::string name = path.empty() ? default_model() : path;
  auto file = exec::load_model(name);
  if (!file) return wrong(file.error());
  line("file", name);
  line("architecture", file->config.architecture + (file->config.name.empty() ? "" : ", " + quote(file->config.name)));
  print_sizes(file->config);
  print_attention(file->config);
  print_layers(file->config);
  print_experts(file->config);
  print_tensors(*file);
  print_tokenizer(file->tokenizer);
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Command& chosen) {
  auto model = std::make_shared<std::string>();
  CLI::App& command = *app.add_subcommand("inspect", "What is in a model file, or why it cannot be read");
  command.add_option("model", *model, "GGUF file, or a directory with safetensors (default: the model of Inlay)");
  command.callback([model, &chosen] { chosen = [model] { return inspect(*model); }; });
}

}  // namespace inlay::tools
