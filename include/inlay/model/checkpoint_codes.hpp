// A linear's weight as GPTQ or AWQ left it in a Hugging Face checkpoint: views of the file's own tensors, which
// pack_weight hands to the importers of weights/linear_w4a16_import.hpp.
#pragma once

#include <array>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <inlay/model/mapped_file.hpp>
#include <inlay/weights/linear_w4a16_import.hpp>

namespace inlay::exec {

struct CheckpointCodes {
  std::variant<GptqWeight, AwqWeight> weight;
  std::array<index, 2> extents{};                 // n, k
  std::vector<std::span<const std::byte>> bytes;  // of the tensors, whose pages may be given back
  const char* maker = "GPTQ";                     // who wrote them

  std::string format() const;  // "GPTQ, 4 bits"
  Status check() const;        // what the importers refuse
  Expected<PackedW4> packed(const Parallel& parallel = serial()) const;
  // The channels first .. first + rows; words of zero points hold several, so that both must divide by how many.
  Expected<CheckpointCodes> sliced(index first, index rows) const;
  // One channel as floats, out[0..k-1].
  Status read_row(index row, float* out) const;
};

}  // namespace inlay::exec
