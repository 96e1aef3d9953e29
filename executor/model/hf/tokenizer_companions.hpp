// The files beside a vocabulary: special_tokens_map.json, added_tokens.json and tokenizer_config.json. They add tokens to
// it, name those that begin and end a text, and say how text is prepared. Those that contradict one another are refused.
#pragma once

#include <filesystem>

#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>
#include <inlay/text/vocabulary.hpp>

namespace inlay::exec {

// `rows`: of the embedding. What is not supported becomes data.problem.
Status read_companions(const std::filesystem::path& directory, index rows, TokenizerData& data);

}  // namespace inlay::exec
