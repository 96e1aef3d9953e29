// An operator's program, kept for the next call of its kind. It is a true function of its key: it is made with
// addresses that stand for the operands (to look at an element is a fault, not a stale number), with copies of the
// lists that it declares to read, and with zeros for the scalars that it declares not to. A call gives the operands
// their places.
//
//   key      the operator's name, shapes, strides, types, which operands are one memory, scalars, contents of lists;
//            and whether its weight has been packed, whose blocks are an operand like the others
//   symbol   2^63 + 2^44 (n + 1) + 2^43 for the n-th operand; what a program binds lies within 2^43 bytes of it
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "npu_kernels/backend/program.hpp"
#include "tile_machine/run/script.hpp"

namespace inlay::npu {

struct Prepared {
  Program program;
  std::size_t workspace_bytes = 0;
  std::vector<GlobalMemory::Named> tensors;  // each at a symbol, or in a list's copy
  std::vector<std::shared_ptr<void>> kept;   // lists, which the program may look at as long as it lives
  Script script;                             // of functional mode
  std::size_t script_bytes = 0;              // as Runtime has counted them
  std::string lacks;                         // what its program asks for and the device has not; empty: nothing
};

// What a call is: its key, and where the n-th operand lies. The space of one call serves the next.
class Call {
 public:
  void start(std::string_view op);
  template <class V> void operand(const V& view, bool written) {
    number(view.present() ? static_cast<int>(view.dtype) : -1);
    add(&view.extents, sizeof(view.extents));
    add(&view.strides, sizeof(view.strides));
    number(same_as(static_cast<const std::byte*>(static_cast<const void*>(view.data)), written));
  }
  template <class T> void number(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    add(&value, sizeof(value));
  }
  void contents(const std::byte* elements, std::size_t bytes) { add(elements, bytes); }

  const std::string& key() const { return key_; }
  std::size_t operands() const { return operands_.size(); }
  // Of the n-th operand; one that is written and another one of the same address have one symbol.
  std::byte* symbol(std::size_t operand) const;
  std::byte* place(std::byte* address) const;  // of a symbol; of any other address itself

 private:
  struct Operand {
    std::byte* place;
    bool written;
    std::size_t same_as;
  };
  void add(const void* data, std::size_t count) { key_.append(static_cast<const char*>(data), count); }
  std::size_t same_as(const std::byte* place, bool written);

  std::string key_;
  std::vector<Operand> operands_;
};

}  // namespace inlay::npu
