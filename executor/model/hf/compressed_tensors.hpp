// Linears as compressed-tensors has them, the format of vLLM's llm-compressor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/model/hf/quantization.hpp"
#include "executor/model/json/file.hpp"

namespace inlay::exec {

// Of quantization_config: its one form of weights, or a failure of `f`.
void read_compressed_tensors(const Json& config, JsonFields& f, HfQuantization& q);

// A linear of pack-quantized or int-quantized.
Expected<WeightTensor> compressed_codes(const HfQuantization& q, const std::string& stem,
                                        const HfQuantizedLinear& linear,
                                        std::vector<std::shared_ptr<const Mapping>>& memory);

}  // namespace inlay::exec
