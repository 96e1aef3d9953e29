#include "executor/model/json/json.hpp"

#include <bit>
#include <charconv>
#include <cmath>
#include <iterator>

namespace inlay::exec {
namespace {

constexpr std::size_t max_shown = 200;  // letters: more than quote() leaves of them

// JSON of a value until it is long enough.
class Writer {
 public:
  void write(const Json& value) {
    if (value.is_null()) out_ += "null";
    if (value.is_boolean()) out_ += value.is_true() ? "true" : "false";
    if (value.is_string()) write(value.text());
    if (value.is_natural())
      out_ += std::to_string(value.natural());
    else if (value.is_integer())
      out_ += std::to_string(value.integer());
    else if (value.is_number())
      write(value.number());
    if (value.is_array()) list('[', value.elements(), ']', [&](const Json& each) { write(each); });
    if (value.is_object())
      list('{', value.members(), '}', [&](const Json::Members::Member& each) {
        write(each.key), out_ += ':';
        write(each.value);
      });
  }

  std::string take() { return std::move(out_); }

 private:
  bool full() const { return out_.size() > max_shown; }

  template <class Range, class Write> void list(char open, const Range& range, char close, const Write& write_one) {
    out_ += open;
    bool first = true;
    for (const auto& each : range) {
      if (full()) return;
      if (!std::exchange(first, false)) out_ += ',';
      write_one(each);
    }
    out_ += close;
  }

  void write(std::string_view text) {
    constexpr std::string_view escaped = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt";
    constexpr char digits[] = "0123456789abcdef";
    out_ += '"';
    for (const char c : text.substr(0, max_shown)) {
      const std::size_t at = escaped.find(c);
      if (at != std::string_view::npos)
        (out_ += '\\') += letters[at];
      else if (static_cast<unsigned char>(c) < ' ')
        (out_ += "\\u00") += {digits[c >> 4], digits[c & 15]};
      else
        out_ += c;
    }
    out_ += '"';
  }

  // With a point or an exponent: it is no integer.
  void write(double number) {
    char digits[32];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
    const std::string_view text(digits, static_cast<std::size_t>(end - digits));
    out_ += text;
    if (text.find_first_of(".e") == std::string_view::npos) out_ += ".0";
  }

  std::string out_;
};

}  // namespace

double Json::number() const {
  switch (entry_->kind) {
    case Kind::natural: return static_cast<double>(natural());
    case Kind::negative: return static_cast<double>(integer());
    default: return std::bit_cast<double>(entry_->bits());
  }
}

Json::Elements Json::elements() const { return is_array() ? Elements(entry_ + 1, entry_->next(), text_) : Elements(); }

Json::Members Json::members() const { return is_object() ? Members(entry_ + 1, entry_->next(), text_) : Members(); }

Json::Elements Json::alone() const { return {entry_, entry_->next(), text_}; }

Json Json::operator[](std::size_t i) const {
  for (const Json each : elements())
    if (i-- == 0) return each;
  return {};
}

const JsonEntry* Json::lookup(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const JsonEntry* at = entry_ + 1; at != entry_->next(); at = at[1].next())
    if (at->kind == Kind::key && at->text(text_) == key) return at + 1;
  return nullptr;
}

Json Json::find(std::string_view key) const {
  const JsonEntry* const value = lookup(key);
  return value ? Json(value, text_) : Json();
}

std::string written(const Json& value) {
  Writer writer;
  writer.write(value);
  return writer.take();
}

std::string shown(const Json& value) {
  return value.is_string() ? std::string(value.text().substr(0, max_shown)) : written(value);
}

}  // namespace inlay::exec
