#include "executor/model/hf/compressed_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <inlay/core/quote.hpp>

#include "executor/model/hf/gathered_codes.hpp"

namespace inlay::exec {

namespace {

// The weights of one of config_groups.
struct Form {
  index bits = 8, group = 0, block_rows = 0, block_columns = 0;
  std::string type = "int", strategy = "tensor";
  bool symmetric = true;
  bool operator==(const Form&) const = default;
};

Form read_form(const Json& weights, JsonFields& f) {
  JsonFields w(weights, "config_groups: weights");
  Form form;
  w.integer("num_bits", form.bits);
  w.text("type", form.type);
  w.boolean("symmetric", form.symmetric);
  // Where no strategy is named, the size of the groups tells it.
  if (w.text("strategy", form.strategy)) {
    if (form.strategy == "group") w.integer("group_size", form.group, true);
  } else if (index size = 0; w.integer("group_size", size)) {
    form.strategy = size == -1 ? "channel" : "group";
    form.group = size == -1 ? 0 : size;
  }
  if (form.strategy == "block") {
    const Json block = weights.find("block_structure");
    const auto positive = [](const Json& n) { return n.is_natural() && n.natural() > 0 && n.natural() < (1u << 30); };
    if (!block.is_array() || block.size() != 2 || !positive(block[0]) || !positive(block[1]))
      w.fail(StatusCode::corrupt_data, "block_structure must be two positive numbers");
    else
      form.block_rows = block[0].integer(), form.block_columns = block[1].integer();
  }
  const bool known = form.strategy == "tensor" || form.strategy == "channel" || form.strategy == "group" ||
                     (form.strategy == "block" && form.type == "float");
  if (!known)
    w.fail(StatusCode::unsupported, "strategy " + quote(form.strategy) + " of type " + quote(form.type) +
                                        "; it must be tensor, channel, group, or block of floats");
  if (Status status = w.take_status(); !status) f.fail(status.code(), std::string(status.message()));
  return form;
}

// What would change the numbers and is not done here.
void refuse_other_parts(const Json& config, JsonFields& f) {
  if (const Json cache = config.find("kv_cache_scheme"))
    f.fail(StatusCode::unsupported, "kv_cache_scheme quantizes the cache; it must be null");
  if (const Json transforms = config.find("transform_config"); transforms.size() > 0)
    f.fail(StatusCode::unsupported, "transform_config turns weights and activations; it must be left out");
  if (const Json form = config.find("sparsity_config").find("format"); form && form != "dense")
    f.fail(StatusCode::unsupported,
           "sparsity_config has the format " + quote(form.text()) + "; it must be dense, or left out");
}

// Words hold whole codes: of a row that does not fill its last one they would say more inputs than it has.
void check_shape(const HfQuantizedLinear& linear, index n, index k, GatheredCodes& parts) {
  const auto found = linear.find("weight_shape");
  if (found == linear.end() || !parts.ok()) return;
  const SafetensorsFile::Raw& shape = found->second.tensor;
  const index size = shape.dtype == "I64" ? 8 : shape.dtype == "I32" ? 4 : 0;
  std::int64_t told[2] = {};
  if (size > 0 && shape.bytes == 2 * size)
    for (int i = 0; i < 2; ++i)
      std::memcpy(&told[i], static_cast<const std::byte*>(shape.data) + i * size, static_cast<std::size_t>(size));
  if (told[0] != n || told[1] != k)
    parts.fail("weight_shape", "holds [" + std::to_string(told[0]) + ", " + std::to_string(told[1]) +
                                   "]; it must be that of weight_packed, [" + std::to_string(n) + ", " +
                                   std::to_string(k) + "]");
}

// What lies beside the codes has the shape that follows from theirs. (The import would say so in GPTQ's names.)
void demand_shape(const char* last, const ConstView<2>& view, const IndexArray<2>& shape, GatheredCodes& parts) {
  const auto told = [](const IndexArray<2>& extents) {
    return "[" + std::to_string(extents[0]) + ", " + std::to_string(extents[1]) + "]";
  };
  if (parts.ok() && view.extents != shape)
    parts.fail(last, "has the shape " + told(view.extents) + "; it must be " + told(shape));
}

// The words of a matrix of codes [n, k] that lie along k, as GPTQ has them: [words, n].
ConstView<2> turned_over(const ConstView<2>& view) {
  return {view.data, view.dtype, {view.extents[1], view.extents[0]}, {view.strides[1], view.strides[0]}};
}

}  // namespace

void read_compressed_tensors(const Json& config, JsonFields& f, HfQuantization& q) {
  using enum HfQuantization::Method;
  refuse_other_parts(config, f);
  std::string format;
  f.text("format", format, true);
  const Json groups = config.find("config_groups");
  if (groups.size() == 0 || !groups.is_object())
    return f.fail(StatusCode::corrupt_data, "config_groups must have a group");
  std::optional<Form> first;
  for (const auto& [name, group] : groups.members()) {
    const Json weights = group.find("weights"), own = group.find("format");
    if (!weights.is_object())
      return f.fail(StatusCode::unsupported, "config_groups: " + quote(name) + " has no weights; it must have some");
    if (own && own != format)
      return f.fail(StatusCode::unsupported, "config_groups: " + quote(name) + " has the format " + quote(own.text()) +
                                                 "; it must be that of all, " + quote(format));
    const Form form = read_form(weights, f);
    if (first && form != *first)
      return f.fail(StatusCode::unsupported,
                    "config_groups: the weights of " + quote(name) + " have another form; all must have the same form");
    first = form;
  }
  q.bits = first->bits, q.group = first->group, q.symmetric = first->symmetric;
  const bool is_float = first->type == "float", naive = format == "naive-quantized";
  if (format == "pack-quantized" && !is_float && (q.bits == 4 || q.bits == 8)) {
    q.method = packed;
  } else if ((format == "int-quantized" || naive) && !is_float && q.symmetric) {
    q.method = int8, q.bits = 8;  // however many of them it uses
  } else if ((format == "float-quantized" || naive) && is_float && q.bits == 8 && q.symmetric && q.group == 0) {
    q.method = fp8;
    q.block_rows = first->block_rows, q.block_columns = first->block_columns;
    q.block_scale = "weight_scale";
  } else {
    f.fail(StatusCode::unsupported,
           "compressed-tensors' format " + quote(format) + " of " + std::to_string(q.bits) + " bits, " + first->type +
               (q.symmetric ? ", symmetric" : ", asymmetric") + (q.group > 0 ? ", in groups" : "") +
               "; it must be pack-quantized of 4 or 8 bits, or symmetric and int-quantized or float-quantized");
  }
}

// GPTQ's words hold codes of successive inputs and lie side by side by channel; these lie one behind the other in a
// channel. Codes and zero points are both above their numbers by half of the range, so that it cancels out.
Expected<WeightTensor> compressed_codes(const HfQuantization& q, const std::string& stem,
                                        const HfQuantizedLinear& linear,
                                        std::vector<std::shared_ptr<const Mapping>>& memory) {
  static constexpr std::int32_t middle_of_4 = static_cast<std::int32_t>(0x88888888u),
                                middle_of_8 = static_cast<std::int32_t>(0x80808080u);
  const index per_word = 32 / q.bits;
  GatheredCodes parts(stem, linear, memory);
  ConstView<2> codes;
  if (q.method == HfQuantization::Method::packed) {
    codes = parts.words("weight_packed");
  } else {
    const ConstView<2> numbers = parts.bytes("weight");
    const index n = numbers.extents[0], k = numbers.extents[1];
    if (k % per_word != 0)
      parts.fail("weight",
                 "has rows of " + std::to_string(k) + "; they must be a multiple of " + std::to_string(per_word));
    if (parts.ok()) {
      auto above = Mapping::anonymous(static_cast<std::size_t>(n * k));
      if (!above) return failure(std::move(above.error()));
      std::byte* const to = (*above)->mutable_data();
      const auto* const from = static_cast<const std::byte*>(numbers.data);
      std::transform(from, from + n * k, to, [](std::byte code) { return code ^ std::byte{0x80}; });
      codes = {to, DType::i32, {n, k / per_word}};
      memory.push_back(std::move(*above));
    }
  }
  const ConstView<2> scales = parts.floats("weight_scale");
  const index n = codes.extents[0], k = codes.extents[1] * per_word, groups = w4_groups(k, q.group);
  check_shape(linear, n, k, parts);
  if (q.group % w4_group_multiple != 0)
    parts.fail("weight_scale", "is of groups of " + std::to_string(q.group) + "; they must be a multiple of " +
                                   std::to_string(w4_group_multiple));
  demand_shape("weight_scale", scales, {n, groups}, parts);
  GptqWeight weight{.qweight = turned_over(codes), .qzeros = {}, .scales = turned_over(scales)};
  weight.group = q.group, weight.bits = q.bits, weight.v2 = true;
  const index words = (n + per_word - 1) / per_word;
  if (q.symmetric) {
    weight.qzeros = {q.bits == 4 ? &middle_of_4 : &middle_of_8, DType::i32, {groups, words}, {0, 0}};
  } else {
    const ConstView<2> zeros = parts.words("weight_zero_point");
    demand_shape("weight_zero_point", zeros, {words, groups}, parts);
    weight.qzeros = turned_over(zeros);
  }
  if (linear.contains("weight_g_idx")) weight.g_idx = parts.word_list("weight_g_idx");
  return std::move(parts).made(weight, {n, k}, "compressed-tensors");
}

}  // namespace inlay::exec
