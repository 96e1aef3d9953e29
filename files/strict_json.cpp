#include "files/strict_json.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace inlay::files {
namespace {

using Json = nlohmann::json;

constexpr std::size_t shown_of_value = 80, shown_of_reason = 200;  // characters that a message quotes

std::string printable(std::string_view text, std::size_t shown = shown_of_value) {
  std::string result(text.substr(0, shown));
  for (char& c : result)
    if (c < ' ' || c > '~') c = '?';
  if (text.size() > shown) result += "..";
  return result;
}

// Walks the text once and stops at the first thing that breaks a limit. It builds nothing: what it lets
// pass is small and flat enough for the library's own parser.
class Limiter final : public nlohmann::json_sax<Json> {
 public:
  explicit Limiter(const JsonLimits& limits) : limits_(limits) {}

  const std::string& message() const { return message_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.step = child("", name);
    if (level.keys.insert(name).second) return true;
    return refuse(pointer() + " stands twice: a key must be unique");
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) override {
    std::string_view reason = error.what();
    if (const auto end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
    return refuse(pointer() + ": the text here must be JSON; byte " + std::to_string(position) + ": " +
                  printable(reason, shown_of_reason));
  }

 private:
  struct Level {
    bool array = false;
    std::size_t elements = 0;  // of an array, so far
    std::set<std::string> keys;
    std::string step;  // "/key" that was read last in an object; empty before the first
  };

  bool refuse(std::string message) {
    message_ = std::move(message);
    return false;
  }

  // Of the value that was read last, or of the place where the next one belongs.
  std::string pointer() const {
    std::string result;
    for (const Level& level : levels_)
      result += level.array ? child("", level.elements == 0 ? 0 : level.elements - 1) : level.step;
    return result.empty() ? "/" : result;
  }

  bool value() {
    if (!levels_.empty()) ++levels_.back().elements;
    if (++values_ <= limits_.values) return true;
    return refuse(pointer() + " is value number " + std::to_string(values_) + ": there must be at most " +
                  std::to_string(limits_.values));
  }

  bool open(bool array) {
    if (!value()) return false;
    if (levels_.size() == limits_.depth)
      return refuse(pointer() + " is nested " + std::to_string(levels_.size() + 1) + " deep: it must be at most " +
                    std::to_string(limits_.depth));
    levels_.emplace_back().array = array;
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  const JsonLimits limits_;
  std::vector<Level> levels_;
  std::size_t values_ = 0;
  std::string message_;
};

}  // namespace

std::string child(const std::string& pointer, std::string_view key) {
  std::string result = pointer + "/";
  for (const char c : printable(key)) {
    if (c == '~')
      result += "~0";
    else if (c == '/')
      result += "~1";
    else
      result += c;
  }
  return result;
}

std::string child(const std::string& pointer, std::size_t index) { return pointer + "/" + std::to_string(index); }

std::string describe(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

namespace {

template <class Document> tl::expected<Document, Status> parse_within(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return failure(StatusCode::corrupt_data, "/ has " + std::to_string(text.size()) + " bytes: it must have at most " +
                                                 std::to_string(limits.bytes));
  Limiter limiter(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &limiter)) return failure(StatusCode::corrupt_data, limiter.message());
  return Document::parse(text.begin(), text.end(), nullptr, false);
}

}  // namespace

tl::expected<Json, Status> parse_strict_json(std::string_view text, const JsonLimits& limits) {
  return parse_within<Json>(text, limits);
}
tl::expected<nlohmann::ordered_json, Status> parse_strict_ordered_json(std::string_view text,
                                                                       const JsonLimits& limits) {
  return parse_within<nlohmann::ordered_json>(text, limits);
}

}  // namespace inlay::files
