// How text is cut into words before BPE merges inside them: what the names in GGUF's tokenizer.ggml.pre stand for.
#pragma once

#include <span>
#include <string_view>

#include <inlay/text/vocabulary.hpp>

namespace inlay::exec {

struct PreTokenizer {
  std::string_view name;
  // Expressions as Hugging Face writes them. Each cuts every piece that the ones before it left into
  // its matches and what lies between them.
  std::span<const std::string_view> splits;
  // What else vocabularies of this name do, where their file does not say it.
  bool ignore_merges = false;
  bool nfc = false;
  bool add_bos = false;
};

std::span<const PreTokenizer> pre_tokenizers();

// Is every text made of the expression's matches, with nothing between them? False of one that is not known.
bool leaves_nothing(std::string_view split);

// The words of GPT-2, and of every byte-level vocabulary that states no others.
std::string_view gpt2_words();

// Sets `data.pre`, and what else goes with the name. An unknown one is kept, and refused by Tokenizer::make.
void set_pre_tokenizer(TokenizerData& data, std::string_view name);

}  // namespace inlay::exec
