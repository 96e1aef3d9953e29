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

#include <array>
#include <cstddef>
#include <cstdint>
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
#include <inlay/model/model_config.hpp>
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

struct CheckpointCodes;  // inlay/model/checkpoint_codes.hpp

struct WeightTensor {
  std::string name = {};
  GgmlType type = GgmlType::F32;
  int rank = 0;                     // 0..4
  std::array<index, 4> extents{};   // row-major, innermost last: a linear's weight is {n, k}
  const std::byte* data = nullptr;  // aligned to its elements; blocks have no alignment
  index bytes = 0;
  // A linear's weight of another form: `type` is F16, what it becomes where a format has no codes, and data is null.
  std::shared_ptr<const CheckpointCodes> codes = {};
  // The matrices of experts {experts, n, k} that have a tensor each in their file, each {n, k}; data is null then.
  std::shared_ptr<const std::vector<WeightTensor>> parts = {};
  // Of experts in one tensor with other matrices between theirs: bytes from one to the next; 0: nothing lies between.
  index stride = 0;

  std::optional<DType> dtype() const { return plain_dtype(type); }
  index size() const {
    index product = 1;
    for (int d = 0; d < rank; ++d) product *= extents[d];
    return product;
  }
  index row_size() const { return rank > 0 ? extents[static_cast<std::size_t>(rank - 1)] : 1; }
  // Does data hold it as it is, row behind row?
  bool is_contiguous() const { return !codes && !parts && stride == 0; }
  // All rows together, of the innermost dimension.
  index rows() const { return row_size() > 0 ? size() / row_size() : 0; }
  // Matrix i of {experts, n, k}.
  WeightTensor matrix_of(index i) const;
  // How its codes are called, of parts too; empty: it has none.
  std::string code_format() const;
  // Only for types that have a dtype().
  ConstView<2> matrix() const { return {data, *dtype(), {extents[0], extents[1]}}; }
  ConstView<1> vector() const { return {data, *dtype(), {extents[0]}}; }
};

class ModelFile {
 public:
  ModelConfig config;
  TokenizerData tokenizer;  // Kind::none where the file has none
  std::string path;

  // Sorted by name.
  std::span<const WeightTensor> tensors() const { return tensors_; }

  const WeightTensor* find(std::string_view name) const;

  // The f32 [n] scales of an int8 weight, null for other types.
  const WeightTensor* scales_of(const WeightTensor& weight) const;

  // One row (the innermost dimension) as floats, whatever the type; I8 with its scale. Only codes of a checkpoint may
  // be refused.
  Status read_row(const WeightTensor& tensor, index row, std::vector<float>& out) const;

  // Gives a tensor's pages back once it was packed. Whoever reads it again waits for the file.
  void drop(const WeightTensor& tensor) const { drop(tensor, 0, tensor.bytes); }
  // Of a part of it. What no file holds (copies that a loader had to make, borrowed memory) stays as it is.
  void drop(const WeightTensor& tensor, index first, index bytes) const;

  // All weights together.
  index bytes() const;
  // That of a cache of keys and values where nobody names one: f32 for a model whose linears are f32, else f16.
  DType kv_type() const;

  // For loaders: the tensors and what keeps their memory.
  void set_tensors(std::vector<WeightTensor> tensors, std::vector<std::shared_ptr<const Mapping>> memory);

 private:
  std::vector<WeightTensor> tensors_;
  std::vector<std::shared_ptr<const Mapping>> memory_;
};

}  // namespace inlay::exec
