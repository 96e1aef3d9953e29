// What the names and expressions of a chat template stand for: the values of Python that such templates work with.
// Values that others look into do not change, but for namespaces; these, loops and functions are kept in no list, dict
// or namespace, so that nothing can hold itself.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "executor/text/chat/text.hpp"

namespace inlay::exec::chat {

struct Dict;
struct Function;
struct List;
struct Loop;
struct Namespace;

class Value {
 public:
  enum class Kind : unsigned char { undefined, none, boolean, integer, string, list, dict, name_space, loop, function };

  Value() = default;  // undefined
  static Value none() { return Value(Data(std::in_place_index<1>)); }
  static Value of(bool value) { return Value(Data(std::in_place_index<2>, value)); }
  static Value of(std::int64_t value) { return Value(Data(std::in_place_index<3>, value)); }
  static Value of(Text text) { return Value(Data(std::make_shared<const Text>(std::move(text)))); }
  static Value of(std::string_view text) { return of(Text{std::string(text)}); }
  static Value of(const char* text) { return of(std::string_view(text)); }
  static Value of(List list);
  static Value of(Dict dict);
  static Value of(std::shared_ptr<Namespace> attributes) { return Value(Data(std::move(attributes))); }
  static Value of(const Loop* loop) { return Value(Data(loop)); }
  static Value of(const Function* function) { return Value(Data(function)); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return kind == this->kind(); }
  bool is_number() const { return is(Kind::integer) || is(Kind::boolean); }

  // Of a value of this kind.
  bool boolean() const { return std::get<2>(data_); }
  std::int64_t integer() const { return is(Kind::boolean) ? boolean() : std::get<3>(data_); }
  const Text& text() const { return *std::get<4>(data_); }
  const List& list() const { return *std::get<5>(data_); }
  const Dict& dict() const { return *std::get<6>(data_); }
  Namespace& name_space() const { return *std::get<7>(data_); }
  const Loop& loop() const { return *std::get<8>(data_); }
  const Function& function() const { return *std::get<9>(data_); }

  // Python's bool().
  bool is_true() const;
  // How deep lists and dicts lie in one another.
  int depth() const;
  // Its type, for messages.
  std::string_view type() const;

 private:
  using Data = std::variant<std::monostate, std::nullptr_t, bool, std::int64_t, std::shared_ptr<const Text>,
                            std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                            const Loop*, const Function*>;
  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;
};

// What Python lists are, and what else it walks over. An iterator can be walked over once and has no length.
struct List {
  enum class Form : unsigned char { list, tuple, range, view, iterator };
  std::vector<Value> items = {};
  Form form = Form::list;
  int depth = 1;
  std::shared_ptr<bool> is_used = nullptr;  // of an iterator
};

struct Dict {
  std::vector<std::pair<Text, Value>> members = {};  // in the order in which keys came first
  int depth = 1;

  const Value* find(std::string_view key) const {
    for (const auto& [name, value] : members)
      if (name.bytes == key) return &value;
    return nullptr;
  }
  void set(Text key, Value value) {
    for (auto& [name, old] : members)
      if (name.bytes == key.bytes) {
        old = std::move(value);
        return;
      }
    members.emplace_back(std::move(key), std::move(value));
  }
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes = {};
};

// The `loop` of a for.
struct Loop {
  const std::vector<Value>& items;
  std::size_t at = 0;
};

}  // namespace inlay::exec::chat
