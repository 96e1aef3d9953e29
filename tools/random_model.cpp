#include "tools/random_model.hpp"

#include <cstring>

#include <inlay/core/parallel.hpp>

namespace inlay::tools {

namespace {

struct Shape {
  const char* name;
  index layers, dim, heads, kv_heads, head_dim, hidden, vocab;
  double theta;
  bool qkv_bias, qk_norm, tied;
};

// From the models' config.json files.
constexpr Shape shapes[] = {
    {"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000, 1e4, false, false, false},
    {"qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 1e6, true, false, true},
    {"qwen2.5-1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 1e6, true, false, true},
    {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 1e6, false, true, true},
    {"llama3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 5e5, false, false, true},
    {"llama3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256, 5e5, false, false, true},
    {"llama3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 5e5, false, false, false},
    {"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32768, 1e6, false, false, false},
};

// A counter's hash: cheap enough for billions of weights, and the same in any number of threads.
std::uint32_t mix(std::uint64_t i) {
  i = (i + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  i = (i ^ (i >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::uint32_t>(i >> 32);
}

// Small numbers of either sign around `scale`: sign and mantissa are random, the exponent is fixed.
void fill(DType type, void* data, index count, float scale) {
  openmp().ranges(count, 1 << 16, [&](index begin, index end) {
    for (index i = begin; i < end; ++i) {
      const std::uint32_t r = mix(static_cast<std::uint64_t>(i));
      const float value = scale * (static_cast<float>(r >> 8) * 0x1p-23f - 1);
      switch (type) {
        case DType::f16: static_cast<f16*>(data)[i] = f16(value); break;
        case DType::bf16: static_cast<bf16*>(data)[i] = bf16(value); break;
        case DType::f32: static_cast<float*>(data)[i] = value; break;
        default: static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(r); break;
      }
    }
  });
}

template <int Rank>
Expected<exec::OwnedTensor<Rank>> random_tensor(DType type, const std::array<index, Rank>& extents, float scale) {
  auto made = exec::OwnedTensor<Rank>::make(type, extents);
  if (made) fill(type, made->view().data, made->view().size(), scale);
  return made;
}

// Packed bytes are made as they are: a layout of random numbers is as random as its numbers. The
// scale keeps activations near one through all layers.
Expected<exec::LinearWeight> random_linear(index n, index k, const std::string& type) {
  const float scale = 1.0f / static_cast<float>(k);
  if (type == "int8") {
    auto packed = random_tensor<3>(DType::i8, linear_int8::packed_extents(n, k), 0);
    auto sums = exec::OwnedTensor<1>::make(DType::i32, {n});
    auto scales = random_tensor<1>(DType::f32, {n}, scale / 127);
    if (!packed) return failure(std::move(packed.error()));
    if (!sums) return failure(std::move(sums.error()));
    if (!scales) return failure(std::move(scales.error()));
    // Sums of the rows, as packing would have left them: the kernels correct by them.
    const View<3>& w = packed->view();
    for (index o = 0; o < n; ++o) {
      std::int32_t sum = 0;
      for (index i = 0; i < k; ++i)
        sum += w.as<std::int8_t>()[offset(w, o / linear_int8::panel, i / linear_int8::group,
                                          o % linear_int8::panel * linear_int8::group + i % linear_int8::group)];
      sums->view().as<std::int32_t>()[o] = sum;
    }
    return exec::LinearWeight(n, exec::LinearWeight::Int8{std::move(*packed), std::move(*sums), std::move(*scales)});
  }
  if (type == "w4a16") {
    constexpr index group = 32;
    PackedW4 packed;
    packed.n = n;
    packed.k = packed.slots = k;
    packed.group = group;
    packed.codes = AlignedBytes(static_cast<std::size_t>(w4_panels(n) * w4_steps(k, 4) * 64));
    packed.scales = AlignedBytes(static_cast<std::size_t>(w4_panels(n) * w4_groups(k, group) * w4_panel) * sizeof(f16));
    fill(DType::u8, packed.codes.data(), static_cast<index>(packed.codes.size()), 0);
    fill(DType::f16, packed.scales.data(), static_cast<index>(packed.scales.size() / sizeof(f16)), scale / 8);
    return exec::LinearWeight(n, std::move(packed));
  }
  const DType dtype = type == "f32" ? DType::f32 : type == "f16" ? DType::f16 : DType::bf16;
  auto packed = random_tensor<3>(dtype, linear_packed_extents(n, k, dtype), scale);
  if (!packed) return failure(std::move(packed.error()));
  return exec::LinearWeight(n, exec::LinearWeight::Float{std::move(*packed)});
}

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
    config.rope.dim = shape.head_dim;
    config.rope.theta = shape.theta;
    config.tie_embeddings = shape.tied;
    config.qkv_bias = shape.qkv_bias;
    config.qk_norm = shape.qk_norm;
    return config;
  }
  return failure(StatusCode::not_found, "--shape is " + name + "; it must be one of " + known);
}

Expected<exec::Weights> random_weights(const exec::ModelConfig& config, const std::string& type) {
  exec::Weights weights;
  Status status;
  const auto keep = [&](Expected<exec::LinearWeight> made) -> exec::LinearWeight {
    if (!made) return status.ok() ? (status = std::move(made.error()), exec::LinearWeight()) : exec::LinearWeight();
    weights.linear_bytes += made->bytes();
    return std::move(*made);
  };
  const auto vector = [&](index n, float value) -> ConstView<1> {
    auto made = exec::OwnedTensor<1>::make(DType::f32, {n});
    if (!made) return status = std::move(made.error()), ConstView<1>();
    for (index i = 0; i < n; ++i) made->view().as<float>()[i] = value;
    weights.vectors.push_back(std::move(*made));
    return weights.vectors.back();
  };
  auto rope = exec::detail::frequencies(config.rope);
  if (!rope) return failure(std::move(rope.error()));
  weights.rope = std::move(*rope);
  auto table = random_tensor<2>(DType::f16, {config.vocab, config.dim}, 1);
  if (!table) return failure(std::move(table.error()));
  weights.tables.push_back(std::move(*table));
  weights.embedding = weights.tables.back();
  weights.head = keep(random_linear(config.vocab, config.dim, type));
  weights.output_norm = vector(config.dim, 1);
  const index q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  for (index layer = 0; layer < config.layers && status.ok(); ++layer) {
    exec::LayerWeights w;
    w.attn_norm = vector(config.dim, 1);
    w.ffn_norm = vector(config.dim, 1);
    if (config.qk_norm) w.q_norm = w.k_norm = vector(config.head_dim, 1);
    w.q = keep(random_linear(q, config.dim, type));
    w.k = keep(random_linear(kv, config.dim, type));
    w.v = keep(random_linear(kv, config.dim, type));
    if (config.qkv_bias) {
      w.q.bias = vector(q, 0);
      w.k.bias = w.v.bias = vector(kv, 0);
    }
    w.output = keep(random_linear(config.dim, q, type));
    w.gate = keep(random_linear(config.hidden, config.dim, type));
    w.up = keep(random_linear(config.hidden, config.dim, type));
    w.down = keep(random_linear(config.dim, config.hidden, type));
    weights.layers.push_back(std::move(w));
  }
  if (!status.ok()) return failure(std::move(status));
  return weights;
}

}  // namespace inlay::tools
