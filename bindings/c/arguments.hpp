// From a caller's arguments to the values of an operator's fields: whatever is wrong with a name, a kind or a tensor is
// found here, without knowing the operator's type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <inlay/core/fields.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

#include "bindings/c/inlay.h"

namespace inlay::c {

inline constexpr int max_rank = 5, max_fields = 32;

// A view of any rank.
struct AnyView {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::array<index, max_rank> extents{}, strides{};
};

struct Value {
  AnyView view;
  std::vector<AnyView> list;
  index integer = 0;  // a flag's too, and of a word the value that it stands for
  float number = 0;
};

// One field of an operator. `set` writes a value into it: into what set_fields() is given.
struct FieldRow {
  const char* name;
  Role role;
  int kind;  // INLAY_TENSOR ..
  int rank = 0;
  index default_integer = 0;
  double default_number = 0;
  const char* default_word = nullptr;
  const char* const* words = nullptr;
  index (*value_of_word)(std::size_t i) = nullptr;
  void (*set)(void* bound, const Value& value) = nullptr;
};

using Arguments = std::span<const inlay_argument>;

// Sets the fields that arguments name. Refuses unknown names, those that come twice, wrong kinds, words that are none,
// numbers beyond their type, and tensors that are no views. `bound` may be half set then.
Status set_fields(std::span<const FieldRow> fields, Arguments arguments, void* bound);

// "a tensor"
std::string_view name_of_kind(int kind);

}  // namespace inlay::c
