// Checkpoints whose linears are codes: what quantization_config says of them, and their tensors put together.
//
//   gptq   qweight qzeros scales g_idx            Frantar et al., 2022 (AutoGPTQ, GPTQModel)
//   awq    qweight qzeros scales                  Lin et al., 2023 (AutoAWQ's GEMM form)
//   fp8    weight (F8_E4M3), weight_scale_inv of blocks or weight_scale     DeepSeek-AI, 2024: read as BF16
//
// compressed-tensors (vLLM's llm-compressor) names a format of its own, which is one of these:
//
//   pack-quantized      weight_packed weight_scale weight_zero_point weight_g_idx: GPTQ's, turned over
//   int-quantized       weight (I8), weight_scale
//   float-quantized     fp8
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <inlay/model/model_file.hpp>

#include "executor/model/hf/safetensors.hpp"
#include "executor/model/json/json.hpp"

namespace inlay::exec {

struct HfQuantization {
  enum class Method : unsigned char { none, gptq, awq, fp8, packed, int8 };
  Method method = Method::none;
  index bits = 4, group = 0;                // group: 0 for the whole row
  bool v2 = false;                          // GPTQ's zero points are stored as they are
  bool symmetric = true;                    // packed: there are no zero points
  index block_rows = 0, block_columns = 0;  // of fp8's scales; 0: a scale for each row, or one for all
  std::string block_scale = "weight_scale_inv";
};

// `config`: of config.json, or of quantize_config.json and quant_config.json, which older writers leave beside it.
Expected<HfQuantization> hf_quantization(const Json& config, const std::string& origin);

// A linear's tensors, by the last part of the name.
struct HfQuantizedPart {
  SafetensorsFile::Raw tensor;
  std::string path;
};
using HfQuantizedLinear = std::map<std::string, HfQuantizedPart>;

// The parts of quantized linears, gathered over the shards.
class HfQuantizedParts {
 public:
  explicit HfQuantizedParts(const HfQuantization& quantization) : quantization_(quantization) {}

  // Is "model.layers.0.mlp.up_proj.qzeros" one? Then it is kept.
  bool take(const std::string& name, const SafetensorsFile& file, const SafetensorsFile::Raw& tensor);
  // Of every linear one tensor of its "<stem>.weight", whose memory joins `memory`.
  Expected<std::vector<WeightTensor>> tensors(std::vector<std::shared_ptr<const Mapping>>& memory) const;

 private:
  Expected<WeightTensor> tensor(const std::string& stem, const HfQuantizedLinear& linear,
                                std::vector<std::shared_ptr<const Mapping>>& memory) const;
  Expected<WeightTensor> codes(const std::string& stem, const HfQuantizedLinear& linear,
                               std::vector<std::shared_ptr<const Mapping>>& memory) const;
  Expected<WeightTensor> widened(const std::string& stem, const HfQuantizedLinear& linear,
                                 std::vector<std::shared_ptr<const Mapping>>& memory) const;

  HfQuantization quantization_;
  std::map<std::string, HfQuantizedLinear> linears_;
};

}  // namespace inlay::exec
