// An operator without its type, as the backend (runtime.hpp) sees it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <inlay/core/status.hpp>

#include "npu_kernels/backend/program.hpp"

namespace inlay::npu {

// What a call is: its key, and where the n-th operand lies. The space of one call serves the next.
class CallKey {
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

class AnyOperator {
 public:
  virtual ~AnyOperator() = default;
  virtual std::string_view name() const = 0;
  virtual bool nothing_to_write() const = 0;
  virtual Status refusal(const Device& device) const = 0;
  virtual WeightForm weight(const Device& device) const = 0;
  virtual void add_to(CallKey& key) const = 0;  // everything that its program depends on, but for packed blocks
  // The same operator with symbols for addresses, zeros for scalars that nobody reads, and lists of its own.
  virtual std::unique_ptr<AnyOperator> with_symbols(const CallKey& key) const = 0;
  virtual Program make_program(GlobalMemory& memory, const Choices& choices) const = 0;
  virtual Packing make_packing(GlobalMemory& memory, const Choices& choices) const = 0;
};

}  // namespace inlay::npu
