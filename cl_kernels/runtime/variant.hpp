// One program: a source and what is defined for it. Only structure is defined (types, tiles, head_dim); lengths are
// arguments, so that a model is a handful of programs.
//
//   Variant("rms_norm").type("X", op.x.dtype).number("LANES", 64).flag("RESIDUAL", op.residual.present())
#pragma once

#include <string>
#include <string_view>

#include <inlay/core/dtype.hpp>

namespace inlay::cl {

class Variant {
 public:
  explicit Variant(std::string_view stem) : text_(stem), stem_(stem.size()) { text_.reserve(160); }

  // -D NAME=f16: TYPE(NAME), LOAD(NAME, 8) and the like (support/types.clh) know what to make of it.
  Variant& type(std::string_view name, DType dtype) { return define(name, inlay::name(dtype)); }
  Variant& number(std::string_view name, long value) { return define(name, std::to_string(value)); }
  // -D NAME=1 or nothing.
  Variant& flag(std::string_view name, bool on) { return on ? define(name, "1") : *this; }

  std::string_view stem() const { return std::string_view(text_).substr(0, stem_); }
  std::string_view definitions() const { return std::string_view(text_).substr(stem_); }
  const std::string& key() const { return text_; }

 private:
  Variant& define(std::string_view name, std::string_view value) {
    text_.append(" -D ").append(name).append("=").append(value);
    return *this;
  }

  std::string text_;
  std::size_t stem_;
};

}  // namespace inlay::cl
