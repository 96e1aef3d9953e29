// Names of tensors in Hugging Face checkpoints.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "executor/model/family.hpp"

namespace inlay::exec {

// Their name to GGUF's; nothing for those that we do not know. Models of several modalities have their text model under
// a prefix.
std::optional<std::string> gguf_name(std::string_view name, const Family& family);

// Takes "model.layers.3." off a name, with the prefixes that models of several modalities have before it; false, and
// nothing taken, where it is no layer's.
bool take_hf_layer(std::string_view& name, index& layer);

// Is it a part of another modality's model, which text does not pass?
bool is_of_another_modality(std::string_view name);

}  // namespace inlay::exec
