// One program: a source and what is defined for it. Only structure is defined (types, tiles, head_dim); lengths are
// arguments, so that a model is a handful of programs.
//
//   ProgramKey("rms_norm").type("X", op.x.dtype).number("LANES", 64).flag("RESIDUAL", op.residual.present())
//
// Every launch makes one, to look its kernel up by: there is no text in it before a program is built, and names are
// literals.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include <inlay/core/dtype.hpp>

namespace inlay::cl {

class ProgramKey {
 public:
  static constexpr int max_definitions = 24;

  explicit ProgramKey(const char* stem) : stem_(stem), hash_(std::strlen(stem)) {}

  // -D NAME=f16: TYPE(NAME), LOAD(NAME, 8) and the like (support/types.clh) know what to make of it.
  ProgramKey& type(const char* name, DType dtype) { return define({name, static_cast<long>(dtype), true}); }
  ProgramKey& number(const char* name, long value) { return define({name, value, false}); }
  // -D NAME=1 or nothing.
  ProgramKey& flag(const char* name, bool on) { return on ? number(name, 1) : *this; }

  std::string_view stem() const { return stem_; }
  // More than it has room for: what it is to be is not known any more.
  bool overfull() const { return count_ > max_definitions; }
  // " -D LANES=64 -D X=f16"
  std::string definitions() const {
    std::string text;
    for (int i = 0; i < count_ && i < max_definitions; ++i) {
      const Definition& d = list_[static_cast<std::size_t>(i)];
      text.append(" -D ").append(d.name).append("=");
      text.append(d.is_type ? std::string(inlay::name(static_cast<DType>(d.value))) : std::to_string(d.value));
    }
    return text;
  }
  std::string text() const { return stem_ + definitions(); }

  bool operator==(const ProgramKey& other) const {
    if (hash_ != other.hash_ || count_ != other.count_ || !same(stem_, other.stem_)) return false;
    for (int i = 0; i < count_ && i < max_definitions; ++i) {
      const Definition &a = list_[static_cast<std::size_t>(i)], &b = other.list_[static_cast<std::size_t>(i)];
      if (a.value != b.value || a.is_type != b.is_type || !same(a.name, b.name)) return false;
    }
    return true;
  }
  struct Hash {
    std::size_t operator()(const ProgramKey& key) const { return key.hash_; }
  };

 private:
  struct Definition {
    const char* name;
    long value;
    bool is_type;
  };

  // Literals of one text may lie in several places.
  static bool same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

  ProgramKey& define(const Definition& definition) {
    if (count_ < max_definitions) list_[static_cast<std::size_t>(count_)] = definition;
    ++count_;
    const auto of_name = static_cast<unsigned char>(definition.name[0]);
    hash_ = (hash_ ^ (static_cast<std::size_t>(definition.value) * 0x9e3779b97f4a7c15u + of_name)) * 0x100000001b3u;
    return *this;
  }

  const char* stem_;
  std::size_t hash_;
  int count_ = 0;
  std::array<Definition, max_definitions> list_;
};

}  // namespace inlay::cl
