// What a tokenizer.json does to a text before its model sees it, and to tokens that become text again.
#pragma once

#include <string_view>
#include <vector>

#include <inlay/text/vocabulary.hpp>

#include "executor/model/hf/tokenizer_refusal.hpp"

namespace inlay::exec {

// What a step is: each of them says so.
inline std::string_view type_of(const Json& step) { return step.find("type").text(); }

// Normalizer, pre_tokenizer and decoder. They tell what kind of BPE it is: over bytes where there is a ByteLevel, else
// over characters. `splits`: the expressions that cut the words of the former (PreTokenizer::splits).
void read_tokenizer_steps(const Json& json, TokenizerRefusal& refusal, TokenizerData& data,
                          std::vector<std::string_view>& splits);

}  // namespace inlay::exec
