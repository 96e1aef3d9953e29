// The tensors of one quantized linear as the views that an importer reads. The first that is missing or of another form
// is the failure that made() tells; views behind it are empty.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <inlay/model/checkpoint_codes.hpp>
#include <inlay/model/model_file.hpp>

#include "executor/model/hf/quantization.hpp"

namespace inlay::exec {

// Of F32, F16, BF16, I8 and words.
DType part_dtype(const SafetensorsFile::Raw& tensor);
Status part_misfit(const std::string& path, const std::string& name, const std::string& what);

class GatheredCodes {
 public:
  GatheredCodes(const std::string& stem, const HfQuantizedLinear& linear,
                std::vector<std::shared_ptr<const Mapping>>& memory);

  ConstView<2> words(const char* last) { return matrix(last, Kind::words); }
  ConstView<2> bytes(const char* last) { return matrix(last, Kind::bytes); }
  ConstView<2> floats(const char* last) { return matrix(last, Kind::floats); }
  ConstView<1> word_list(const char* last);
  // What else is found to be wrong, of one of the tensors.
  void fail(const char* last, const std::string& what);
  bool ok() const { return status_.ok(); }

  // extents: n, k
  Expected<WeightTensor> made(std::variant<GptqWeight, AwqWeight> weight, const std::array<index, 2>& extents,
                              const char* maker) &&;

 private:
  enum class Kind : unsigned char { words, bytes, floats };

  ConstView<2> matrix(const char* last, Kind kind);
  const SafetensorsFile::Raw* part(const char* last, int rank, Kind kind);

  const std::string& stem_;
  const HfQuantizedLinear& linear_;
  std::vector<std::shared_ptr<const Mapping>>& memory_;
  std::vector<SafetensorsFile::Raw> parts_;
  std::vector<std::span<const std::byte>> bytes_;
  index size_ = 0;
  Status status_;
};

}  // namespace inlay::exec
