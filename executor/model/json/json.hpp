// JSON as the loaders read it: a flat array of entries of 12 bytes, in the order of the file, and one buffer of text.
//
//   {"a": [1, "bc"], "d": null}
//
//   entry   0        1     2       3         4        5     6
//   kind    object   key   array   natural   string   key   null
//   first   7        0     3       1         1        3            entries spanned; where its text begins; low bits
//   second  2        1     2       0         2        1            members or elements; bytes of text; high bits
//
//   text    a b c d
//
// The value behind another one begins where that one's entries end. Of members with one key the last counts: the keys
// of those before it are marked, and nobody sees them. A file may hold nothing but the smallest values, `[[],[],..`:
// they are two letters each, and so the entries at most six times as long as the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/status.hpp>

namespace inlay::exec {

// How deep arrays and objects may lie in one another: what walks them may call itself.
inline constexpr int deepest_json = 100;

struct JsonEntry {
  enum class Kind : std::uint8_t {
    null,
    no,
    yes,
    negative,  // an integer of 64 bits
    natural,   // one without a sign
    real,      // any other number
    string,
    array,
    object,
    key,
    hidden_key  // of a member that a later one of this key replaces
  };
  Kind kind = Kind::null;
  std::uint32_t first = 0, second = 0;

  std::uint64_t bits() const { return static_cast<std::uint64_t>(second) << 32 | first; }
  std::string_view text(const char* all) const { return {all + first, second}; }
  // To the value or key behind it.
  const JsonEntry* next() const { return this + (kind == Kind::array || kind == Kind::object ? first : 1); }
};
static_assert(sizeof(JsonEntry) == 12);

// One value. It looks at its document, for as long as that lives.
class Json {
 public:
  class Elements;
  class Members;

  Json() = default;  // null
  Json(const JsonEntry* entry, const char* text) : entry_(entry), text_(text) {}

  bool is_null() const { return entry_->kind == Kind::null; }
  explicit operator bool() const { return !is_null(); }
  bool is_boolean() const { return is_true() || is_false(); }
  bool is_true() const { return entry_->kind == Kind::yes; }
  bool is_false() const { return entry_->kind == Kind::no; }
  bool is_integer() const { return is_natural() || entry_->kind == Kind::negative; }
  bool is_natural() const { return entry_->kind == Kind::natural; }
  bool is_number() const { return is_integer() || entry_->kind == Kind::real; }
  bool is_string() const { return entry_->kind == Kind::string; }
  bool is_array() const { return entry_->kind == Kind::array; }
  bool is_object() const { return entry_->kind == Kind::object; }

  // Of a value of this kind. From 2^63 on integer() is negative.
  std::int64_t integer() const { return static_cast<std::int64_t>(entry_->bits()); }
  std::uint64_t natural() const { return entry_->bits(); }
  double number() const;

  // What it has of these: no text, elements or members where it is of another kind.
  std::string_view text() const { return is_string() ? entry_->text(text_) : std::string_view(); }
  std::size_t size() const { return is_array() || is_object() ? entry_->second : 0; }
  Elements elements() const;
  Members members() const;  // in the order of the file

  // Both walk there. Null where there is none.
  Json operator[](std::size_t i) const;
  Json find(std::string_view key) const;
  bool contains(std::string_view key) const { return lookup(key) != nullptr; }

  // A list of nothing but this.
  Elements alone() const;

  friend bool operator==(const Json& value, std::string_view text) { return value.is_string() && value.text() == text; }

 private:
  using Kind = JsonEntry::Kind;
  static constexpr JsonEntry nothing{};

  const JsonEntry* lookup(std::string_view key) const;

  const JsonEntry* entry_ = &nothing;
  const char* text_ = nullptr;
};

class Json::Elements {
 public:
  class Iterator {
   public:
    Iterator(const JsonEntry* at, const char* text) : at_(at), text_(text) {}
    Json operator*() const { return {at_, text_}; }
    Iterator& operator++() { return at_ = at_->next(), *this; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const JsonEntry* at_;
    const char* text_;
  };

  Elements() = default;
  Elements(const JsonEntry* begin, const JsonEntry* end, const char* text) : begin_(begin), end_(end), text_(text) {}
  Iterator begin() const { return {begin_, text_}; }
  Iterator end() const { return {end_, text_}; }

 private:
  const JsonEntry* begin_ = nullptr;
  const JsonEntry* end_ = nullptr;
  const char* text_ = nullptr;
};

class Json::Members {
 public:
  struct Member {
    std::string_view key;
    Json value;
  };
  class Iterator {
   public:
    Iterator(const JsonEntry* at, const JsonEntry* end, const char* text) : at_(at), end_(end), text_(text) { pass(); }
    Member operator*() const { return {at_->text(text_), {at_ + 1, text_}}; }
    Iterator& operator++() { return at_ = at_[1].next(), pass(), *this; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    void pass() {
      while (at_ != end_ && at_->kind == Kind::hidden_key) at_ = at_[1].next();
    }

    const JsonEntry* at_;
    const JsonEntry* end_;
    const char* text_;
  };

  Members() = default;
  Members(const JsonEntry* begin, const JsonEntry* end, const char* text) : begin_(begin), end_(end), text_(text) {}
  Iterator begin() const { return {begin_, end_, text_}; }
  Iterator end() const { return {end_, end_, text_}; }

 private:
  const JsonEntry* begin_ = nullptr;
  const JsonEntry* end_ = nullptr;
  const char* text_ = nullptr;
};

class JsonDocument {
 public:
  JsonDocument(std::vector<JsonEntry> entries, std::shared_ptr<const std::string> text)
      : entries_(std::move(entries)), text_(std::move(text)) {}

  Json root() const { return {entries_.data(), text_->data()}; }
  // Keeps the texts of keys and strings beyond the document.
  std::shared_ptr<const void> texts() const { return text_; }

 private:
  std::vector<JsonEntry> entries_;
  std::shared_ptr<const std::string> text_;
};

// An object. `origin` names the text in messages.
Expected<JsonDocument> parse_json(std::string_view text, const std::string& origin);

// The value as JSON, cut off behind the letters that a message shows.
std::string written(const Json& value);
// The same, a string as it is: as it may stand in a message, before quote() cuts it.
std::string shown(const Json& value);

}  // namespace inlay::exec
