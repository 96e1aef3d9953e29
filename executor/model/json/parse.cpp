// Text to entries. nlohmann's parser says what the text holds. Before it, one walk over the text counts what there will
// be, so that room for it is made once, and refuses what is not put together as JSON is: the parser would describe that
// in several copies of all that it has read since the last text or number.
//
// Python's json writes NaN, Infinity and -Infinity, which are no JSON, where a number is one of them, and configs of
// models have them (Granite's time_step_limit). They become texts: a key that computes refuses them as no number.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include <nlohmann/json.hpp>

#include "executor/model/json/json.hpp"
#include "executor/text/seeded_hash.hpp"

namespace inlay::exec {
namespace {

constexpr std::size_t longest_number = 1000;  // letters

// Goes by brackets, separators and where texts and words begin and end, not by what stands in a text or a number.
//
// A value or a key stands where the text begins or behind one of [ { , : and each but the first thus takes two letters:
// its own and that one, or the bracket that it ends with.
class Survey {
 public:
  explicit Survey(std::string_view text) : text_(text) {
    constexpr std::string_view mark = "\xef\xbb\xbf";  // U+FEFF, which the parser passes over
    if (text_.starts_with(mark)) at_ = mark.size();
    while (problem_.empty() && at_ < text_.size() && text_[at_] != '\0') token();  // a zero ends it for the parser too
    if (next_ != Next::nothing) refuse("no JSON object");
  }

  std::size_t entries() const { return entries_; }
  const std::string& problem() const { return problem_; }  // empty where it may be JSON
  // What the parser is to read: the text, or a copy whose words of Python are in quotes.
  std::string_view json() {
    if (quoted_.empty()) return text_;
    copy_before(text_.size());
    return quoted_;
  }

 private:
  enum class Next { value, value_or_end, key, key_or_end, colon, comma_or_end, nothing };

  void token() {
    const char c = text_[at_++];
    switch (c) {
      case ' ':
      case '\t':
      case '\n':
      case '\r': return;
      case '[':
      case '{': return open(c);
      case ']': return close('[', Next::value_or_end);
      case '}': return close('{', Next::key_or_end);
      case ':':
        if (next_ != Next::colon) return refuse("no JSON object");
        next_ = Next::value;
        return;
      case ',':
        if (next_ != Next::comma_or_end) return refuse("no JSON object");
        next_ = open_[depth_ - 1] == '[' ? Next::value : Next::key;
        return;
      case '"': return text();
      default: --at_, word();
    }
  }

  bool value_may_come() const { return next_ == Next::value || next_ == Next::value_or_end; }
  void value_ended() { next_ = depth_ > 0 ? Next::comma_or_end : Next::nothing; }

  void open(char bracket) {
    if (!value_may_come()) return refuse("no JSON object");
    if (depth_ == open_.size())
      return refuse("nested deeper than the " + std::to_string(deepest_json) + " levels that JSON may have");
    ++entries_;
    open_[depth_++] = bracket;
    next_ = bracket == '[' ? Next::value_or_end : Next::key_or_end;
  }

  void close(char bracket, Next when_empty) {
    if (depth_ == 0 || open_[depth_ - 1] != bracket || (next_ != when_empty && next_ != Next::comma_or_end))
      return refuse("no JSON object");
    --depth_;
    value_ended();
  }

  void text() {
    const bool key = next_ == Next::key || next_ == Next::key_or_end;
    if (!key && !value_may_come()) return refuse("no JSON object");
    ++entries_;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    if (at_ >= text_.size()) return refuse("no JSON object");
    ++at_;
    key ? void(next_ = Next::colon) : value_ended();
  }

  void word() {
    constexpr std::string_view of_numbers = "0123456789+-.eE";
    const auto end = std::min(text_.find_first_not_of(of_numbers, at_), text_.size());
    std::size_t length = end - at_;
    for (const std::string_view known : {"null", "true", "false"})
      if (text_.substr(at_).starts_with(known)) length = known.size();
    bool of_python = false;
    for (const std::string_view known : {"NaN", "Infinity", "-Infinity"})
      if (text_.substr(at_).starts_with(known)) length = known.size(), of_python = true;
    if (!value_may_come() || length == 0) return refuse("no JSON object");
    if (of_python) copy_before(at_), quoted_ += '"', copy_before(at_ + length), quoted_ += '"';
    if (length > longest_number)
      return refuse("a number of " + std::to_string(length) + " letters; it must have at most " +
                    std::to_string(longest_number));
    ++entries_;
    at_ += length;
    value_ended();
  }

  void refuse(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  // The text up to there, as it is, into the copy.
  void copy_before(std::size_t end) {
    quoted_ += text_.substr(copied_, end - copied_);
    copied_ = end;
  }

  std::string_view text_;
  std::string quoted_;
  std::size_t at_ = 0, copied_ = 0, depth_ = 0;
  std::array<char, deepest_json> open_{};
  Next next_ = Next::value;
  std::size_t entries_ = 0;
  std::string problem_;
};

// What nlohmann's parser calls, value by value. False from any of them ends it.
class Builder {
 public:
  // The text grows as it comes: the parser holds several copies of a long one that turns out to be none.
  explicit Builder(std::size_t entries) { entries_.reserve(entries); }

  bool null() { return add(Kind::null); }
  bool boolean(bool value) { return add(value ? Kind::yes : Kind::no); }
  bool number_integer(std::int64_t value) { return add(Kind::negative, static_cast<std::uint64_t>(value)); }
  bool number_unsigned(std::uint64_t value) { return add(Kind::natural, value); }
  bool number_float(double value, const std::string&) { return add(Kind::real, std::bit_cast<std::uint64_t>(value)); }
  bool string(const std::string& value) { return add_text(Kind::string, value); }
  bool binary(const std::vector<std::uint8_t>&) { return false; }  // JSON has none
  bool key(const std::string& name) { return add_text(Kind::key, name); }
  bool start_array(std::size_t) { return open(Kind::array); }
  bool start_object(std::size_t) { return open(Kind::object); }
  bool end_array() { return close(), true; }
  bool end_object() { return hide_replaced(close()), true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) { return false; }

  JsonDocument take() {
    text_->shrink_to_fit();
    return {std::move(entries_), std::move(text_)};
  }

 private:
  using Kind = JsonEntry::Kind;

  bool add(Kind kind, std::uint64_t bits = 0) {
    return add(kind, static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32));
  }
  bool add(Kind kind, std::uint32_t first, std::uint32_t second) {
    // Elements and keys are what an array and an object count.
    if (!open_.empty())
      if (JsonEntry& around = entries_[open_.back()]; around.kind == Kind::array || kind == Kind::key) ++around.second;
    entries_.push_back({kind, first, second});
    return true;
  }
  bool add_text(Kind kind, const std::string& text) {
    add(kind, static_cast<std::uint32_t>(text_->size()), static_cast<std::uint32_t>(text.size()));
    text_->append(text);
    return true;
  }
  bool open(Kind kind) {
    add(kind);
    open_.push_back(entries_.size() - 1);
    return true;
  }
  JsonEntry& close() {
    JsonEntry& closed = entries_[open_.back()];
    closed.first = static_cast<std::uint32_t>(entries_.size() - open_.back());
    open_.pop_back();
    return closed;
  }

  std::string_view text_of(const JsonEntry& key) const { return key.text(text_->data()); }

  static void hide(JsonEntry& object, JsonEntry& key) {
    key.kind = Kind::hidden_key;
    --object.second;
  }

  // Each with each where they are few. Else with a table of those that stand so far, by hash: where they are within the
  // object. Six bytes for a member.
  void hide_replaced(JsonEntry& object) {
    constexpr std::uint32_t few = 8;
    if (object.second > few) return hide_replaced_of_many(object);
    const std::uint32_t end = object.first;
    for (std::uint32_t at = 1; at != end; at = behind_member(object, at))
      for (std::uint32_t earlier = 1; earlier != at; earlier = behind_member(object, earlier)) {
        JsonEntry& key = (&object)[earlier];
        if (key.kind == Kind::key && text_of(key) == text_of((&object)[at])) hide(object, key);
      }
  }
  void hide_replaced_of_many(JsonEntry& object) {
    std::vector<std::uint32_t> table(object.second + object.second / 2);
    const std::uint32_t end = object.first;
    for (std::uint32_t at = 1; at != end; at = behind_member(object, at)) {
      const std::string_view key = text_of((&object)[at]);
      std::size_t slot = hash_(key) % table.size();
      while (table[slot] != 0 && text_of((&object)[table[slot]]) != key) slot = slot + 1 == table.size() ? 0 : slot + 1;
      if (table[slot] != 0) hide(object, (&object)[table[slot]]);
      table[slot] = at;
    }
  }
  static std::uint32_t behind_member(const JsonEntry& object, std::uint32_t key) {
    return static_cast<std::uint32_t>((&object)[key + 1].next() - &object);
  }

  SeededHash hash_;
  std::vector<JsonEntry> entries_;
  std::shared_ptr<std::string> text_ = std::make_shared<std::string>();
  std::vector<std::size_t> open_;  // arrays and objects, from outside to inside
};

}  // namespace

Expected<JsonDocument> parse_json(std::string_view text, const std::string& origin) {
  constexpr std::size_t longest = std::numeric_limits<std::uint32_t>::max();  // what an extent holds
  if (text.size() > longest)
    return failure(StatusCode::corrupt_data, origin + ": " + std::to_string(text.size()) +
                                                 " bytes of JSON; there must be at most " + std::to_string(longest));
  Survey survey(text);
  if (!survey.problem().empty()) return failure(StatusCode::corrupt_data, origin + ": " + survey.problem());
  Builder builder(survey.entries());
  const std::string_view json = survey.json();
  if (nlohmann::json::sax_parse(json.data(), json.data() + json.size(), &builder)) {
    JsonDocument document = builder.take();
    if (document.root().is_object()) return document;
  }
  return failure(StatusCode::corrupt_data, origin + ": no JSON object");
}

}  // namespace inlay::exec
