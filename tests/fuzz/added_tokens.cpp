// Added tokens of a small vocabulary, and a text:
//
//   {"base": 0, "list": [..], "config": {..}, "added": {..}, "specials": {..}, "generation": {..}, "text": ".."}
//
// "base" is which vocabulary; "list" the added_tokens of its tokenizer.json. The others are tokenizer_config.json,
// added_tokens.json, special_tokens_map.json and generation_config.json; "text" as in tokenizers.cpp. Where no token
// looks at what stands beside it, they must be found where the definition has them, and the text must come back.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/text/tokenizer.hpp>

#include "executor/model/hf/tokenizer.hpp"
#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/fuzz/support/small_vocabularies.hpp"
#include "tests/fuzz/support/use_model.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

namespace {

using Type = exec::TokenizerData::TokenType;
using exec::Token;

struct Special {
  std::string_view text;
  Token id;
  bool always, normalized;
};

// The leftmost first, of those at one place the longest, of equal ones the one of the smallest id; those in normal form
// in what the others left over.
void cut(std::string_view text, const std::vector<Special>& all, bool parse, bool normalized, std::vector<Token>& ids) {
  std::size_t done = 0;
  const auto rest = [&](std::size_t end) {
    if (!normalized) cut(text.substr(done, end - done), all, parse, true, ids);
  };
  for (std::size_t at = 0; at < text.size();) {
    const Special* best = nullptr;
    for (const Special& each : all)
      if (each.normalized == normalized && (parse || each.always) && text.substr(at).starts_with(each.text) &&
          (best == nullptr || each.text.size() > best->text.size()))
        best = &each;
    if (best == nullptr) {
      ++at;
      continue;
    }
    rest(at);
    ids.push_back(best->id);
    done = at += best->text.size();
  }
  rest(text.size());
}

// Byte-level BPE in which words and cut tokens have ids of their own, and each token is what the text has.
bool is_plain(const exec::TokenizerData& t) {
  const auto words = t.types.begin() + std::min<std::ptrdiff_t>(fuzz::byte_level_words, std::ssize(t.types));
  return t.kind == exec::TokenizerData::Kind::bpe && !t.nfc && t.lstrip.empty() && t.rstrip.empty() &&
         t.single_word.empty() && std::all_of(t.types.begin(), words, [](Type type) { return type == Type::normal; }) &&
         std::none_of(words, t.types.end(), [](Type type) { return type == Type::normal || type == Type::unknown; });
}

void check_definition(const exec::TokenizerData& data, const exec::Tokenizer& tokenizer, std::string_view text) {
  std::vector<Special> specials;
  for (Token id = 0; id < tokenizer.vocab_size(); ++id)
    if (const auto i = static_cast<std::size_t>(id); tokenizer.is_special(id) && !data.tokens[i].empty())
      specials.push_back({data.tokens[i], id, data.types[i] == Type::user_defined,
                          std::find(data.normalized.begin(), data.normalized.end(), id) != data.normalized.end()});
  for (const bool parse : {false, true}) {
    const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = parse});
    if (!ids) continue;  // a byte has no token
    std::vector<Token> found, expected;
    std::string back;
    for (const Token id : *ids) {
      if (tokenizer.is_special(id)) found.push_back(id);
      back += tokenizer.is_special(id) ? tokenizer.text_of(id) : tokenizer.piece(id);
    }
    cut(text, specials, parse, false, expected);
    if (found != expected) fuzz::broken_promise("added tokens are found where the definition has them");
    if (back != text) fuzz::broken_promise("the tokens are those of the text");
  }
}

// Each id that generation_config.json says, and that there is, ends a text.
void check_ends(const fuzz::Json* generation, const exec::Tokenizer& tokenizer) {
  const fuzz::Json* const ends = generation ? fuzz::member(*generation, "eos_token_id") : nullptr;
  if (ends == nullptr) return;
  for (const fuzz::Json& each : ends->is_array() ? *ends : fuzz::Json::array({*ends}))
    if (each.is_number_unsigned() && each.get<std::uint64_t>() < fuzz::vocabulary_rows &&
        !tokenizer.stops(each.get<Token>()))
      fuzz::broken_promise("what generation_config.json says ends a text");
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return fuzz::mutate_json(data, size, max_size, seed, 20);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Json input = fuzz::input_of(data, size);
  if (input.is_discarded()) return 0;
  const fuzz::Json *base = fuzz::member(input, "base"), *list = fuzz::member(input, "list");
  const std::size_t which = base && base->is_number_unsigned() ? base->get<std::size_t>() : 0;
  const fuzz::CheckpointFiles& files = fuzz::checkpoint_files();
  std::size_t read = size + fuzz::write_vocabulary(files, which, list ? *list : fuzz::Json::array());
  files.write("tokenizer_config.json", fuzz::member(input, "config"));
  files.write("added_tokens.json", fuzz::member(input, "added"));
  files.write("special_tokens_map.json", fuzz::member(input, "specials"));
  files.write("generation_config.json", fuzz::member(input, "generation"));
  const test::Growth growth;
  const auto refused = [&](const Status& status) {
    fuzz::expect_clean(status, files.directory()), fuzz::expect_bounded(growth.bytes(), read);
    return 0;
  };
  const auto vocabulary = exec::hf_tokenizer(files.directory(), {}, fuzz::vocabulary_rows);
  if (!vocabulary) return refused(vocabulary.error());
  if (!vocabulary->problem.empty()) return refused({StatusCode::unsupported, vocabulary->problem});
  const std::string text = fuzz::bytes_of(fuzz::member(input, "text"));
  const auto tokenizer = exec::Tokenizer::make(*vocabulary);
  if (!tokenizer) return fuzz::expect_clean(tokenizer.error()), 0;
  fuzz::use_tokenizer(*tokenizer, text);
  check_ends(fuzz::member(input, "generation"), *tokenizer);
  if (is_plain(*vocabulary)) check_definition(*vocabulary, *tokenizer, text);
  fuzz::expect_bounded(growth.bytes(), read);
  return 0;
}
