#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/checkpoint_codes.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/hf/compressed_tensors.hpp"
#include "executor/model/hf/gathered_codes.hpp"
#include "executor/model/hf/quantization.hpp"
#include "executor/model/json/file.hpp"

namespace inlay::exec {

namespace {

using Raw = SafetensorsFile::Raw;

// Older writers have names of their own for the same facts.
void read_either(JsonFields& f, const char* key, const char* older, index& out) {
  if (!f.integer(key, out)) f.integer(older, out);
}

void read_gptq(const Json& config, JsonFields& f, HfQuantization& q) {
  q.method = HfQuantization::Method::gptq;
  read_either(f, "bits", "w_bit", q.bits);
  read_either(f, "group_size", "q_group_size", q.group);
  std::string format = "gptq";
  f.text("checkpoint_format", format);
  if (q.bits != 4 && q.bits != 8)
    f.fail(StatusCode::unsupported, "GPTQ of " + std::to_string(q.bits) + " bits; it must be 4 or 8");
  if (format != "gptq" && format != "gptq_v2")
    f.fail(StatusCode::unsupported, "GPTQ's checkpoint_format " + quote(format) + "; it must be gptq or gptq_v2");
  if (const Json rules = config.find("dynamic"); rules && rules.size() > 0)
    f.fail(StatusCode::unsupported, "GPTQ's \"dynamic\" has rules for some linears; all must have the same form");
  q.v2 = format == "gptq_v2";
}

void read_awq(JsonFields& f, HfQuantization& q) {
  q.method = HfQuantization::Method::awq;
  read_either(f, "bits", "w_bit", q.bits);
  read_either(f, "group_size", "q_group_size", q.group);
  std::string version = "gemm";
  f.text("version", version);
  std::transform(version.begin(), version.end(), version.begin(), [](unsigned char c) { return std::tolower(c); });
  if (q.bits != 4) f.fail(StatusCode::unsupported, "AWQ of " + std::to_string(q.bits) + " bits; it must be 4");
  if (version != "gemm") f.fail(StatusCode::unsupported, "AWQ's version " + quote(version) + "; it must be gemm");
}

void read_fp8(const Json& config, JsonFields& f, HfQuantization& q) {
  q.method = HfQuantization::Method::fp8;
  std::string format = "e4m3";
  f.text("fmt", format);
  if (format != "e4m3") f.fail(StatusCode::unsupported, "fp8's fmt " + quote(format) + "; it must be e4m3");
  const Json block = config.find("weight_block_size");
  if (!block) return;
  const auto positive = [](const Json& n) { return n.is_natural() && n.natural() > 0 && n.natural() < (1u << 30); };
  if (!block.is_array() || block.size() != 2 || !positive(block[0]) || !positive(block[1]))
    return f.fail(StatusCode::corrupt_data, "weight_block_size must be two positive numbers");
  q.block_rows = block[0].integer(), q.block_columns = block[1].integer();
}

// What each code of E4M3 stands for: four exponent bits, three of the significand; of the largest exponent only the
// last is no number.
std::array<float, 256> numbers_of_e4m3() {
  std::array<float, 256> numbers{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15, digits = code & 7;
    const float size = exponent == 15 && digits == 7 ? std::nanf("")
                       : exponent == 0               ? std::ldexp(static_cast<float>(digits), -9)
                                                     : std::ldexp(static_cast<float>(8 + digits), exponent - 10);
    numbers[static_cast<std::size_t>(code)] = code & 128 ? -size : size;
  }
  return numbers;
}

}  // namespace

Expected<HfQuantization> hf_quantization(const Json& config, const std::string& origin) {
  JsonFields f(config, origin);
  HfQuantization q;
  std::string method;
  if (!f.text("quant_method", method)) method = config.contains("w_bit") ? "awq" : "gptq";
  if (method == "gptq")
    read_gptq(config, f, q);
  else if (method == "awq")
    read_awq(f, q);
  else if (method == "fp8")
    read_fp8(config, f, q);
  else if (method == "compressed-tensors")
    read_compressed_tensors(config, f, q);
  else if (method != "mxfp4")  // of experts: hf/interleaved_experts.hpp
    f.fail(StatusCode::unsupported,
           "weights quantized with the method " + quote(method) +
               "; they must be F32, F16 or BF16, or made by gptq, awq, fp8, compressed-tensors or mxfp4");
  if (q.group == -1) q.group = 0;
  if (q.group < 0) f.fail(StatusCode::corrupt_data, "group_size must be positive, or -1 for the whole row");
  if (Status status = f.take_status(); !status) return failure(std::move(status));
  return q;
}

bool HfQuantizedParts::take(const std::string& name, const SafetensorsFile& file, const Raw& tensor) {
  using enum HfQuantization::Method;
  if (quantization_.method == none) return false;
  const std::size_t dot = name.rfind('.');
  if (dot == name.npos) return false;
  const std::string last = name.substr(dot + 1);
  constexpr std::string_view of_codes[] = {"qweight", "qzeros", "scales", "g_idx"};
  // Scales of activations belong to a product of fp8 or int8, which is not what is computed.
  constexpr std::string_view of_weights[] = {"weight_scale_inv",  "weight_scale",  "input_scale",  "activation_scale",
                                             "weight_zero_point", "weight_packed", "weight_shape", "weight_g_idx"};
  const auto in = [&](const auto& list) { return std::find(std::begin(list), std::end(list), last) != std::end(list); };
  const bool is_number = (quantization_.method == fp8 && tensor.dtype == "F8_E4M3") ||
                         (quantization_.method == int8 && tensor.dtype == "I8");
  const bool ours = quantization_.method == gptq || quantization_.method == awq
                        ? in(of_codes)
                        : in(of_weights) || (last == "weight" && is_number);
  if (!ours) return false;
  linears_[name.substr(0, dot)][last] = {tensor, file.path};
  return true;
}

Expected<std::vector<WeightTensor>> HfQuantizedParts::tensors(
    std::vector<std::shared_ptr<const Mapping>>& memory) const {
  std::vector<WeightTensor> list;
  for (const auto& [stem, linear] : linears_) {
    auto made = tensor(stem, linear, memory);
    if (!made) return failure(std::move(made.error()));
    list.push_back(std::move(*made));
  }
  return list;
}

Expected<WeightTensor> HfQuantizedParts::tensor(const std::string& stem, const HfQuantizedLinear& linear,
                                                std::vector<std::shared_ptr<const Mapping>>& memory) const {
  using enum HfQuantization::Method;
  if (quantization_.method == fp8) return widened(stem, linear, memory);
  if (quantization_.method == packed || quantization_.method == int8)
    return compressed_codes(quantization_, stem, linear, memory);
  return codes(stem, linear, memory);
}

Expected<WeightTensor> HfQuantizedParts::codes(const std::string& stem, const HfQuantizedLinear& linear,
                                               std::vector<std::shared_ptr<const Mapping>>& memory) const {
  GatheredCodes parts(stem, linear, memory);
  const auto qweight = parts.words("qweight"), qzeros = parts.words("qzeros"), scales = parts.floats("scales");
  if (quantization_.method == HfQuantization::Method::awq)
    return std::move(parts).made(
        AwqWeight{.qweight = qweight, .qzeros = qzeros, .scales = scales, .group = quantization_.group},
        {qweight.extents[1] * 8, qweight.extents[0]}, "AWQ");
  GptqWeight weight{.qweight = qweight, .qzeros = qzeros, .scales = scales};
  weight.group = quantization_.group, weight.bits = quantization_.bits, weight.v2 = quantization_.v2;
  if (linear.contains("g_idx")) weight.g_idx = parts.word_list("g_idx");
  return std::move(parts).made(weight, {qweight.extents[1], qweight.extents[0] * (32 / weight.bits)}, "GPTQ");
}

Expected<WeightTensor> HfQuantizedParts::widened(const std::string& stem, const HfQuantizedLinear& linear,
                                                 std::vector<std::shared_ptr<const Mapping>>& memory) const {
  const auto codes = linear.find("weight");
  const std::string& path = linear.begin()->second.path;
  if (codes == linear.end())
    return failure(StatusCode::not_found, path + ": " + quote(stem) + " has a scale and no weight in F8_E4M3");
  const Raw& weight = codes->second.tensor;
  const bool blocks = quantization_.block_rows > 0;
  const std::string name = blocks ? quantization_.block_scale : "weight_scale";
  const auto scales = linear.find(name);
  if (scales == linear.end())
    return failure(StatusCode::not_found, path + ": the tensor " + quote(stem + "." + name) + " is missing");
  const Raw& scale = scales->second.tensor;
  if (weight.rank != 2)
    return failure(part_misfit(path, stem + ".weight", "has rank " + std::to_string(weight.rank) + "; it must be 2"));
  if (weight.bytes == 0) return failure(part_misfit(path, stem + ".weight", "has no elements"));
  const index n = weight.extents[0], k = weight.extents[1];
  index size = 1;
  for (int d = 0; d < scale.rank; ++d) size *= scale.extents[static_cast<std::size_t>(d)];
  const index rows = blocks ? quantization_.block_rows : size == 1 ? n : 1;
  const index columns = blocks ? quantization_.block_columns : k;
  const index across = (k + columns - 1) / columns, expected = (n + rows - 1) / rows * across;
  if (size != expected || (scale.dtype != "F32" && scale.dtype != "F16" && scale.dtype != "BF16"))
    return failure(part_misfit(path, stem + "." + name,
                               "is " + quote(scale.dtype) + " of " + std::to_string(size) +
                                   " elements; it must be floats, " + std::to_string(expected) + " of them"));
  auto made = Mapping::anonymous(static_cast<std::size_t>(n * k) * 2);
  if (!made) return failure(std::move(made.error()));
  const std::array<float, 256> numbers = numbers_of_e4m3();
  const DType scale_type = part_dtype(scale);
  std::vector<float> row(static_cast<std::size_t>(k));
  for (index r = 0; r < n; ++r) {
    for (index block = 0; block < across; ++block) {
      const double factor = load_element(scale.data, scale_type, r / rows * across + block);
      for (index i = block * columns; i < std::min(k, (block + 1) * columns); ++i)
        row[static_cast<std::size_t>(i)] =
            static_cast<float>(numbers[static_cast<std::uint8_t>(weight.data[r * k + i])] * factor);
    }
    quantize_row(GgmlType::BF16, row.data(), k, (*made)->mutable_data() + r * k * 2);
  }
  drop_pages(weight.data, static_cast<std::size_t>(weight.bytes));
  WeightTensor tensor{.name = stem + ".weight",
                      .type = GgmlType::BF16,
                      .rank = 2,
                      .extents = {n, k},
                      .data = (*made)->data(),
                      .bytes = n * k * 2};
  memory.push_back(std::move(*made));
  return tensor;
}

}  // namespace inlay::exec
