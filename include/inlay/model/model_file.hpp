// What a model file says, whatever its format: a configuration, tensors by name, a vocabulary.
//
//   Expected<ModelFile> file = load_model("model.gguf");              // inlay/model/load.hpp; also a .safetensors file
//                                                                     // or a directory of them with config.json
//   const WeightTensor* q = file->find("blk.0.attn_q.weight");        // [heads * head_dim, dim]
//   ... pack q ...
//   file->drop(*q);                                                   // its pages leave memory
//
// Names are GGUF's (docs/model_files.md lists them); load_model has checked that all that the
// configuration needs are there with the right extents. Tensors point into the mapped file.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/quantization.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>
#include <inlay/model/mapped_file.hpp>
#include <inlay/text/vocabulary.hpp>

namespace inlay::exec {

// The element type of a tensor that is not made of blocks.
constexpr std::optional<DType> plain_dtype(GgmlType type) {
  switch (type) {
    case GgmlType::F32: return DType::f32;
    case GgmlType::F16: return DType::f16;
    case GgmlType::BF16: return DType::bf16;
    case GgmlType::I8: return DType::i8;
    default: return std::nullopt;
  }
}

// What a weight may be stored as.
constexpr bool is_weight_type(GgmlType type) { return plain_dtype(type) || is_quantized(type); }

struct WeightTensor {
  std::string name = {};
  GgmlType type = GgmlType::F32;
  int rank = 0;                     // 1..4
  std::array<index, 4> extents{};   // row-major, innermost last: a linear's weight is {n, k}
  const std::byte* data = nullptr;  // aligned to its elements; blocks have no alignment
  index bytes = 0;

  std::optional<DType> dtype() const { return plain_dtype(type); }
  index size() const {
    index product = 1;
    for (int d = 0; d < rank; ++d) product *= extents[d];
    return product;
  }
  // Only for types that have a dtype().
  ConstView<2> matrix() const { return {data, *dtype(), {extents[0], extents[1]}}; }
  ConstView<1> vector() const { return {data, *dtype(), {extents[0]}}; }
};

struct RopeConfig {
  // Which elements of a head turn together: (2i, 2i + 1) or (i, i + dim / 2).
  enum class Pairing { interleaved, half };
  enum class Scaling {
    none,
    linear,        // position / factor
    yarn,          // factor, original_context, beta_fast, beta_slow, attention_factor
    llama3,        // factor, original_context, low_freq_factor, high_freq_factor
    freq_factors,  // frequency i is divided by freq_factors[i]
  };
  Pairing pairing = Pairing::half;
  index dim = 0;  // the first `dim` elements of each head turn
  double theta = 10000;
  Scaling scaling = Scaling::none;
  double factor = 1;
  index original_context = 0;
  double low_freq_factor = 1, high_freq_factor = 4;
  double beta_fast = 32, beta_slow = 1;
  double attention_factor = 1;           // multiplies cos and sin; already 0.1 ln(factor) + 1 for plain YaRN
  std::vector<float> freq_factors = {};  // [dim / 2], also filled for llama3 (the same thing in numbers)
};

struct ModelConfig {
  std::string architecture = {};  // "llama" "mistral" "qwen2" "qwen3" "internlm2"
  std::string name = {};
  index layers = 0, dim = 0, heads = 0, kv_heads = 0, head_dim = 0, hidden = 0, vocab = 0, context = 0;
  index sliding_window = 0;  // keys seen back from a query, itself included; 0: all
  double rms_eps = 1e-5;
  RopeConfig rope = {};
  bool tie_embeddings = false;  // there is no output.weight: token_embd.weight is the head
  bool qkv_bias = false;        // attn_q.bias, attn_k.bias, attn_v.bias
  bool output_bias = false;     // attn_output.bias
  bool qk_norm = false;         // attn_q_norm.weight, attn_k_norm.weight of [head_dim]
};

class ModelFile {
 public:
  ModelConfig config;
  TokenizerData tokenizer;  // Kind::none where the file has none
  std::string path;

  // Sorted by name.
  std::span<const WeightTensor> tensors() const { return tensors_; }

  const WeightTensor* find(std::string_view name) const {
    const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                     [](const WeightTensor& t, std::string_view n) { return t.name < n; });
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
  }

  // The f32 [n] scales of an int8 weight, null for other types.
  const WeightTensor* scales_of(const WeightTensor& weight) const {
    return weight.type == GgmlType::I8 ? find(weight.name + ".scale") : nullptr;
  }

  // Gives a tensor's pages back once it was packed. Reading it again is slow at best: do not.
  void drop(const WeightTensor& tensor) const {
    for (const auto& mapping : memory_)
      if (mapping->borrowed() && std::less_equal<>{}(mapping->data(), tensor.data) &&
          std::less<>{}(tensor.data, mapping->data() + mapping->size()))
        return;  // not ours to give back
    drop_pages(tensor.data, static_cast<std::size_t>(tensor.bytes));
  }

  // All weights together.
  index bytes() const {
    index sum = 0;
    for (const WeightTensor& t : tensors_) sum += t.bytes;
    return sum;
  }

  // For loaders: the tensors and what keeps their memory.
  void set_tensors(std::vector<WeightTensor> tensors, std::vector<std::shared_ptr<const Mapping>> memory) {
    std::sort(tensors.begin(), tensors.end(),
              [](const WeightTensor& a, const WeightTensor& b) { return a.name < b.name; });
    tensors_ = std::move(tensors);
    memory_ = std::move(memory);
  }

 private:
  std::vector<WeightTensor> tensors_;
  std::vector<std::shared_ptr<const Mapping>> memory_;
};

}  // namespace inlay::exec
