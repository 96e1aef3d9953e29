// Writes any model that can be loaded as GGUF, quantized if asked for.
//
//   write_gguf(*load_model("dir"), "model.gguf", {.weights = WeightFormat::q8_0});
//
// The file's tensors are dropped from memory as they are written: write a ModelFile once.
// What is quantized: the matrices of the linears. Vectors become F32. Embeddings stay as they are,
// except that F32 ones become F16 when the linears get smaller than that.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

// int8 is ours: an I8 tensor [n, k] and beside it "<name>.scale", F32 [n]; w = scale[n] * q.
enum class WeightFormat { keep, f32, f16, bf16, int8, q8_0, q4_0 };

// The names that `--quantize` takes; w4a16 is q4_0.
Expected<WeightFormat> parse_weight_format(std::string_view name);

struct ConvertOptions {
  WeightFormat weights = WeightFormat::keep;
};

struct ConvertReport {
  index tensors = 0, bytes = 0;
  std::vector<std::string> notes = {};  // what could not take the wanted form, and what only we can read
};

// Refuses, and leaves no file, where the model has tensors without a place in it, or facts that GGUF has no form for.
Expected<ConvertReport> write_gguf(const ModelFile& file, const std::string& path, const ConvertOptions& options = {});

// GGUF, .safetensors or a Hugging Face directory to GGUF.
Expected<ConvertReport> convert(const std::string& in, const std::string& out, const ConvertOptions& options = {});

Expected<ConvertReport> convert_llama2c(const std::string& bin, const std::string& tokenizer, const std::string& out,
                                        const ConvertOptions& options = {});

}  // namespace inlay::exec
