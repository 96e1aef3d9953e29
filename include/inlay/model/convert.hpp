// Writes any model that can be loaded as GGUF, quantized if asked for.
//
//   write_gguf(*load_model("dir"), "model.gguf", {.weights = WeightFormat::q8_0});
//
// The file's tensors are dropped from memory as they are written: write a ModelFile once.
// What is quantized: the matrices of the linears. Vectors become F32. Embeddings stay as they are,
// except that F32 ones become F16 when the linears get smaller than that.
#pragma once

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <inlay/model/check_model.hpp>
#include <inlay/model/gguf_writer.hpp>
#include <inlay/model/llama2c.hpp>
#include <inlay/model/load.hpp>

namespace inlay::exec {

// int8 is ours: an I8 tensor [n, k] and beside it "<name>.scale", F32 [n]; w = scale[n] * q.
enum class WeightFormat { keep, f32, f16, bf16, int8, q8_0, q4_0 };

// The names that `--quantize` takes; w4a16 is q4_0.
inline Expected<WeightFormat> parse_weight_format(std::string_view name) {
  constexpr std::pair<std::string_view, WeightFormat> table[] = {
      {"keep", WeightFormat::keep}, {"f32", WeightFormat::f32},   {"f16", WeightFormat::f16},
      {"bf16", WeightFormat::bf16}, {"int8", WeightFormat::int8}, {"q8_0", WeightFormat::q8_0},
      {"q4_0", WeightFormat::q4_0}, {"w4a16", WeightFormat::q4_0}};
  for (const auto& [each, format] : table)
    if (each == name) return format;
  return failure(StatusCode::invalid_argument,
                 "the weight format " + quote(name) + "; it must be keep, f32, f16, bf16, int8, q8_0, q4_0 or w4a16");
}

struct ConvertOptions {
  WeightFormat weights = WeightFormat::keep;
};

struct ConvertReport {
  index tensors = 0, bytes = 0;
  std::vector<std::string> notes = {};  // tensors that could not take the wanted format
};

namespace detail {

// Rows of a tensor as floats, I8 with its scale included.
inline void read_row(const WeightTensor& t, const WeightTensor* scales, index row, std::vector<float>& out) {
  const index k = t.extents[static_cast<std::size_t>(t.rank - 1)];
  out.resize(static_cast<std::size_t>(k));
  dequantize_row(t.type, t.data + row * ggml_row_bytes(t.type, k), k, out.data());
  if (!scales) return;
  float scale = 0;
  std::memcpy(&scale, scales->data + row * static_cast<index>(sizeof(float)), sizeof(float));
  for (float& x : out) x *= scale;
}

inline Status check_row(const std::vector<float>& row, GgmlType type, const std::string& name) {
  const float most = type == GgmlType::F16 ? 65504.0f : std::numeric_limits<float>::max();
  for (const float x : row)
    if (!(std::abs(x) <= most))
      return {StatusCode::corrupt_data, "the tensor " + quote(name) + " holds " + std::to_string(x) + ", which " +
                                            std::string(ggml_format(type).name) + " cannot hold"};
  return {};
}

// 127 steps on each side of zero, per row.
inline float int8_scale(const std::vector<float>& row) {
  float most = 0;
  for (const float x : row) most = std::max(most, std::abs(x));
  return most / 127;
}

inline void quantize_int8(const std::vector<float>& row, std::byte* out) {
  const float scale = int8_scale(row), inverse = scale > 0 ? 1 / scale : 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    // A denormal scale has an infinite inverse, and its products leave the range.
    const float steps =
        std::clamp(std::nearbyint(std::isfinite(inverse) ? row[i] * inverse : row[i] / scale), -127.0f, 127.0f);
    out[i] = static_cast<std::byte>(static_cast<std::int8_t>(steps));
  }
}

inline GgmlType target_type(const WeightTensor& t, WeightFormat format, std::vector<std::string>& notes) {
  const bool plain = !is_quantized(t.type) && t.type != GgmlType::I8;
  if (t.rank == 1) return GgmlType::F32;
  const bool embedding = t.name == "token_embd.weight";
  const index k = t.extents[1];
  switch (format) {
    case WeightFormat::keep: return t.type;
    case WeightFormat::f32: return GgmlType::F32;
    case WeightFormat::f16: return GgmlType::F16;
    case WeightFormat::bf16: return GgmlType::BF16;
    default: break;
  }
  if (embedding) return plain && t.type == GgmlType::F32 ? GgmlType::F16 : t.type;
  if (format == WeightFormat::int8) return GgmlType::I8;
  const GgmlType type = format == WeightFormat::q8_0 ? GgmlType::Q8_0 : GgmlType::Q4_0;
  if (k % ggml_format(type).block == 0) return type;
  notes.push_back(quote(t.name) + " stays F16: its rows of " + std::to_string(k) + " are no multiple of " +
                  std::to_string(ggml_format(type).block));
  return GgmlType::F16;
}

// Which row of a checkpoint with half pairing becomes row `r` of one with interleaved pairing.
inline index half_from_interleaved(index r, index head_dim) {
  const index head = r / head_dim, i = r % head_dim;
  return head * head_dim + (i % 2) * (head_dim / 2) + i / 2;
}

class GgufConversion {
 public:
  GgufConversion(const ModelFile& file, WeightFormat format) : file_(file), format_(format) {}

  Expected<ConvertReport> run(const std::string& path) {
    const ModelConfig& c = file_.config;
    arch_ = c.architecture == "mistral" ? "llama" : c.architecture;
    const bool interleaved = arch_ == "llama" || arch_ == "internlm2";
    permute_ = interleaved && c.rope.pairing == RopeConfig::Pairing::half;
    if (permute_ && (c.qk_norm || c.rope.dim != c.head_dim))
      return failure(StatusCode::unsupported,
                     file_.path + ": GGUF's " + arch_ + " has no form for QK norm or partial rope");
    if (!interleaved && c.rope.pairing != RopeConfig::Pairing::half)
      return failure(StatusCode::unsupported, file_.path + ": GGUF's " + arch_ + " has no form for interleaved rope");
    write_config(c);
    write_tokenizer(file_.tokenizer, c.vocab);
    for (const WeightTensor& tensor : file_.tensors()) add(tensor);
    if (!c.rope.freq_factors.empty() && !file_.find("rope_freqs.weight")) add_freq_factors(c.rope.freq_factors);
    if (Status status = writer_.write(path); !status) return failure(std::move(status));
    report_.bytes = writer_.tensor_bytes();
    return std::move(report_);
  }

 private:
  void write_config(const ModelConfig& c) {
    const auto key = [&](const char* name) { return arch_ + "." + name; };
    const auto number = [&](const char* name, index value) {
      writer_.set(key(name), static_cast<std::uint32_t>(value));
    };
    const auto real = [&](const char* name, double value) { writer_.set(key(name), static_cast<float>(value)); };
    writer_.set("general.architecture", arch_);
    writer_.set("general.name", c.name.empty() ? c.architecture : c.name);
    // llama.cpp's numbers for what most tensors are; int8 has none.
    constexpr std::pair<WeightFormat, std::uint32_t> types[] = {{WeightFormat::f32, 0},
                                                                {WeightFormat::f16, 1},
                                                                {WeightFormat::q4_0, 2},
                                                                {WeightFormat::q8_0, 7},
                                                                {WeightFormat::bf16, 32}};
    for (const auto& [format, number_of] : types)
      if (format == format_) writer_.set("general.file_type", number_of);
    writer_.set("general.quantization_version", std::uint32_t{2});
    number("context_length", c.context), number("embedding_length", c.dim), number("block_count", c.layers);
    number("feed_forward_length", c.hidden), number("vocab_size", c.vocab);
    number("attention.head_count", c.heads), number("attention.head_count_kv", c.kv_heads);
    number("attention.key_length", c.head_dim), number("attention.value_length", c.head_dim);
    if (c.sliding_window > 0) number("attention.sliding_window", c.sliding_window);
    real("attention.layer_norm_rms_epsilon", c.rms_eps);
    number("rope.dimension_count", c.rope.dim);
    real("rope.freq_base", c.rope.theta);
    const bool yarn = c.rope.scaling == RopeConfig::Scaling::yarn;
    if (!yarn && c.rope.scaling != RopeConfig::Scaling::linear) return;
    writer_.set(key("rope.scaling.type"), yarn ? "yarn" : "linear");
    real("rope.scaling.factor", c.rope.factor);
    if (!yarn) return;
    number("rope.scaling.original_context_length", c.rope.original_context);
    real("rope.scaling.yarn_beta_fast", c.rope.beta_fast), real("rope.scaling.yarn_beta_slow", c.rope.beta_slow);
    real("rope.scaling.attn_factor", c.rope.attention_factor / (0.1 * std::log(c.rope.factor) + 1));
  }

  void write_tokenizer(const TokenizerData& t, index vocab) {
    if (t.kind == TokenizerData::Kind::none) return writer_.set("tokenizer.ggml.model", "none");
    const bool spm = t.kind == TokenizerData::Kind::spm;
    writer_.set("tokenizer.ggml.model", spm ? "llama" : "gpt2");
    writer_.set("tokenizer.ggml.pre", t.pre.empty() ? "default" : t.pre);
    // Readers take the count of tokens for the rows of the embedding: padding rows get a name.
    std::vector<std::string_view> tokens = t.tokens;
    std::vector<std::int32_t> types;
    for (const auto type : t.types) types.push_back(static_cast<std::int32_t>(type));
    std::vector<std::string> names;
    for (index i = static_cast<index>(tokens.size()); i < vocab; ++i) names.push_back("[PAD" + std::to_string(i) + "]");
    for (const std::string& name : names)
      tokens.push_back(name), types.push_back(static_cast<std::int32_t>(TokenizerData::TokenType::unused));
    writer_.set("tokenizer.ggml.tokens", std::span<const std::string_view>(tokens));
    writer_.set("tokenizer.ggml.token_type", std::span<const std::int32_t>(types));
    if (spm) {
      std::vector<float> scores = t.scores;
      scores.resize(tokens.size(), -1e4f);
      writer_.set("tokenizer.ggml.scores", std::span<const float>(scores));
      writer_.set("tokenizer.ggml.remove_extra_whitespaces", t.remove_extra_spaces);
    } else {
      writer_.set("tokenizer.ggml.merges", std::span<const std::string_view>(t.merges));
      // The format has no keys for these. Other readers go by the name of the pre-tokenizer.
      writer_.set("inlay.tokenizer.ignore_merges", t.ignore_merges);
      writer_.set("inlay.tokenizer.nfc", t.nfc);
      if (!t.normalized.empty())
        writer_.set("inlay.tokenizer.normalized", std::span<const std::int32_t>(t.normalized));
    }
    const auto id = [&](const char* key, std::int32_t value) {
      if (value >= 0) writer_.set(key, static_cast<std::uint32_t>(value));
    };
    id("tokenizer.ggml.bos_token_id", t.bos), id("tokenizer.ggml.eos_token_id", t.eos);
    id("tokenizer.ggml.unknown_token_id", t.unknown), id("tokenizer.ggml.padding_token_id", t.padding);
    id("tokenizer.ggml.eot_token_id", t.end_of_turn);
    writer_.set("tokenizer.ggml.add_bos_token", t.add_bos);
    writer_.set("tokenizer.ggml.add_eos_token", t.add_eos);
    writer_.set("tokenizer.ggml.add_space_prefix", t.add_space_prefix);
    if (!t.chat_template.empty()) writer_.set("tokenizer.chat_template", t.chat_template);
  }

  void add(const WeightTensor& tensor) {
    // Scales are written beside the I8 tensor that they belong to.
    constexpr std::string_view scale = ".scale";
    if (tensor.name.ends_with(scale))
      if (const WeightTensor* owner = file_.find(tensor.name.substr(0, tensor.name.size() - scale.size()));
          owner && owner->type == GgmlType::I8)
        return;
    const GgmlType type = target_type(tensor, format_, report_.notes);
    const std::span<const index> extents(tensor.extents.data(), static_cast<std::size_t>(tensor.rank));
    ++report_.tensors;
    writer_.tensor(tensor.name, type, extents,
                   [this, &tensor, type](index row, std::byte* out) { return convert_row(tensor, type, row, out); });
    if (type != GgmlType::I8) return;
    ++report_.tensors;
    writer_.tensor(tensor.name + std::string(scale), GgmlType::F32, std::span(extents.data(), 1),
                   [this, &tensor](index, std::byte* out) {
                     for (index row = 0; row < tensor.extents[0]; ++row) {
                       if (const WeightTensor* scales = file_.scales_of(tensor)) {
                         std::memcpy(out + row * 4, scales->data + source_row(tensor, row) * 4, 4);
                         continue;
                       }
                       read_row(tensor, nullptr, source_row(tensor, row), floats_);
                       const float value = int8_scale(floats_);
                       std::memcpy(out + row * 4, &value, sizeof(value));
                     }
                     file_.drop(tensor);
                     return Status{};
                   });
  }

  void add_freq_factors(const std::vector<float>& factors) {
    const index count = static_cast<index>(factors.size());
    ++report_.tensors;
    writer_.tensor("rope_freqs.weight", GgmlType::F32, std::span(&count, 1), [&factors](index, std::byte* out) {
      std::memcpy(out, factors.data(), factors.size() * sizeof(float));
      return Status{};
    });
  }

  // A vector is one row: its elements are permuted where a matrix permutes rows.
  index source_row(const WeightTensor& tensor, index row) const {
    return permuted(tensor) ? half_from_interleaved(row, file_.config.head_dim) : row;
  }
  bool permuted(const WeightTensor& tensor) const {
    const std::string_view name = tensor.name;
    return permute_ && (name.ends_with(".attn_q.weight") || name.ends_with(".attn_k.weight") ||
                        name.ends_with(".attn_q.bias") || name.ends_with(".attn_k.bias"));
  }

  Status convert_row(const WeightTensor& tensor, GgmlType type, index row, std::byte* out) {
    const index k = tensor.extents[static_cast<std::size_t>(tensor.rank - 1)];
    const index from = tensor.rank == 1 ? row : source_row(tensor, row);
    const bool vector_permuted = tensor.rank == 1 && permuted(tensor);
    if (type == tensor.type && !vector_permuted) {
      const index bytes = ggml_row_bytes(type, k);
      std::memcpy(out, tensor.data + from * bytes, static_cast<std::size_t>(bytes));
    } else {
      read_row(tensor, file_.scales_of(tensor), from, floats_);
      if (vector_permuted) {
        std::vector<float> turned(floats_.size());
        for (index i = 0; i < k; ++i)
          turned[static_cast<std::size_t>(i)] = floats_[static_cast<std::size_t>(source_row(tensor, i))];
        floats_ = std::move(turned);
      }
      if (Status status = check_row(floats_, type, tensor.name); !status) return status;
      if (type == GgmlType::I8)
        quantize_int8(floats_, out);
      else
        quantize_row(type, floats_.data(), k, out);
    }
    // An I8 tensor is read once more, for its scales.
    if (row + 1 == tensor.size() / k && type != GgmlType::I8) file_.drop(tensor);
    return {};
  }

  const ModelFile& file_;
  WeightFormat format_;
  std::string arch_;
  bool permute_ = false;  // q and k from half to interleaved pairing
  GgufWriter writer_;
  ConvertReport report_;
  std::vector<float> floats_;
};

}  // namespace detail

inline Expected<ConvertReport> write_gguf(const ModelFile& file, const std::string& path,
                                          const ConvertOptions& options = {}) {
  return detail::GgufConversion(file, options.weights).run(path);
}

// GGUF, .safetensors or a Hugging Face directory to GGUF.
inline Expected<ConvertReport> convert(const std::string& in, const std::string& out,
                                       const ConvertOptions& options = {}) {
  auto file = load_model(in);
  if (!file) return failure(std::move(file.error()));
  return write_gguf(*file, out, options);
}

inline Expected<ConvertReport> convert_llama2c(const std::string& bin, const std::string& tokenizer,
                                               const std::string& out, const ConvertOptions& options = {}) {
  auto file = load_llama2c(bin, tokenizer);
  if (!file) return failure(std::move(file.error()));
  return write_gguf(*file, out, options);
}

}  // namespace inlay::exec
