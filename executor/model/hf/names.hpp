// Names of tensors in Hugging Face checkpoints.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace inlay::exec {

// Their name to GGUF's; nothing for those that we do not know.
std::optional<std::string> gguf_name(std::string_view name);

}  // namespace inlay::exec
