#include "tools/model_shapes.hpp"

namespace inlay::tools {

namespace {

struct Shape {
  const char* name;
  index layers, dim, heads, kv_heads, head_dim, hidden, vocab;
  double theta;
  bool qkv_bias, qk_norm, tied;
  index experts = 0, top_k = 0;  // each `hidden` wide
};

// From the models' config.json files; the last one, of llama2.c, is for tests.
constexpr Shape shapes[] = {
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 1e5, false, false, true},
    {"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000, 1e4, false, false, false},
    {"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 1e6, true, false, true},
    {"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 1e6, true, false, true},
    {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 1e6, false, true, true},
    {"llama3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 5e5, false, false, true},
    {"llama3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, 5e5, false, false, true},
    {"llama3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 5e5, false, false, false},
    {"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32768, 1e6, false, false, false},
    {"olmoe-1b-7b", 16, 2048, 16, 16, 128, 1024, 50304, 1e4, false, true, false, 64, 8},
    {"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, 1e6, false, true, false, 128, 8},
    {"stories260k", 5, 64, 8, 4, 8, 172, 512, 1e4, false, false, true},
};

}  // namespace

std::vector<std::string> model_shapes() {
  std::vector<std::string> names;
  for (const Shape& shape : shapes) names.emplace_back(shape.name);
  return names;
}

Expected<exec::ModelConfig> model_shape(const std::string& name) {
  std::string known;
  for (const Shape& shape : shapes) {
    known += (known.empty() ? "" : " ") + std::string(shape.name);
    if (name != shape.name) continue;
    exec::ModelConfig config;
    config.architecture = "llama";
    config.name = shape.name;
    config.layers = shape.layers;
    config.dim = shape.dim;
    config.heads = shape.heads;
    config.kv_heads = shape.kv_heads;
    config.head_dim = shape.head_dim;
    config.hidden = shape.hidden;
    config.vocab = shape.vocab;
    config.context = 32768;
    config.ropes[0].dim = shape.head_dim;
    config.ropes[0].theta = shape.theta;
    config.tie_embeddings = shape.tied;
    config.qkv_bias = shape.qkv_bias;
    config.qk_norm = shape.qk_norm ? exec::QkNorm::head : exec::QkNorm::none;
    config.experts = {.count = shape.experts, .top_k = shape.top_k, .hidden = shape.hidden, .renormalize = true};
    return config;
  }
  return failure(StatusCode::not_found, "--shape is " + name + "; it must be one of " + known);
}

}  // namespace inlay::tools
