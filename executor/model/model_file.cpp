#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/checkpoint_codes.hpp>
#include <inlay/model/model_file.hpp>

namespace inlay::exec {

WeightTensor WeightTensor::matrix_of(index i) const {
  if (parts) return (*parts)[static_cast<std::size_t>(i)];
  WeightTensor matrix = *this;
  matrix.rank = 2;
  matrix.extents = {extents[1], extents[2]};
  matrix.bytes = bytes / std::max<index>(extents[0], 1);
  matrix.data = data + i * (stride == 0 ? matrix.bytes : stride);
  matrix.stride = 0;
  return matrix;
}

std::string WeightTensor::code_format() const {
  const CheckpointCodes* const made_of = parts ? parts->front().codes.get() : codes.get();
  return made_of ? made_of->format() : std::string();
}

const WeightTensor* ModelFile::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const WeightTensor& t, std::string_view n) { return t.name < n; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

const WeightTensor* ModelFile::scales_of(const WeightTensor& weight) const {
  return weight.type == GgmlType::I8 ? find(weight.name + ".scale") : nullptr;
}

Status ModelFile::read_row(const WeightTensor& tensor, index row, std::vector<float>& out) const {
  if (tensor.parts || tensor.stride != 0)
    return read_row(tensor.matrix_of(row / tensor.extents[1]), row % tensor.extents[1], out);
  const index k = tensor.row_size();
  out.resize(static_cast<std::size_t>(k));
  if (tensor.codes) {
    Status status = tensor.codes->read_row(row, out.data());
    if (status) return status;
    return {status.code(), "the tensor " + quote(tensor.name) + ": " + std::string(status.message())};
  }
  dequantize_row(tensor.type, tensor.data + row * ggml_row_bytes(tensor.type, k), k, out.data());
  const WeightTensor* scales = scales_of(tensor);
  if (!scales) return {};
  float scale = 0;
  std::memcpy(&scale, scales->data + row * static_cast<index>(sizeof(float)), sizeof(float));
  for (float& x : out) x *= scale;
  return {};
}

void ModelFile::drop(const WeightTensor& tensor, index first, index bytes) const {
  const auto drop = [&](const std::byte* of, const std::byte* begin, std::size_t size) {
    for (const auto& mapping : memory_)
      if (mapping->of_file() && std::less_equal<>{}(mapping->data(), of) &&
          std::less<>{}(of, mapping->data() + mapping->size()))
        return drop_pages(begin, size);
  };
  if (tensor.parts || tensor.stride != 0) {
    for (index i = 0; i < tensor.extents[0]; ++i) this->drop(tensor.matrix_of(i));
    return;
  }
  if (!tensor.codes) return drop(tensor.data, tensor.data + first, static_cast<std::size_t>(bytes));
  for (const std::span<const std::byte> part : tensor.codes->bytes) drop(part.data(), part.data(), part.size());
}

index ModelFile::bytes() const {
  index sum = 0;
  for (const WeightTensor& t : tensors_) sum += t.bytes;
  return sum;
}

DType ModelFile::kv_type() const {
  const WeightTensor* const q = find("blk.0.attn_q.weight");
  return q != nullptr && q->type == GgmlType::F32 ? DType::f32 : DType::f16;
}

void ModelFile::set_tensors(std::vector<WeightTensor> tensors, std::vector<std::shared_ptr<const Mapping>> memory) {
  std::sort(tensors.begin(), tensors.end(),
            [](const WeightTensor& a, const WeightTensor& b) { return a.name < b.name; });
  tensors_ = std::move(tensors);
  memory_ = std::move(memory);
}

}  // namespace inlay::exec
