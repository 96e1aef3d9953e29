// Operators at a size. shapes/<op>.hpp says which tensors an operator has there, and what a call moves and computes;
// who asks decides what lies behind them:
//
//   AbsentTensors tensors;                                                        addresses alone, for an estimate
//   const Gelu<Host> op = GeluShape{.rows = 512, .dim = 9216}.make(tensors);
//
// RandomTensors (shapes/random_tensors.hpp) have values; a benchmark's operands (bench/support/operands.hpp) have
// copies that outgrow the caches. The sizes have names, by which a command line gives them: read(from).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <inlay/core/element.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

// What a call moves and computes.
struct CallCost {
  double bytes = 0;    // that memory sees: each operand once, and what is written twice, as its lines are read first
  double written = 0;  // those of them that go back to memory
  double flops = 0;    // multiply and add count as two
};
inline double bytes_of(DType type, index elements) { return static_cast<double>(byte_size(type, elements)); }

// Shapes are right by themselves: packing what they made cannot fail.
inline void must_succeed(const Status& status) {
  if (!status.ok()) std::abort();
}

// The memory of what is read, to be written over.
template <int Rank> View<Rank> over(const ConstView<Rank>& view) {
  return {const_cast<void*>(view.data), view.dtype, view.extents, view.strides};
}

class Tensors {
 public:
  struct Range {
    double low, high;  // both included
  };
  template <std::size_t N> using Extents = const index (&)[N];
  template <std::size_t N> using Rows = View<static_cast<int>(N)>;

  virtual ~Tensors() = default;

  // -1..1; of integers all that there are.
  static Range all(DType type) {
    switch (type) {
      case DType::i8: return {-128, 127};
      case DType::u8: return {0, 255};
      case DType::i4: return {-8, 7};
      case DType::u4: return {0, 15};
      case DType::boolean: return {0, 1};
      default: return {-1, 1};
    }
  }

  // What is read: random numbers of a range.
  template <std::size_t N>
  ConstView<static_cast<int>(N)> in(DType type, Extents<N> extents, std::optional<Range> range = {}) {
    return inout(type, extents, range);
  }
  template <std::size_t N> Rows<N> inout(DType type, Extents<N> extents, std::optional<Range> range = {}) {
    return view<N>({.dtype = type, .extents = extents, .range = range.value_or(all(type))});
  }
  template <std::size_t N> Rows<N> out(DType type, Extents<N> extents) {
    return view<N>({.dtype = type, .extents = extents, .is_read = false});
  }
  // What each call of a benchmark reads or writes again: the caches may have it.
  template <std::size_t N>
  ConstView<static_cast<int>(N)> kept(DType type, Extents<N> extents, std::optional<Range> range = {}) {
    return view<N>({.dtype = type, .extents = extents, .is_kept = true, .range = range.value_or(all(type))});
  }
  template <std::size_t N> Rows<N> kept_out(DType type, Extents<N> extents) {
    return view<N>({.dtype = type, .extents = extents, .is_read = false, .is_kept = true});
  }
  // What `fill` writes into a view of it, where there is memory.
  template <std::size_t N, class Fill> Rows<N> filled(DType type, const std::array<index, N>& extents, Fill&& fill) {
    const std::function<void(void*)> write = [&](void* data) { fill(Rows<N>(data, type, extents)); };
    return view<N>({.dtype = type, .extents = extents, .fill = &write});
  }
  // Whole numbers that the host reads, value(i) of the i-th: these are always there.
  template <std::size_t N, class Value>
  ConstView<static_cast<int>(N)> list(DType type, Extents<N> extents, Value&& value) {
    index count = 1;
    for (const index extent : extents) count = saturating_multiply(count, extent);
    const std::function<void(void*)> write = [&](void* data) {
      for (index i = 0; i < count; ++i) store_element(data, type, i, static_cast<double>(value(i)));
    };
    return view<N>({.dtype = type, .extents = extents, .is_kept = true, .is_list = true, .fill = &write});
  }

 protected:
  struct Tensor {
    DType dtype;
    std::span<const index> extents;
    bool is_read = true, is_kept = false, is_list = false;
    Range range = {};
    const std::function<void(void*)>* fill = nullptr;  // what is read has its values from it, not from the range

    index size() const {
      index product = 1;
      for (const index extent : extents) product = saturating_multiply(product, extent);
      return product;
    }
  };
  struct Placed {
    void* data;
    DType dtype;
    index gap = 0;  // elements between rows
  };
  virtual Placed place(const Tensor& tensor) = 0;

 private:
  template <std::size_t N> Rows<N> view(const Tensor& tensor) {
    const Placed placed = place(tensor);
    std::array<index, N> extents = {};
    std::copy(tensor.extents.begin(), tensor.extents.end(), extents.begin());
    std::array<index, N> apart = extents;
    apart[N - 1] += placed.gap;
    return {placed.data, placed.dtype, extents, contiguous_strides<static_cast<int>(N)>(apart)};
  }
};

// Addresses a page or more apart, behind which there is nothing; lists are there.
class AbsentTensors : public Tensors {
 protected:
  Placed place(const Tensor& tensor) override {
    const index bytes = byte_size(tensor.dtype, tensor.size());
    if (tensor.is_list) {
      void* const data = lists_.emplace_back(static_cast<std::size_t>(bytes)).data();
      (*tensor.fill)(data);
      return {data, tensor.dtype};
    }
    constexpr std::uintptr_t page = 4096;
    const std::uintptr_t address = next_;
    next_ += (static_cast<std::uintptr_t>(bytes) / page + 2) * page;
    return {reinterpret_cast<void*>(address), tensor.dtype};
  }

 private:
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
  std::deque<std::vector<std::byte>> lists_;
};

}  // namespace inlay
