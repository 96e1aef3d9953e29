#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/checkpoint_codes.hpp>

#include "executor/model/check_model.hpp"
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

DType dtype_of(const Raw& tensor) {
  return tensor.dtype == "F32"    ? DType::f32
         : tensor.dtype == "F16"  ? DType::f16
         : tensor.dtype == "BF16" ? DType::bf16
                                  : DType::i32;
}

Status misfit(const std::string& path, const std::string& name, const std::string& what) {
  return {StatusCode::corrupt_data, path + ": the tensor " + quote(name) + " " + what};
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
  else if (method != "mxfp4")  // of experts: hf/interleaved_experts.hpp
    f.fail(StatusCode::unsupported, "weights quantized with the method " + quote(method) +
                                        "; they must be F32, F16 or BF16, or made by gptq, awq, fp8 or mxfp4");
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
  // Scales of activations belong to a product of fp8, which is not what is computed.
  constexpr std::string_view of_fp8[] = {"weight_scale_inv", "weight_scale", "input_scale", "activation_scale"};
  const auto in = [&](const auto& list) { return std::find(std::begin(list), std::end(list), last) != std::end(list); };
  const bool ours =
      quantization_.method == fp8 ? in(of_fp8) || (last == "weight" && tensor.dtype == "F8_E4M3") : in(of_codes);
  if (!ours) return false;
  linears_[name.substr(0, dot)][last] = {tensor, file.path};
  return true;
}

Expected<std::vector<WeightTensor>> HfQuantizedParts::tensors(
    std::vector<std::shared_ptr<const Mapping>>& memory) const {
  std::vector<WeightTensor> list;
  for (const auto& [stem, linear] : linears_) {
    auto tensor = quantization_.method == HfQuantization::Method::fp8 ? widened(stem, linear, memory)
                                                                      : codes(stem, linear, memory);
    if (!tensor) return failure(std::move(tensor.error()));
    list.push_back(std::move(*tensor));
  }
  return list;
}

Expected<WeightTensor> HfQuantizedParts::codes(const std::string& stem, const Linear& linear,
                                               std::vector<std::shared_ptr<const Mapping>>& memory) const {
  const std::string& path = linear.begin()->second.path;
  auto made = std::make_shared<CheckpointCodes>();
  WeightTensor tensor{.name = stem + ".weight", .type = GgmlType::F16, .rank = 2};
  // A part, for a view of it.
  const auto part = [&](const char* last, int rank, bool of_floats) -> Expected<Raw> {
    const auto found = linear.find(last);
    const std::string name = stem + "." + last;
    if (found == linear.end())
      return failure(StatusCode::not_found, path + ": the tensor " + quote(name) + " is missing");
    Raw raw = found->second.tensor;
    // One without bytes may have extents that no product of words bears.
    if (raw.bytes == 0) return failure(misfit(found->second.path, name, "has no elements"));
    if (raw.rank != rank || of_floats == (raw.dtype == "I32"))
      return failure(misfit(found->second.path, name,
                            "is " + quote(raw.dtype) + " of rank " + std::to_string(raw.rank) + "; it must be " +
                                (of_floats ? "F16, BF16 or F32" : "I32") + " of rank " + std::to_string(rank)));
    auto data = aligned_data(raw.data, raw.bytes, sizeof(std::int32_t), memory);
    if (!data) return failure(std::move(data.error()));
    raw.data = *data;
    made->bytes.emplace_back(raw.data, static_cast<std::size_t>(raw.bytes));
    tensor.bytes += raw.bytes;
    return raw;
  };
  const auto matrix = [](const Raw& raw) {
    return ConstView<2>(raw.data, dtype_of(raw), {raw.extents[0], raw.extents[1]});
  };
  auto qweight = part("qweight", 2, false), qzeros = part("qzeros", 2, false), scales = part("scales", 2, true);
  for (auto* each : {&qweight, &qzeros, &scales})
    if (!*each) return failure(std::move(each->error()));
  const index rows = qweight->extents[0], columns = qweight->extents[1];
  if (quantization_.method == HfQuantization::Method::gptq) {
    GptqWeight weight{.qweight = matrix(*qweight), .qzeros = matrix(*qzeros), .scales = matrix(*scales)};
    weight.group = quantization_.group, weight.bits = quantization_.bits, weight.v2 = quantization_.v2;
    if (linear.contains("g_idx")) {
      auto g_idx = part("g_idx", 1, false);
      if (!g_idx) return failure(std::move(g_idx.error()));
      weight.g_idx = {g_idx->data, DType::i32, {g_idx->extents[0]}};
    }
    made->extents = {columns, rows * (32 / weight.bits)};
    made->weight = weight;
  } else {
    made->extents = {columns * 8, rows};
    made->weight = AwqWeight{.qweight = matrix(*qweight),
                             .qzeros = matrix(*qzeros),
                             .scales = matrix(*scales),
                             .group = quantization_.group};
  }
  tensor.extents = {made->extents[0], made->extents[1]};
  tensor.codes = std::move(made);
  if (Status status = tensor.codes->check(); !status)
    return failure(StatusCode::corrupt_data, path + ": " + quote(stem) + ": " + std::string(status.message()));
  return tensor;
}

Expected<WeightTensor> HfQuantizedParts::widened(const std::string& stem, const Linear& linear,
                                                 std::vector<std::shared_ptr<const Mapping>>& memory) const {
  const auto codes = linear.find("weight");
  const std::string& path = linear.begin()->second.path;
  if (codes == linear.end())
    return failure(StatusCode::not_found, path + ": " + quote(stem) + " has a scale and no weight in F8_E4M3");
  const Raw& weight = codes->second.tensor;
  const bool blocks = quantization_.block_rows > 0;
  const std::string name = blocks ? "weight_scale_inv" : "weight_scale";
  const auto scales = linear.find(name);
  if (scales == linear.end())
    return failure(StatusCode::not_found, path + ": the tensor " + quote(stem + "." + name) + " is missing");
  const Raw& scale = scales->second.tensor;
  if (weight.rank != 2)
    return failure(misfit(path, stem + ".weight", "has rank " + std::to_string(weight.rank) + "; it must be 2"));
  if (weight.bytes == 0) return failure(misfit(path, stem + ".weight", "has no elements"));
  const index n = weight.extents[0], k = weight.extents[1];
  index size = 1;
  for (int d = 0; d < scale.rank; ++d) size *= scale.extents[static_cast<std::size_t>(d)];
  const index rows = blocks ? quantization_.block_rows : size == 1 ? n : 1;
  const index columns = blocks ? quantization_.block_columns : k;
  const index across = (k + columns - 1) / columns, expected = (n + rows - 1) / rows * across;
  if (size != expected || (scale.dtype != "F32" && scale.dtype != "F16" && scale.dtype != "BF16"))
    return failure(misfit(path, stem + "." + name,
                          "is " + quote(scale.dtype) + " of " + std::to_string(size) +
                              " elements; it must be floats, " + std::to_string(expected) + " of them"));
  auto made = Mapping::anonymous(static_cast<std::size_t>(n * k) * 2);
  if (!made) return failure(std::move(made.error()));
  const std::array<float, 256> numbers = numbers_of_e4m3();
  const DType scale_type = dtype_of(scale);
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
