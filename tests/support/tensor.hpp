// An owning host tensor for tests and benchmarks: strided and misaligned on request, with every
// byte between and around its elements watched.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/core/element.hpp>
#include <inlay/core/view.hpp>

namespace inlay::test {

struct Layout {
  index row_gap = 0;     // elements between two rows (the innermost dimension)
  index misaligned = 0;  // elements by which the first one misses a 64-byte boundary
};

template <int Rank> class Tensor {
 public:
  using Extents = std::array<index, Rank>;

  Tensor() = default;  // absent: its views are those of a field that was left out
  Tensor(DType dtype, const Extents& extents, Layout layout = {}) : dtype_(dtype), extents_(extents) {
    index step = 1;
    for (int d = Rank - 1; d >= 0; --d) {
      strides_[d] = step;
      step *= extents[d];
      if (d == Rank - 1) step += layout.row_gap;
    }
    first_ = 128 + layout.misaligned;  // 64 bytes or more of guard, whatever the type
    bytes_.resize(static_cast<std::size_t>(byte_size(dtype, first_ + step + 128)), guard);
  }

  View<Rank> view() { return {begin(), dtype_, extents_, strides_}; }
  ConstView<Rank> view() const { return const_cast<Tensor*>(this)->view(); }
  operator View<Rank>() { return view(); }
  operator ConstView<Rank>() const { return view(); }
  template <class T> T* data() { return reinterpret_cast<T*>(begin()); }

  DType dtype() const { return dtype_; }
  const Extents& extents() const { return extents_; }
  index size() const { return view().size(); }
  bool present() const { return view().present(); }

  // Element k in row-major order.
  double get(index k) const { return load_element(const_cast<Tensor*>(this)->begin(), dtype_, place(k)); }
  void set(index k, double value) { store_element(begin(), dtype_, place(k), value); }

  Tensor& fill(double value) {
    for (index k = 0; k < size(); ++k) set(k, value);
    return *this;
  }
  template <class Rng> Tensor& uniform(Rng& rng, double low = -1, double high = 1) {
    std::uniform_real_distribution<double> values(low, high);
    for (index k = 0; k < size(); ++k) set(k, values(rng));
    return *this;
  }
  template <class Rng> Tensor& integers(Rng& rng, std::int64_t low, std::int64_t high) {
    std::uniform_int_distribution<std::int64_t> values(low, high);
    for (index k = 0; k < size(); ++k) set(k, static_cast<double>(values(rng)));
    return *this;
  }
  // NaN, or -1 where there is none: what an output holds before it is written.
  Tensor& poison() {
    const bool integral = dtype_ != DType::f32 && dtype_ != DType::f16 && dtype_ != DType::bf16;
    return fill(integral ? -1 : std::numeric_limits<double>::quiet_NaN());
  }

  // The same values in f32, which holds them exactly; other types are left as they are. The reference of widened
  // operands gives an operator's result before it is rounded to a shorter type.
  Tensor widened() const {
    if (dtype_ != DType::f16 && dtype_ != DType::bf16) return *this;
    Tensor wide(DType::f32, extents_);
    for (index k = 0; k < size(); ++k) wide.set(k, get(k));
    return wide;
  }

  // True if no bit outside the elements was written: a code of four bits may share its byte with a gap.
  bool gaps_untouched() const {
    if (bytes_.empty()) return true;
    std::vector<unsigned char> owned(bytes_.size());  // the bits of each byte that belong to elements
    const index base = const_cast<Tensor*>(this)->begin() - bytes_.data();
    for (index k = 0; k < size(); ++k) {
      const index bit = place(k) * bits(dtype_), byte = base + bit / 8;
      if (bits(dtype_) < 8) owned[byte] |= static_cast<unsigned char>(15 << bit % 8);
      for (index b = 0; b < bits(dtype_) / 8; ++b) owned[byte + b] = 255;
    }
    for (std::size_t b = 0; b < bytes_.size(); ++b)
      if ((bytes_[b] ^ guard) & ~owned[b]) return false;
    return true;
  }
  // Every byte alike, those around and between the elements included.
  bool same_bytes(const Tensor& other) const { return bytes_ == other.bytes_; }
  bool operator==(const Tensor& other) const {
    if (extents_ != other.extents_ || dtype_ != other.dtype_) return false;
    for (index k = 0; k < size(); ++k)
      if (!(get(k) == other.get(k) || (std::isnan(get(k)) && std::isnan(other.get(k))))) return false;
    return true;
  }

 private:
  static constexpr unsigned char guard = 0xa5;

  unsigned char* begin() { return bytes_.empty() ? nullptr : bytes_.data() + byte_size(dtype_, first_); }
  index place(index k) const {
    index where = 0;
    for (int d = Rank - 1; d >= 0; --d) {
      where += k % extents_[d] * strides_[d];
      k /= extents_[d];
    }
    return where;
  }

  DType dtype_ = DType::f32;
  Extents extents_{};
  Extents strides_{};
  index first_ = 0;
  // Every copy begins on a 64-byte boundary, so that `misaligned` survives copying.
  std::vector<unsigned char, CacheLineAllocator<unsigned char>> bytes_;
};

}  // namespace inlay::test
