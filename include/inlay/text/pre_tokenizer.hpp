// Cuts text into words before BPE merges inside them, by the regular expressions of each vocabulary.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/text/quote.hpp>
#include <inlay/text/utf8.hpp>

namespace inlay::exec {

// Unicode's White_Space, spelled out: PCRE2's own \s also takes U+180E. For use inside brackets.
#define INLAY_EXEC_SPACE "\\t-\\r\\x{85}\\p{Z}"

// One expression cuts the text; a further one cuts each piece again.
inline std::vector<std::string> pre_tokenizer_patterns(std::string_view pre) {
  const std::string gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" INLAY_EXEC_SPACE
                           "\\p{L}\\p{N}]+|[" INLAY_EXEC_SPACE "]+(?![^" INLAY_EXEC_SPACE "])|[" INLAY_EXEC_SPACE "]+";
  // Llama 3 takes up to three digits at a time, Qwen 2 one.
  const auto gpt4 = [](const std::string& digits) {
    return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" + digits +
           "| ?[^" INLAY_EXEC_SPACE "\\p{L}\\p{N}]+[\\r\\n]*|[" INLAY_EXEC_SPACE "]*[\\r\\n]+|[" INLAY_EXEC_SPACE
           "]+(?![^" INLAY_EXEC_SPACE "])|[" INLAY_EXEC_SPACE "]+";
  };
  if (pre == "gpt-2") return {gpt2};
  if (pre == "llama-bpe" || pre == "llama3") return {gpt4("\\p{N}{1,3}")};
  if (pre == "qwen2") return {gpt4("\\p{N}")};
  if (pre == "default") return {"[\\p{P}\\$\\+<=>\\^~\\|]+", gpt2, "\\p{N}+", "[0-9][0-9][0-9]"};
  return {};
}
#undef INLAY_EXEC_SPACE

class PreTokenizer {
 public:
  static Expected<PreTokenizer> make(std::string_view pre) {
    PreTokenizer result;
    for (const std::string& pattern : pre_tokenizer_patterns(pre)) {
      int error = 0;
      PCRE2_SIZE at = 0;
      Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &at, nullptr));
      if (!code) return failure(StatusCode::internal, "PCRE2 error " + std::to_string(error) + " in a pre-tokenizer");
      (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without a JIT the same matches come slower
      result.patterns_.push_back(std::move(code));
    }
    if (result.patterns_.empty())
      return failure(StatusCode::unsupported,
                     "the pre-tokenizer " + quote(pre) + "; it must be gpt-2, llama-bpe, llama3, qwen2 or default");
    return result;
  }

  // The words of `text` in order, without gaps. A byte that is no UTF-8 is a word of its own.
  Status split(std::string_view text, std::vector<std::string_view>& words) const {
    while (!text.empty()) {
      std::size_t valid = 0;
      while (const std::size_t length = utf8_character(text.substr(valid))) valid += length;
      if (valid > 0)
        if (Status status = split_valid(text.substr(0, valid), 0, words); !status) return status;
      if (valid < text.size()) words.push_back(text.substr(valid++, 1));
      text.remove_prefix(valid);
    }
    return {};
  }

 private:
  struct FreeCode {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  struct FreeMatch {
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  using Code = std::unique_ptr<pcre2_code, FreeCode>;

  Status split_valid(std::string_view text, std::size_t level, std::vector<std::string_view>& words) const {
    if (level == patterns_.size()) {
      words.push_back(text);
      return {};
    }
    const pcre2_code* code = patterns_[level].get();
    const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
    if (!match) return {StatusCode::out_of_memory, "PCRE2 has no memory for a match"};
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const auto next = [&](std::string_view piece) {
      return piece.empty() ? Status{} : split_valid(piece, level + 1, words);
    };
    std::size_t done = 0;
    while (done < text.size()) {
      // The text was checked once: checking it at every word would be quadratic.
      int found = pcre2_match(code, subject, text.size(), done, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
      if (found == PCRE2_ERROR_JIT_STACKLIMIT)
        found = pcre2_match(code, subject, text.size(), done, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.get(), nullptr);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) return {StatusCode::internal, "PCRE2 error " + std::to_string(found) + " while splitting text"};
      const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
      if (Status status = next(text.substr(done, span[0] - done)); !status) return status;
      if (Status status = next(text.substr(span[0], span[1] - span[0])); !status) return status;
      done = span[1];  // no pattern matches the empty string
    }
    return next(text.substr(done));
  }

  std::vector<Code> patterns_;
};

}  // namespace inlay::exec
