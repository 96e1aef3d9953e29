#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <span>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/checkpoint_codes.hpp>
#include <inlay/model/convert.hpp>
#include <inlay/model/load.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/family.hpp"
#include "executor/model/gguf/config.hpp"
#include "executor/model/gguf/names.hpp"
#include "executor/model/gguf/vocabulary.hpp"
#include "executor/model/gguf/writer.hpp"

namespace inlay::exec {

namespace {

// That what was written of a row is finite: an element, or the scale of its block, may lie beyond the type's range.
Status check_row(const std::vector<float>& row, GgmlType type, const std::byte* written, std::vector<float>& read,
                 const std::string& tensor, index number) {
  read.resize(row.size());
  const auto refuse = [&](std::size_t i) -> Status {
    char value[32];
    std::snprintf(value, sizeof(value), "%g", static_cast<double>(row[i]));
    return {StatusCode::corrupt_data, "the tensor " + quote(tensor) + " holds " + value + " in row " +
                                          std::to_string(number) + ", which " + std::string(ggml_format(type).name) +
                                          " cannot hold"};
  };
  for (std::size_t i = 0; i < row.size(); ++i)
    if (!std::isfinite(row[i])) return refuse(i);
  if (type == GgmlType::I8) return {};  // whose scales are f32
  dequantize_row(type, written, static_cast<index>(row.size()), read.data());
  // Of a block it is the largest one.
  const auto block = static_cast<std::size_t>(ggml_format(type).block);
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::isfinite(read[i])) continue;
    const auto begin = row.begin() + static_cast<std::ptrdiff_t>(i / block * block);
    const auto below = [](float a, float b) { return std::abs(a) < std::abs(b); };
    const auto largest = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(block), below);
    return refuse(static_cast<std::size_t>(largest - row.begin()));
  }
  return {};
}

// 127 steps on each side of zero, per row.
float int8_scale(const std::vector<float>& row) {
  float most = 0;
  for (const float x : row) most = std::max(most, std::abs(x));
  return most / 127;
}

void quantize_int8(const std::vector<float>& row, std::byte* out) {
  const float scale = int8_scale(row), inverse = scale > 0 ? 1 / scale : 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    // A denormal scale has an infinite inverse, and its products leave the range.
    const float steps =
        std::clamp(std::nearbyint(std::isfinite(inverse) ? row[i] * inverse : row[i] / scale), -127.0f, 127.0f);
    out[i] = static_cast<std::byte>(static_cast<std::int8_t>(steps));
  }
}

GgmlType target_type(const WeightTensor& t, const TensorFacts& facts, WeightFormat format,
                     std::vector<std::string>& notes) {
  const bool plain = !is_quantized(t.type) && t.type != GgmlType::I8;
  if (facts.is_vector()) return GgmlType::F32;
  const index k = t.row_size();
  if (facts.part == Part::router && format != WeightFormat::keep) return GgmlType::F32;  // which decides, and is small
  switch (format) {
    case WeightFormat::keep:
      if (const std::string codes = t.code_format(); !codes.empty())
        notes.push_back(quote(t.name) + " becomes F16: GGUF has no form for " + codes);
      return t.type;
    case WeightFormat::f32: return GgmlType::F32;
    case WeightFormat::f16: return GgmlType::F16;
    case WeightFormat::bf16: return GgmlType::BF16;
    default: break;
  }
  if (facts.part == Part::embedding || facts.part == Part::layer_inputs_embedding)
    return plain && t.type == GgmlType::F32 ? GgmlType::F16 : t.type;
  if (format == WeightFormat::int8) return GgmlType::I8;
  const GgmlType type = format == WeightFormat::q8_0 ? GgmlType::Q8_0 : GgmlType::Q4_0;
  if (k % ggml_format(type).block == 0) return type;
  notes.push_back(quote(t.name) + " stays F16: its rows of " + std::to_string(k) + " are no multiple of " +
                  std::to_string(ggml_format(type).block));
  return GgmlType::F16;
}

// Which row of a checkpoint with half pairing becomes row `r` of one with interleaved pairing.
index half_from_interleaved(index r, index head_dim) {
  const index head = r / head_dim, i = r % head_dim;
  return head * head_dim + (i % 2) * (head_dim / 2) + i / 2;
}

class GgufConversion {
 public:
  GgufConversion(const ModelFile& file, WeightFormat format) : file_(file), format_(format) {}

  Expected<ConvertReport> run(const std::string& path) {
    const ModelConfig& c = file_.config;
    if (Status status = check_model(file_); !status) return failure(std::move(status));
    if (Status status = check_form(); !status) return failure(std::move(status));
    if (Status status = write_gguf_config(c, file_.path, writer_); !status) return failure(std::move(status));
    if (Status status = check_gguf_config(c, file_.path, writer_); !status) return failure(std::move(status));
    if (std::any_of(c.ropes.begin(), c.ropes.end(), [](const RopeConfig& rope) { return !rope.truncate; }))
      report_.notes.push_back(
          "that YaRN's ramp is not truncated stands in a key of Inlay's: other readers truncate it");
    if (c.experts.count > 0 && c.experts.renormalize != family_of(c.architecture)->mixture.gguf_renormalize)
      report_.notes.push_back(std::string("that the weights of experts are ") + (c.experts.renormalize ? "" : "not ") +
                              "renormalized stands in the key expert_weights_norm: some readers do not ask it");
    write_file_type();
    write_gguf_vocabulary(file_.tokenizer, c.vocab, writer_);
    Status status = for_each_tensor(c, [&](const TensorFacts& facts) {
      if (facts.part == Part::rope_factors) return add_factors(facts, rope_factors(false)), Status{};
      if (facts.part == Part::rope_short) return add_factors(facts, rope_factors(true)), Status{};
      if (facts.part == Part::rope_long) return add_factors(facts, file_.config.ropes[0].long_factors), Status{};
      return add(in_file(*file_.find(facts.name), facts.part), facts), Status{};
    });
    if (status) status = writer_.write(path);
    if (!status) return failure(std::move(status));
    report_.bytes = writer_.tensor_bytes();
    return std::move(report_);
  }

 private:
  // Rows of q and k go over to the pairing that the architecture has in GGUF.
  Status check_form() {
    const ModelConfig& c = file_.config;
    const Family* family = family_of(c.architecture);
    if (!family || family->gguf.empty() || family->gguf_read_only)
      return {StatusCode::unsupported,
              file_.path + ": models of the architecture " + quote(c.architecture) + " are not written as GGUF"};
    using enum RopeConfig::Pairing;
    const std::string arch(family->gguf);
    const RopeConfig& rope = c.ropes[0];
    permute_ = family->gguf_pairing == interleaved && rope.pairing == half;
    if (permute_ && (c.qk_norm != QkNorm::none || rope.dim != c.head_dim))
      return {StatusCode::unsupported, file_.path + ": GGUF's " + arch + " has no form for QK norm or partial rope"};
    if (!permute_ && family->gguf_pairing != rope.pairing)
      return {StatusCode::unsupported, file_.path + ": GGUF's " + arch + " has no form for interleaved rope"};
    return {};
  }

  // llama.cpp's numbers for what most tensors are; int8 has none.
  void write_file_type() {
    constexpr std::pair<WeightFormat, std::uint32_t> types[] = {{WeightFormat::f32, 0},
                                                                {WeightFormat::f16, 1},
                                                                {WeightFormat::q4_0, 2},
                                                                {WeightFormat::q8_0, 7},
                                                                {WeightFormat::bf16, 32}};
    for (const auto& [format, number] : types)
      if (format == format_) writer_.set("general.file_type", number);
    writer_.set("general.quantization_version", std::uint32_t{2});
  }

  // What flatten_head_norm made a vector of, as it was.
  const WeightTensor& in_file(const WeightTensor& tensor, Part part) {
    const ModelConfig& c = file_.config;
    if (c.qk_norm != QkNorm::each_head || (part != Part::q_norm && part != Part::k_norm)) return tensor;
    WeightTensor& matrix = matrices_.emplace_back(tensor);
    matrix.rank = 2, matrix.extents = {tensor.size() / c.head_dim, c.head_dim};
    return matrix;
  }

  void add(const WeightTensor& tensor, const TensorFacts& facts) {
    const Part part = facts.part;
    const bool permuted =
        permute_ && (part == Part::q || part == Part::k || part == Part::q_bias || part == Part::k_bias);
    const GgmlType type = target_type(tensor, facts, format_, report_.notes);
    const std::span<const index> extents(tensor.extents.data(), static_cast<std::size_t>(tensor.rank));
    ++report_.tensors;
    writer_.tensor(name_in_gguf(tensor.name, *family_of(file_.config.architecture)), type, extents,
                   [this, &tensor, permuted, type](index row, std::byte* out) {
                     return convert_row(tensor, permuted, type, row, out);
                   });
    if (type == GgmlType::I8) add_scales(tensor, permuted);
  }

  // Beside the I8 tensor that they belong to: the file's own, or made from its rows.
  void add_scales(const WeightTensor& tensor, bool permuted) {
    ++report_.tensors;
    const index rows[] = {tensor.rows()};
    writer_.tensor(tensor.name + ".scale", GgmlType::F32, rows, [this, &tensor, permuted](index, std::byte* out) {
      const WeightTensor* scales = file_.scales_of(tensor);
      for (index row = 0; row < tensor.rows(); ++row) {
        const index from = source_row(permuted, row);
        if (scales) {
          std::memcpy(out + row * 4, scales->data + from * 4, 4);
          continue;
        }
        if (Status status = file_.read_row(tensor, from, floats_); !status) return status;
        const float value = int8_scale(floats_);
        std::memcpy(out + row * 4, &value, sizeof(value));
      }
      file_.drop(tensor);
      return Status{};
    });
  }

  // The configuration holds them, whether they came from a tensor or a rule.
  std::span<const float> rope_factors(bool of_longrope) const {
    const RopeConfig& rope = file_.config.ropes[0];
    if ((rope.scaling == RopeConfig::Scaling::longrope) != of_longrope) return {};
    return rope.freq_factors;
  }
  void add_factors(const TensorFacts& facts, std::span<const float> factors) {
    if (factors.empty()) return;
    ++report_.tensors;
    writer_.tensor(facts.name, GgmlType::F32, std::span(facts.extents.data(), 1), [factors](index, std::byte* out) {
      std::memcpy(out, factors.data(), factors.size_bytes());
      return Status{};
    });
  }

  // A vector is one row: its elements are permuted where a matrix permutes rows.
  index source_row(bool permuted, index row) const {
    return permuted ? half_from_interleaved(row, file_.config.head_dim) : row;
  }

  Status convert_row(const WeightTensor& tensor, bool permuted, GgmlType type, index row, std::byte* out) {
    const index k = tensor.row_size();
    const bool vector_permuted = tensor.rank == 1 && permuted;
    const index from = tensor.rank == 1 ? row : source_row(permuted, row);
    if (type == tensor.type && !vector_permuted && tensor.is_contiguous()) {
      const index bytes = ggml_row_bytes(type, k);
      std::memcpy(out, tensor.data + from * bytes, static_cast<std::size_t>(bytes));
    } else {
      if (Status status = file_.read_row(tensor, from, floats_); !status) return status;
      if (vector_permuted) {
        std::vector<float> turned(floats_.size());
        for (index i = 0; i < k; ++i)
          turned[static_cast<std::size_t>(i)] = floats_[static_cast<std::size_t>(source_row(permuted, i))];
        floats_ = std::move(turned);
      }
      if (type == GgmlType::I8)
        quantize_int8(floats_, out);
      else
        quantize_row(type, floats_.data(), k, out);
      if (Status status = check_row(floats_, type, out, written_, tensor.name, row); !status) return status;
    }
    // An I8 tensor is read once more, for its scales.
    if (row + 1 == tensor.size() / k && type != GgmlType::I8) file_.drop(tensor);
    return {};
  }

  const ModelFile& file_;
  WeightFormat format_;
  bool permute_ = false;  // q and k from half to interleaved pairing
  GgufWriter writer_;
  ConvertReport report_;
  std::vector<float> floats_, written_;
  std::deque<WeightTensor> matrices_;
};

}  // namespace

Expected<WeightFormat> parse_weight_format(std::string_view name) {
  constexpr std::pair<std::string_view, WeightFormat> table[] = {
      {"keep", WeightFormat::keep}, {"f32", WeightFormat::f32},   {"f16", WeightFormat::f16},
      {"bf16", WeightFormat::bf16}, {"int8", WeightFormat::int8}, {"q8_0", WeightFormat::q8_0},
      {"q4_0", WeightFormat::q4_0}, {"w4a16", WeightFormat::q4_0}};
  for (const auto& [each, format] : table)
    if (each == name) return format;
  return failure(StatusCode::invalid_argument,
                 "the weight format " + quote(name) + "; it must be keep, f32, f16, bf16, int8, q8_0, q4_0 or w4a16");
}

Expected<ConvertReport> write_gguf(const ModelFile& file, const std::string& path, const ConvertOptions& options) {
  return GgufConversion(file, options.weights).run(path);
}

// GGUF, .safetensors or a Hugging Face directory to GGUF.
Expected<ConvertReport> convert(const std::string& in, const std::string& out, const ConvertOptions& options) {
  auto file = load_model(in);
  if (!file) return failure(std::move(file.error()));
  return write_gguf(*file, out, options);
}

Expected<ConvertReport> convert_llama2c(const std::string& bin, const std::string& tokenizer, const std::string& out,
                                        const ConvertOptions& options) {
  auto file = load_llama2c(bin, tokenizer);
  if (!file) return failure(std::move(file.error()));
  return write_gguf(*file, out, options);
}

}  // namespace inlay::exec
