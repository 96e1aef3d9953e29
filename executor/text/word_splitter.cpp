#include "executor/text/word_splitter.hpp"

#include <inlay/core/quote.hpp>
#include <inlay/text/pre_tokenizer.hpp>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <limits>
#include <string>

#include "executor/text/utf8.hpp"

namespace inlay::exec {
namespace {

// Hugging Face's engine takes Unicode's White_Space for \s. PCRE2's own \s has U+180E too, so it is spelled out.
std::string spell_out_space(std::string_view expression) {
  const std::string space = R"(\t-\r\x{85}\p{Z})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c != '\\') {
      if (c == '[' || c == ']') in_class = c == '[';
      out += c;
      continue;
    }
    const char escaped = expression[++i];  // none of ours ends with a backslash
    if (escaped == 's')
      out += in_class ? space : "[" + space + "]";
    else if (escaped == 'S')  // none of ours has it in a class
      out += "[^" + space + "]";
    else
      (out += c) += escaped;
  }
  return out;
}

// [a&&[^b]] is a that is no b; PCRE2 has no such classes before 10.45.
std::string without_intersections(std::string expression) {
  constexpr std::string_view both = "&&[^";
  for (std::size_t at; (at = expression.find(both)) != expression.npos;) {
    const std::size_t begin = expression.rfind('[', at), end = expression.find("]]", at);
    const std::string excluded = expression.substr(at + both.size(), end - at - both.size());
    expression.replace(begin, end + 2 - begin,
                       "(?:(?![" + excluded + "])" + expression.substr(begin, at - begin) + "])");
  }
  return expression;
}

// A script's characters alone: from 10.40 on PCRE2's \p{Han} has those, too, that Chinese shares with other scripts.
std::string by_script(std::string expression) {
  constexpr std::string_view plain = R"(\p{Han})", alone = R"(\p{sc:Han})";
  constexpr bool shares = PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40;
  std::size_t at = 0;
  while (shares && (at = expression.find(plain, at)) != expression.npos) expression.replace(at, plain.size(), alone);
  return expression;
}

// An expression as PCRE2 takes it, and in time that is linear in the text.
std::string as_pcre2(std::string_view expression) {
  // A run of spaces that ends the text. It is looked for once from its first space, not from each.
  if (expression == R"(\s+$)") return spell_out_space(R"((?<!\s)\s++\z)");
  return spell_out_space(by_script(without_intersections(std::string(expression))));
}

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

}  // namespace

struct WordSplitter::Expression {
  explicit Expression(pcre2_code* compiled) : code(compiled) {}
  ~Expression() { pcre2_code_free(code); }
  Expression(const Expression&) = delete;
  Expression& operator=(const Expression&) = delete;

  pcre2_code* code;
};

Expected<WordSplitter> WordSplitter::make(std::string_view pre) {
  WordSplitter result;
  std::string names;
  for (const PreTokenizer& known : pre_tokenizers()) {
    (names += names.empty() ? "" : ", ") += known.name;
    if (known.name != pre) continue;
    for (const std::string_view split : known.splits) {
      const std::string pattern = as_pcre2(split);
      int error = 0;
      PCRE2_SIZE at = 0;
      pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                       PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
      if (!code) return failure(StatusCode::internal, "PCRE2 error " + std::to_string(error) + " in a pre-tokenizer");
      (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without a JIT the same matches come slower
      result.expressions_.push_back(std::make_shared<const Expression>(code));
    }
    return result;
  }
  return failure(StatusCode::unsupported, "the pre-tokenizer " + quote(pre) + "; it must be one of " + names);
}

Status WordSplitter::split(std::string_view text, std::vector<std::string_view>& words) const {
  while (!text.empty()) {
    std::size_t valid = utf8_stretch(text);
    if (valid > 0)
      if (Status status = split_valid(text.substr(0, valid), 0, words); !status) return status;
    if (valid < text.size()) words.push_back(text.substr(valid++, 1));
    text.remove_prefix(valid);
  }
  return {};
}

Status WordSplitter::split_valid(std::string_view text, std::size_t level, std::vector<std::string_view>& words) const {
  if (level == expressions_.size()) {
    words.push_back(text);
    return {};
  }
  const pcre2_code* code = expressions_[level]->code;
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, FreeContext> context(pcre2_match_context_create(nullptr));
  if (!match || !context) return {StatusCode::out_of_memory, "PCRE2 has no memory for a match"};
  // A run of spaces is one word however long it is, and PCRE2 counts a step back for each of them. The expressions
  // are ours: each goes back over a run a fixed number of times, and then takes it whole.
  pcre2_set_match_limit(context.get(), std::numeric_limits<std::uint32_t>::max());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto next = [&](std::string_view piece) {
    return piece.empty() ? Status{} : split_valid(piece, level + 1, words);
  };
  std::size_t done = 0;
  while (done < text.size()) {
    // The text was checked once: checking it at every word would be quadratic.
    int found = pcre2_match(code, subject, text.size(), done, PCRE2_NO_UTF_CHECK, match.get(), context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found =
          pcre2_match(code, subject, text.size(), done, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.get(), context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) return {StatusCode::internal, "PCRE2 error " + std::to_string(found) + " while splitting text"};
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
    if (Status status = next(text.substr(done, span[0] - done)); !status) return status;
    if (Status status = next(text.substr(span[0], span[1] - span[0])); !status) return status;
    done = span[1];  // no expression matches the empty string
  }
  return next(text.substr(done));
}

}  // namespace inlay::exec
