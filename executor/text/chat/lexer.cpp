#include "executor/text/chat/lexer.hpp"

#include <algorithm>
#include <utility>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/text.hpp"
#include "executor/text/utf8.hpp"

namespace inlay::exec::chat {
namespace {

using Type = Token::Type;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Expected<std::vector<Token>> run() {
    while (at_ < source_.size() && status_.ok()) {
      const std::size_t begin = next_tag();
      add_data(begin);
      if (begin == source_.size()) break;
      const char kind = source_[begin + 1];
      at_ = begin + 2;
      if (peek() == '-' || peek() == '+') ++at_;
      if (kind == '#')
        comment(begin);
      else
        tag(begin, kind == '{');
    }
    if (!status_.ok()) return failure(std::move(status_));
    tokens_.push_back({Type::end, static_cast<std::uint32_t>(source_.size()), {}});
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool starts(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void fail(std::size_t at, StatusCode code, const std::string& what) {
    if (status_.ok()) status_ = {code, place(source_, at) + what};
  }
  void add(Type type, std::size_t begin, std::size_t end) {
    tokens_.push_back({type, static_cast<std::uint32_t>(begin), source_.substr(begin, end - begin)});
  }

  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i)
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    return source_.size();
  }

  // The text before a tag, or before the end, without what the tag takes of it.
  void add_data(std::size_t tag) {
    std::string_view data = source_.substr(at_, tag - at_);
    const bool is_tag = tag < source_.size();
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (is_tag && sign == '-') {
      data.remove_suffix(trailing_space(data));
    } else if (is_tag && sign != '+' && source_[tag + 1] != '{') {
      const std::size_t line = data.rfind('\n') + 1;  // 0 where there is none
      const std::string_view before = data.substr(line);
      if ((line > 0 || begins_line_) && leading_space(before) == before.size()) data = data.substr(0, line);
    }
    if (!data.empty()) add(Type::data, at_, at_ + data.size());
  }

  // Behind a tag that ends at at_: white space, if `-` stood there, or one line break.
  void end_tag(bool takes_space, bool takes_line) {
    if (takes_space)
      at_ += leading_space(source_.substr(at_));
    else if (takes_line && peek() == '\n')
      ++at_;
    begins_line_ = source_[at_ - 1] == '\n';
  }

  void comment(std::size_t begin) {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return fail(begin, StatusCode::corrupt_data, "the comment has no end");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    end_tag(sign == '-', sign != '+');
  }

  void tag(std::size_t begin, bool is_output) {
    add(is_output ? Type::output_begin : Type::block_begin, begin, at_);
    const std::string_view end = is_output ? "}}" : "%}";
    const std::size_t first = tokens_.size();
    open_.clear();
    while (status_.ok()) {
      at_ += leading_space(source_.substr(at_));
      if (at_ >= source_.size()) return fail(begin, StatusCode::corrupt_data, "the tag has no end");
      const char sign = peek() == '-' || (peek() == '+' && !is_output) ? peek() : '\0';
      const std::size_t length = sign ? 1 : 0;
      if (open_.empty() && source_.substr(at_ + length).starts_with(end)) {
        add(is_output ? Type::output_end : Type::block_end, at_, at_ + length + 2);
        at_ += length + 2;
        return end_tag(sign == '-', !is_output && sign != '+');
      }
      word();
      if (!is_output && tokens_.size() == first + 1 && tokens_[first].text == "raw")
        fail(tokens_[first].at, StatusCode::unsupported, "the statement 'raw' is not supported");
    }
  }

  void word() {
    const std::size_t begin = at_;
    if (is_letter(peek())) {
      while (is_letter(peek()) || is_digit(peek())) ++at_;
      constexpr std::size_t longest = 200;  // a step of an evaluation compares some of them
      if (at_ - begin > longest)
        return fail(begin, StatusCode::unsupported, "a name of more than 200 letters is not supported");
      return add(Type::name, begin, at_);
    }
    if (is_digit(peek())) return number();
    if (peek() == '\'' || peek() == '"') {
      const char mark = peek();
      for (++at_; at_ < source_.size() && peek() != mark; ++at_)
        if (peek() == '\\') ++at_;
      if (at_ >= source_.size()) return fail(begin, StatusCode::corrupt_data, "the string has no end");
      ++at_;
      return add(Type::string, begin, at_);
    }
    for (const std::string_view symbol : {"//", "**", "==", "!=", ">=", "<="})
      if (starts(symbol)) {
        at_ += 2;
        return add(Type::symbol, begin, at_);
      }
    constexpr std::string_view single = "+-*/%~[](){}><=.:|,;";
    if (single.find(peek()) == std::string_view::npos)
      return fail(begin, StatusCode::corrupt_data,
                  "unexpected " + quote(source_.substr(at_, first_character(source_.substr(at_)))));
    bracket(peek());
    ++at_;
    add(Type::symbol, begin, at_);
  }

  void bracket(char c) {
    constexpr std::string_view opening = "([{", closing = ")]}";
    if (const std::size_t i = opening.find(c); i != std::string_view::npos) open_ += closing[i];
    if (closing.find(c) == std::string_view::npos) return;
    if (open_.empty() || open_.back() != c) return fail(at_, StatusCode::corrupt_data, "unexpected " + quote({&c, 1}));
    open_.pop_back();
  }

  void number() {
    const std::size_t begin = at_;
    while (is_digit(peek())) ++at_;
    const bool real = (peek() == '.' && is_digit(peek(1))) || ((peek() == 'e' || peek() == 'E') && is_digit(peek(1)));
    if (real || is_letter(peek()))
      return fail(begin, StatusCode::unsupported, "a number that is no decimal integer is not supported");
    const std::string_view digits = source_.substr(begin, at_ - begin);
    if (digits.size() > 18)
      return fail(begin, StatusCode::unsupported, "a number of more than 18 digits is not supported");
    if (digits[0] == '0' && digits.find_first_not_of('0') != std::string_view::npos)
      return fail(begin, StatusCode::corrupt_data, "a number begins with 0");
    add(Type::integer, begin, at_);
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool begins_line_ = true;  // at_ is the beginning of a line
  std::string open_;         // the brackets that must close what is open
  std::vector<Token> tokens_;
  Status status_;
};

int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

}  // namespace

std::string with_unix_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

std::string place(std::string_view source, std::size_t at) {
  const std::string_view before = source.substr(0, at);
  const std::size_t line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
  const std::size_t column = count_characters(before.substr(before.rfind('\n') + 1)) + 1;
  return "chat template, line " + std::to_string(line) + ", column " + std::to_string(column) + ": ";
}

Expected<std::vector<Token>> tokenize(std::string_view source) { return Lexer(source).run(); }

Expected<std::string> unquote(std::string_view source, const Token& token) {
  const std::string_view text = token.text.substr(1, token.text.size() - 2);
  constexpr std::string_view letters = "abfnrtv\\'\"", meant = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    const char c = text[++i];  // there is one, or the string would go on
    const std::size_t known = letters.find(c);
    const bool octal = c >= '0' && c <= '7';
    std::size_t most = octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (known != std::string_view::npos) {
      out += meant[known];
    } else if (most > 0) {
      std::uint32_t value = 0;
      const int base = octal ? 8 : 16;
      if (!octal) ++i;
      std::size_t digits = 0;
      for (; digits < most && i + digits < text.size() && digit_of(text[i + digits]) < base; ++digits)
        value = value * static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(digit_of(text[i + digits]));
      if ((!octal && digits < most) || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return failure(StatusCode::corrupt_data,
                       place(source, token.at) + "the string " + quote(token.text) + " has an escape of no character");
      append_utf8(out, value);
      i += digits - 1;
    } else if (c == 'N') {
      return failure(StatusCode::unsupported, place(source, token.at) + "the escape \\N is not supported");
    } else if (c != '\n') {  // an escaped line break is none; an unknown escape stays as it is
      (out += '\\') += c;
    }
  }
  return out;
}

}  // namespace inlay::exec::chat
