#include <cstring>
#include <string_view>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/hf/interleaved_experts.hpp"
#include "executor/model/hf/names.hpp"

namespace inlay::exec {

namespace {

constexpr index block = 32;

Expected<GgmlType> float_type(const SafetensorsFile::Raw& tensor, const std::string& path, const std::string& name) {
  for (const GgmlType type : {GgmlType::F32, GgmlType::F16, GgmlType::BF16})
    if (ggml_format(type).name == tensor.dtype) return type;
  return failure(StatusCode::unsupported, path + ": the tensor " + quote(name) + " has the dtype " +
                                              quote(tensor.dtype) + "; it must be F32, F16 or BF16");
}

// What follows the experts' count in `extents`.
Status check_part(const SafetensorsFile::Raw& tensor, const std::string& path, const std::string& name,
                  std::initializer_list<index> extents) {
  WeightTensor wanted{.rank = static_cast<int>(extents.size())}, is{.rank = tensor.rank, .extents = tensor.extents};
  std::copy(extents.begin(), extents.end(), wanted.extents.begin());
  if (tensor.rank == wanted.rank && tensor.extents == wanted.extents) return {};
  return {StatusCode::corrupt_data, path + ": the tensor " + quote(name) + " has extents " + describe_extents(is) +
                                        "; they must be " + describe_extents(wanted)};
}

// What a tensor of `type` and `extents` is to be written to.
Expected<std::byte*> room(WeightTensor& tensor, std::vector<std::shared_ptr<const Mapping>>& memory) {
  tensor.bytes = tensor.rows() * ggml_row_bytes(tensor.type, tensor.row_size());
  auto made = Mapping::anonymous(static_cast<std::size_t>(tensor.bytes));
  if (!made) return failure(std::move(made.error()));
  memory.push_back(*made);
  tensor.data = (*made)->data();
  return (*made)->mutable_data();
}

}  // namespace

bool HfInterleavedExperts::take(const std::string& name, const SafetensorsFile& file,
                                const SafetensorsFile::Raw& tensor) {
  std::string_view rest = name;
  index layer = 0;
  constexpr std::string_view room = "mlp.experts.";
  if (experts_ == 0 || !take_hf_layer(rest, layer) || !rest.starts_with(room)) return false;
  rest.remove_prefix(room.size());
  for (const std::string stem : {"gate_up_proj", "down_proj"})
    for (const char* kind : {"", "_bias", "_blocks", "_scales"})
      if (rest == stem + kind) {
        if (!layers_[layer].emplace(std::string(rest), Part{tensor, file.path, name}).second)
          twice_ = file.path + ": two tensors for " + quote(name);
        return true;
      }
  return false;
}

Expected<WeightTensor> HfInterleavedExperts::of_floats(const Part& part, const Matrix& m, Memory& memory) const {
  const auto type = float_type(part.tensor, part.path, part.name);
  if (!type) return failure(type.error().code(), type.error().message());
  if (Status status = check_part(part.tensor, part.path, part.name, {experts_, m.k, m.n * m.turns}); !status)
    return failure(std::move(status));
  const index element = ggml_format(*type).bytes;
  WeightTensor made{.type = *type, .rank = 3, .extents = {experts_, m.n, m.k}};
  auto to = room(made, memory);
  if (!to) return failure(std::move(to.error()));
  const std::byte* from = part.tensor.data + m.first * element;
  for (index e = 0; e < experts_; ++e, from += m.k * m.n * m.turns * element)
    for (index r = 0; r < m.n; ++r)
      for (index i = 0; i < m.k; ++i, *to += element)
        std::memcpy(*to, from + (i * m.n + r) * m.turns * element, static_cast<std::size_t>(element));
  return made;
}

// ggml's block of 32 has its exponent first, and the codes i and i + 16 in one byte.
Expected<WeightTensor> HfInterleavedExperts::of_blocks(const Part& blocks, const Part& scales, const Matrix& m,
                                                       Memory& memory) const {
  for (const Part* each : {&blocks, &scales})
    if (each->tensor.dtype != "U8")
      return failure(StatusCode::unsupported, each->path + ": the tensor " + quote(each->name) + " has the dtype " +
                                                  quote(each->tensor.dtype) + "; it must be U8");
  const index in_row = m.k / block;
  if (m.k % block != 0)
    return failure(StatusCode::corrupt_data, blocks.path + ": the tensor " + quote(blocks.name) +
                                                 " is in blocks of 32; " + std::to_string(m.k) +
                                                 " inputs are no multiple of it");
  if (Status status = check_part(blocks.tensor, blocks.path, blocks.name, {experts_, m.n * m.turns, in_row, 16});
      !status)
    return failure(std::move(status));
  if (Status status = check_part(scales.tensor, scales.path, scales.name, {experts_, m.n * m.turns, in_row}); !status)
    return failure(std::move(status));
  WeightTensor made{.type = GgmlType::MXFP4, .rank = 3, .extents = {experts_, m.n, m.k}};
  auto to = room(made, memory);
  if (!to) return failure(std::move(to.error()));
  for (index e = 0; e < experts_; ++e)
    for (index r = 0; r < m.n; ++r) {
      const index row = (e * m.n + r) * m.turns + m.first;
      for (index b = 0; b < in_row; ++b) {
        const std::byte* codes = blocks.tensor.data + (row * in_row + b) * 16;
        const auto code = [&](index i) { return (i % 2 == 0 ? codes[i / 2] : codes[i / 2] >> 4) & std::byte{15}; };
        *(*to)++ = scales.tensor.data[row * in_row + b];
        for (index i = 0; i < 16; ++i) *(*to)++ = code(i) | code(i + 16) << 4;
      }
    }
  return made;
}

Expected<WeightTensor> HfInterleavedExperts::bias(const Part& part, const Matrix& m, Memory& memory) const {
  const auto type = float_type(part.tensor, part.path, part.name);
  if (!type) return failure(type.error().code(), type.error().message());
  if (Status status = check_part(part.tensor, part.path, part.name, {experts_, m.n * m.turns}); !status)
    return failure(std::move(status));
  const index element = ggml_format(*type).bytes;
  WeightTensor made{.type = *type, .rank = 2, .extents = {experts_, m.n}};
  auto to = room(made, memory);
  if (!to) return failure(std::move(to.error()));
  for (index i = 0; i < experts_ * m.n; ++i, *to += element)
    std::memcpy(*to, part.tensor.data + (i * m.turns + m.first) * element, static_cast<std::size_t>(element));
  return made;
}

Expected<WeightTensor> HfInterleavedExperts::weight(const Layer& layer, const Matrix& m, Memory& memory) const {
  if (const auto whole = layer.find(m.stem); whole != layer.end()) return of_floats(whole->second, m, memory);
  const auto blocks = layer.find(m.stem + "_blocks"), scales = layer.find(m.stem + "_scales");
  if (blocks == layer.end() || scales == layer.end())
    return failure(StatusCode::not_found, layer.begin()->second.path + ": beside the tensor " +
                                              quote(layer.begin()->second.name) + " " + m.stem +
                                              " is missing, or its _blocks or _scales");
  return of_blocks(blocks->second, scales->second, m, memory);
}

Expected<std::vector<WeightTensor>> HfInterleavedExperts::tensors(Memory& memory) const {
  const Matrix matrices[] = {{"gate_up_proj", "ffn_gate_exps", hidden_, dim_, 0, 2},
                             {"gate_up_proj", "ffn_up_exps", hidden_, dim_, 1, 2},
                             {"down_proj", "ffn_down_exps", dim_, hidden_, 0, 1}};
  if (!twice_.empty()) return failure(StatusCode::corrupt_data, twice_);
  std::vector<WeightTensor> all;
  for (const auto& [number, layer] : layers_)
    for (const Matrix& matrix : matrices) {
      auto made = weight(layer, matrix, memory);
      if (!made) return failure(std::move(made.error()));
      made->name = block_name(number, matrix.part + ".weight");
      all.push_back(std::move(*made));
      const auto part = layer.find(matrix.stem + "_bias");
      if (part == layer.end()) continue;
      auto added = bias(part->second, matrix, memory);
      if (!added) return failure(std::move(added.error()));
      added->name = block_name(number, matrix.part + ".bias");
      all.push_back(std::move(*added));
    }
  return all;
}

}  // namespace inlay::exec
