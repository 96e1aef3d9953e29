// What the metadata of a GGUF file mean: configuration and vocabulary.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include <inlay/model/check_model.hpp>
#include <inlay/model/gguf.hpp>
#include <inlay/text/pre_tokenizer.hpp>

namespace inlay::exec {

// Typed access. The first failure is kept and later calls do nothing, so that a reader is a list of wishes.
class GgufMetadata {
 public:
  explicit GgufMetadata(const GgufFile& file) : file_(file) {}

  Status take_status() { return std::move(status_); }
  bool ok() const { return status_.ok(); }

  void fail(StatusCode code, const std::string& what) {
    if (status_) status_ = Status(code, file_.origin() + ": " + what);
  }

  // Any integer type; an array counts where all its elements are equal (per-layer values of a uniform model).
  bool integer(const std::string& key, index& out, bool required) {
    const GgufValue* value = lookup(key, required);
    if (!value) return false;
    if (value->type == GgufType::array) {
      index first = 0;
      for (std::uint64_t i = 0; i < value->count; ++i) {
        index each = 0;
        if (!integer_at(*value, value->element, i, each)) return wrong(key, "integer");
        if (i == 0) first = each;
        if (each != first) {
          fail(StatusCode::unsupported, "key " + quote(key) + " differs between layers");
          return false;
        }
      }
      if (value->count == 0) return wrong(key, "integer");
      out = first;
      return true;
    }
    return integer_at(*value, value->type, 0, out) || wrong(key, "integer");
  }

  bool number(const std::string& key, double& out, bool required) {
    const GgufValue* value = lookup(key, required);
    if (!value) return false;
    if (value->type == GgufType::f32) return out = static_cast<double>(value->read<float>()), true;
    if (value->type == GgufType::f64) return out = value->read<double>(), true;
    return wrong(key, "floating-point number");
  }

  bool text(const std::string& key, std::string& out, bool required) {
    const GgufValue* value = lookup(key, required);
    if (!value) return false;
    if (value->type != GgufType::string) return wrong(key, "string");
    out = value->text();
    return true;
  }

  bool boolean(const std::string& key, bool& out) {
    const GgufValue* value = lookup(key, false);
    if (!value) return false;
    if (value->type != GgufType::boolean) return wrong(key, "boolean");
    out = value->read<std::uint8_t>() != 0;
    return true;
  }

  bool strings(const std::string& key, std::vector<std::string_view>& out, bool required) {
    const GgufValue* value = lookup(key, required);
    if (!value) return false;
    if (value->type != GgufType::array || value->element != GgufType::string) return wrong(key, "array of strings");
    GgufCursor cursor(value->bytes);
    out.resize(static_cast<std::size_t>(value->count));
    for (std::string_view& each : out) cursor.read_string(each);  // walked before, cannot fail
    return true;
  }

  template <class T> bool array(const std::string& key, GgufType element, std::vector<T>& out) {
    const GgufValue* value = lookup(key, false);
    if (!value) return false;
    if (value->type != GgufType::array || value->element != element) return wrong(key, "array of the right type");
    out.resize(static_cast<std::size_t>(value->count));
    if (!out.empty()) std::memcpy(out.data(), value->bytes.data(), value->bytes.size());
    return true;
  }

 private:
  const GgufValue* lookup(const std::string& key, bool required) {
    if (!status_) return nullptr;
    const GgufValue* value = file_.find(key);
    if (!value && required) fail(StatusCode::not_found, "the key " + quote(key) + " is missing");
    return value;
  }
  bool wrong(const std::string& key, const char* kind) {
    fail(StatusCode::corrupt_data, "the key " + quote(key) + " is no " + kind);
    return false;
  }
  static bool integer_at(const GgufValue& value, GgufType type, std::uint64_t i, index& out) {
    const auto k = static_cast<std::size_t>(i);
    switch (type) {
      case GgufType::u8: out = value.read<std::uint8_t>(k); return true;
      case GgufType::i8: out = value.read<std::int8_t>(k); return true;
      case GgufType::u16: out = value.read<std::uint16_t>(k); return true;
      case GgufType::i16: out = value.read<std::int16_t>(k); return true;
      case GgufType::u32: out = value.read<std::uint32_t>(k); return true;
      case GgufType::i32: out = value.read<std::int32_t>(k); return true;
      case GgufType::u64:
        out = static_cast<index>(value.read<std::uint64_t>(k));
        return true;  // a huge one is negative
      case GgufType::i64: out = value.read<std::int64_t>(k); return true;
      default: return false;
    }
  }

  const GgufFile& file_;
  Status status_;
};

namespace detail {

inline void read_gguf_rope(const GgufFile& file, GgufMetadata& meta, const std::string& arch, ModelConfig& c) {
  RopeConfig& rope = c.rope;
  // Converters permute q and k of these architectures to pairs of neighbours; the others keep halves.
  const bool interleaved = arch == "llama" || arch == "internlm2";
  rope.pairing = interleaved ? RopeConfig::Pairing::interleaved : RopeConfig::Pairing::half;
  rope.dim = c.head_dim;
  meta.integer(arch + ".rope.dimension_count", rope.dim, false);
  meta.number(arch + ".rope.freq_base", rope.theta, false);
  std::string type = "none";
  meta.text(arch + ".rope.scaling.type", type, false);
  if (meta.number(arch + ".rope.scaling.factor", rope.factor, false) ||
      meta.number(arch + ".rope.scale_linear", rope.factor, false))
    if (!file.find(arch + ".rope.scaling.type")) type = "linear";  // files older than the type
  if (type == "linear") {
    rope.scaling = rope.factor == 1 ? RopeConfig::Scaling::none : RopeConfig::Scaling::linear;
  } else if (type == "yarn") {
    rope.scaling = RopeConfig::Scaling::yarn;
    rope.original_context = c.context;
    meta.integer(arch + ".rope.scaling.original_context_length", rope.original_context, false);
    meta.number(arch + ".rope.scaling.yarn_beta_fast", rope.beta_fast, false);
    meta.number(arch + ".rope.scaling.yarn_beta_slow", rope.beta_slow, false);
    double attention = 1;
    meta.number(arch + ".rope.scaling.attn_factor", attention, false);
    rope.attention_factor = attention * (0.1 * std::log(rope.factor) + 1);
  } else if (type != "none") {
    meta.fail(StatusCode::unsupported, "rope scaling " + quote(type) + "; it must be none, linear or yarn");
  }
  for (const WeightTensor& tensor : file.tensors()) {
    if (tensor.name != "rope_freqs.weight") continue;
    if (tensor.type != GgmlType::F32 || tensor.rank != 1)
      return meta.fail(StatusCode::corrupt_data, "the tensor 'rope_freqs.weight' is no vector of F32");
    if (rope.scaling != RopeConfig::Scaling::none)
      return meta.fail(StatusCode::unsupported, "rope scaling " + quote(type) + " together with 'rope_freqs.weight'");
    rope.scaling = RopeConfig::Scaling::freq_factors;
    rope.freq_factors.resize(static_cast<std::size_t>(tensor.extents[0]));
    std::memcpy(rope.freq_factors.data(), tensor.data, static_cast<std::size_t>(tensor.bytes));
  }
}

}  // namespace detail

inline Expected<ModelConfig> gguf_config(const GgufFile& file) {
  GgufMetadata meta(file);
  ModelConfig c;
  meta.text("general.architecture", c.architecture, true);
  meta.text("general.name", c.name, false);
  const std::string& arch = c.architecture;
  if (meta.ok() && arch != "llama" && arch != "qwen2" && arch != "qwen3" && arch != "internlm2")
    meta.fail(StatusCode::unsupported,
              "the architecture " + quote(arch) + "; it must be llama, qwen2, qwen3 or internlm2");
  if (index experts = 0; meta.integer(arch + ".expert_count", experts, false) && experts > 0)
    meta.fail(StatusCode::unsupported,
              "the architecture " + quote(arch) + " with " + std::to_string(experts) + " experts; it must have none");
  meta.integer(arch + ".block_count", c.layers, true);
  meta.integer(arch + ".embedding_length", c.dim, true);
  meta.integer(arch + ".feed_forward_length", c.hidden, true);
  meta.integer(arch + ".context_length", c.context, true);
  meta.integer(arch + ".attention.head_count", c.heads, true);
  c.kv_heads = c.heads;
  meta.integer(arch + ".attention.head_count_kv", c.kv_heads, false);
  meta.number(arch + ".attention.layer_norm_rms_epsilon", c.rms_eps, true);
  meta.integer(arch + ".attention.sliding_window", c.sliding_window, false);
  if (meta.ok() && (c.heads < 1 || c.dim < 1))
    meta.fail(StatusCode::corrupt_data, "the head count and the embedding length must be positive");
  if (meta.ok()) c.head_dim = c.dim / c.heads;
  meta.integer(arch + ".attention.key_length", c.head_dim, false);
  if (index value = c.head_dim; meta.integer(arch + ".attention.value_length", value, false) && value != c.head_dim)
    meta.fail(StatusCode::unsupported, "value heads of another length than key heads");
  detail::read_gguf_rope(file, meta, arch, c);
  c.tie_embeddings = true;
  for (const WeightTensor& tensor : file.tensors()) {
    if (tensor.name == "token_embd.weight" && tensor.rank == 2) c.vocab = tensor.extents[0];
    if (tensor.name == "output.weight") c.tie_embeddings = false;
    if (tensor.name == "blk.0.attn_q.bias") c.qkv_bias = true;
    if (tensor.name == "blk.0.attn_output.bias") c.output_bias = true;
    if (tensor.name == "blk.0.attn_q_norm.weight") c.qk_norm = true;
  }
  if (meta.ok() && c.vocab == 0) meta.fail(StatusCode::not_found, "the matrix 'token_embd.weight' is missing");
  if (arch == "qwen2") c.qkv_bias = true;
  if (arch == "qwen3") c.qk_norm = true;
  if (Status status = meta.take_status(); !status) return failure(std::move(status));
  return c;
}

// Also of files that are nothing but a vocabulary, of any architecture.
inline Expected<TokenizerData> gguf_tokenizer(const GgufFile& file) {
  GgufMetadata meta(file);
  TokenizerData t;
  std::string model;
  if (!meta.text("tokenizer.ggml.model", model, false) || model == "none" || model == "no_vocab") {
    if (Status status = meta.take_status(); !status) return failure(std::move(status));
    return t;
  }
  if (model == "llama") {
    t.kind = TokenizerData::Kind::spm;
    t.add_bos = t.add_space_prefix = true;
  } else if (model == "gpt2") {
    t.kind = TokenizerData::Kind::bpe;
    std::string pre = "default";
    meta.text("tokenizer.ggml.pre", pre, false);
    set_pre_tokenizer(t, pre);
  } else {
    meta.fail(StatusCode::unsupported, "the tokenizer " + quote(model) + "; it must be llama (SPM) or gpt2 (BPE)");
  }
  const bool spm = t.kind == TokenizerData::Kind::spm;
  meta.strings("tokenizer.ggml.tokens", t.tokens, true);
  if (!spm) meta.strings("tokenizer.ggml.merges", t.merges, true);
  if (spm && !meta.array("tokenizer.ggml.scores", GgufType::f32, t.scores))
    meta.fail(StatusCode::not_found, "the key 'tokenizer.ggml.scores' is missing");
  std::vector<std::int32_t> types;
  if (!meta.array("tokenizer.ggml.token_type", GgufType::i32, types)) types.assign(t.tokens.size(), 1);
  for (const std::int32_t type : types) {
    if (type < 1 || type > 6) {
      meta.fail(StatusCode::corrupt_data, "a token has the type " + std::to_string(type) + "; it must be 1 to 6");
      break;
    }
    t.types.push_back(static_cast<TokenizerData::TokenType>(type));
  }
  const std::size_t count = t.tokens.size();
  if (meta.ok() && (count == 0 || t.types.size() != count || (spm && t.scores.size() != count)))
    meta.fail(StatusCode::corrupt_data, "the vocabulary has " + std::to_string(count) + " tokens, " +
                                            std::to_string(t.scores.size()) + " scores and " +
                                            std::to_string(types.size()) + " types");
  const auto id = [&](const char* key, std::int32_t& out) {
    index value = 0;
    if (!meta.integer(key, value, false)) return;
    if (value == -1 || value == 0xffffffff) return;  // how some files write "none"
    if (value < 0 || value >= static_cast<index>(count))
      return meta.fail(StatusCode::corrupt_data, std::string(key) + " is " + std::to_string(value) +
                                                     "; the vocabulary has " + std::to_string(count) + " tokens");
    out = static_cast<std::int32_t>(value);
  };
  if (spm) t.bos = count > 1 ? 1 : TokenizerData::no_token, t.eos = count > 2 ? 2 : TokenizerData::no_token;
  id("tokenizer.ggml.bos_token_id", t.bos), id("tokenizer.ggml.eos_token_id", t.eos);
  id("tokenizer.ggml.unknown_token_id", t.unknown), id("tokenizer.ggml.padding_token_id", t.padding);
  id("tokenizer.ggml.eot_token_id", t.end_of_turn);
  meta.boolean("tokenizer.ggml.add_bos_token", t.add_bos);
  meta.boolean("tokenizer.ggml.add_eos_token", t.add_eos);
  meta.boolean("tokenizer.ggml.add_space_prefix", t.add_space_prefix);
  meta.boolean("tokenizer.ggml.remove_extra_whitespaces", t.remove_extra_spaces);
  // The format has no keys for these: ours (convert.hpp), or what goes with the name of the pre-tokenizer.
  meta.boolean("inlay.tokenizer.ignore_merges", t.ignore_merges);
  meta.boolean("inlay.tokenizer.nfc", t.nfc);
  meta.array("inlay.tokenizer.normalized", GgufType::i32, t.normalized);
  meta.text("tokenizer.chat_template", t.chat_template, false);
  t.text.push_back(file.mapping());
  if (Status status = meta.take_status(); !status) return failure(std::move(status));
  return t;
}

inline Expected<ModelFile> gguf_model(const GgufFile& file) {
  auto config = gguf_config(file);
  if (!config) return failure(std::move(config.error()));
  auto tokenizer = gguf_tokenizer(file);
  if (!tokenizer) return failure(std::move(tokenizer.error()));
  ModelFile model;
  model.path = file.origin();
  model.config = std::move(*config);
  model.tokenizer = std::move(*tokenizer);
  model.set_tensors(file.tensors(), {file.mapping()});
  if (Status status = check_model(model); !status) return failure(std::move(status));
  return model;
}

}  // namespace inlay::exec
