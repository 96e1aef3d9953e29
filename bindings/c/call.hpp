// An operator's struct as a call of inlay_run.
#pragma once

#include <deque>
#include <type_traits>
#include <vector>

#include <inlay/core/dlpack.hpp>
#include <inlay/core/fields.hpp>

#include "bindings/c/inlay.h"
#include "bindings/c/words.hpp"

namespace inlay::c {

struct Call {
  struct Tensor {
    std::vector<int64_t> shape, strides;
    DLTensor dl{};
  };

  std::vector<inlay_argument> arguments;
  std::deque<Tensor> tensors;
  std::deque<std::vector<const DLTensor*>> lists;
  bool expressible = true;  // a value of an enum that is none has no word, a dtype that is none no code

  template <class V> const DLTensor* tensor(const V& view) {
    Tensor& made = tensors.emplace_back();
    made.shape.assign(view.extents.begin(), view.extents.end());
    made.strides.assign(view.strides.begin(), view.strides.end());
    const bool known = static_cast<int>(view.dtype) < dtype_count;
    expressible &= known;
    const auto [code, bits] =
        known ? inlay::detail::dl_types[static_cast<int>(view.dtype)] : inlay::detail::DlType{99, 8};
    made.dl.data = const_cast<void*>(static_cast<const void*>(view.data));
    made.dl.device.device_type = kDLCPU;
    made.dl.ndim = V::rank;
    made.dl.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    made.dl.shape = made.shape.data(), made.dl.strides = made.strides.data();
    return &made.dl;
  }

  template <class T> void give(const char* name, const T& value) {
    if constexpr (ViewLike<T>) {
      if (value.present()) arguments.push_back(inlay_give_tensor(name, tensor(value)));
    } else if constexpr (ListOfViews<T>) {
      if (value.empty()) return;
      auto& list = lists.emplace_back();
      for (const auto& view : value) list.push_back(tensor(view));
      arguments.push_back(inlay_give_list(name, list.data(), list.size()));
    } else if constexpr (std::is_same_v<T, bool>) {
      arguments.push_back(inlay_give_flag(name, value));
    } else if constexpr (std::is_same_v<T, float>) {
      arguments.push_back(inlay_give_number(name, value));
    } else if constexpr (std::is_enum_v<T>) {
      const char* const word = word_of(value);
      expressible &= word != nullptr;
      arguments.push_back(inlay_give_word(name, word == nullptr ? "none" : word));
    } else {
      arguments.push_back(inlay_give_integer(name, value));
    }
  }
};

template <class Op> Call call_of(const Op& op) {
  Call call;
  for_each_field(op, [&](const auto& field, const auto& value) { call.give(field.name.data(), value); });
  return call;
}

}  // namespace inlay::c
