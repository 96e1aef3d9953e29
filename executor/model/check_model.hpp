// Has a file everything that its configuration needs, and nothing that the configuration has no place for? Loaders end
// with this question, so that nobody after them has to ask.
#pragma once

#include <string>
#include <string_view>

#include <inlay/model/model_file.hpp>

namespace inlay::exec {

// Lists have an entry for each. The deepest models have some hundred.
inline constexpr index max_layers = 1024;

// Numbers that later code multiplies, loops over and sizes memory by.
Status check_config(const ModelConfig& config, const std::string& origin);

Status check_model(const ModelFile& file);

// What of it concerns the tokenizer alone.
Status check_vocabulary(const ModelFile& file);

// Tensors that files bring and that no model needs: they hold what the configuration says, too. Any other name that
// the model has no place for is refused.
bool is_needless(std::string_view name);

// Norms with weights for each head are a matrix in files, {heads, head_dim}, and a vector here.
void flatten_head_norm(const ModelConfig& config, WeightTensor& tensor);

// "[32, 8]"
std::string describe_extents(const WeightTensor& tensor);

}  // namespace inlay::exec
