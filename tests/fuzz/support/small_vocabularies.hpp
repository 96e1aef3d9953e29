// Vocabularies of a few hundred tokens, as the files of a checkpoint have them.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/text/spm.hpp>
#include <inlay/text/vocabulary.hpp>

#include "executor/text/byte_alphabet.hpp"
#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/model/support/sentencepiece_file.hpp"

namespace inlay::fuzz {

// Of byte-level BPE: these bytes and two words of them. A text with others is refused.
inline constexpr std::string_view known_bytes = "<>|/[]{}_- \n\tabcdefghijklmnopqrstuvwxyzABX0123456789\xc3\xa9\xff";
inline constexpr std::size_t byte_level_words = known_bytes.size() + 2, vocabulary_rows = 300;

inline Json byte_level_bpe(bool nfc) {
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  Json vocab = Json::object();
  for (const char byte : known_bytes) vocab[exec::to_byte_alphabet({&byte, 1})] = vocab.size();
  const std::string space = exec::to_byte_alphabet(" ");
  for (const std::string& word : {std::string("ab"), space + "ab"}) vocab[word] = vocab.size();
  return {{"normalizer", nfc ? Json{{"type", "NFC"}} : Json()},
          {"pre_tokenizer", bytes},
          {"decoder", bytes},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", space + " ab"}}}}};
}

inline Json character_bpe() {
  const std::string space(exec::spm_space);
  const auto replace = [](const std::string& what, const std::string& with) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", with}};
  };
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(b));
    vocab[name] = b;
  }
  for (const std::string& word : {space, std::string("a"), std::string("b"), std::string("ab"), space + "ab"})
    vocab[word] = vocab.size();
  return {{"normalizer",
           {{"type", "Sequence"}, {"normalizers", {{{"type", "Prepend"}, {"prepend", space}}, replace(" ", space)}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {replace(space, " "),
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model", {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocab}, {"merges", {"a b", space + " ab"}}}}};
}

inline std::string sentencepiece_model() {
  using Type = exec::TokenizerData::TokenType;
  const std::string space(exec::spm_space), spaced = space + "ab";
  exec::TokenizerData t{
      .tokens = {"<unk>", "<s>", "</s>", "<0x0A>", "<0xFF>", "a", "b", "ab", space, spaced, "<|end|>"}};
  t.types = {Type::unknown, Type::control, Type::control, Type::byte};
  t.types.resize(t.tokens.size(), Type::normal);
  t.types[4] = Type::byte, t.types.back() = Type::user_defined;
  t.scores.assign(t.tokens.size(), 0);
  t.add_space_prefix = true;
  return exec::test::sentencepiece_file(t);
}

// The bytes that it takes. SentencePiece has no list of its own: its added tokens are those of the other files.
inline std::size_t write_vocabulary(const CheckpointFiles& files, std::size_t which, const Json& added) {
  // Each up to its brace: the list comes behind the rest.
  static const std::vector<std::string> with_list = [] {
    std::vector<std::string> texts;
    for (const Json& each : {byte_level_bpe(false), byte_level_bpe(true), character_bpe()})
      texts.push_back(each.dump()), texts.back().pop_back();
    return texts;
  }();
  static const std::string pieces = sentencepiece_model();
  if ((which %= with_list.size() + 1) == with_list.size()) {
    files.write("tokenizer.json", nullptr), files.write("tokenizer.model", pieces);
    return pieces.size();
  }
  const std::string list = added.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string text = with_list[which] + ",\"added_tokens\":" + list + "}";
  files.write("tokenizer.json", text);
  return text.size();
}

}  // namespace inlay::fuzz
