// An owning host tensor for tests and benchmarks: strided and misaligned on request, with every
// byte between and around its elements watched.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <random>
#include <utility>

#include <inlay/core/element.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/view.hpp>

namespace inlay::test {

struct Layout {
  index row_gap = 0;     // elements between two rows (the innermost dimension)
  index misaligned = 0;  // elements by which the first one misses a 64-byte boundary
};

// Bytes from a 64-byte boundary on, in every copy too. (A vector of bytes takes a sweep a tenth of its time: tests are
// compiled without loops that become memcpy.)
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::size_t size, unsigned char value) : Bytes(size) { std::memset(data_, value, size); }
  Bytes(const Bytes& other) : Bytes(other.size_) {
    if (size_ > 0) std::memcpy(data_, other.data_, size_);
  }
  Bytes(Bytes&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Bytes& operator=(Bytes other) noexcept {
    std::swap(data_, other.data_), std::swap(size_, other.size_);
    return *this;
  }
  ~Bytes() { ::operator delete(data_, boundary); }

  unsigned char* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool operator==(const Bytes& other) const {
    return size_ == other.size_ && (size_ == 0 || std::memcmp(data_, other.data_, size_) == 0);
  }
  bool all_are(unsigned char value) const {
    return size_ == 0 || (data_[0] == value && std::memcmp(data_, data_ + 1, size_ - 1) == 0);
  }

 private:
  static constexpr std::align_val_t boundary{64};
  explicit Bytes(std::size_t size)
      : data_(size == 0 ? nullptr : static_cast<unsigned char*>(::operator new(size, boundary))), size_(size) {}

  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

template <int Rank> class Tensor {
 public:
  using Extents = std::array<index, Rank>;

  Tensor() = default;  // absent: its views are those of a field that was left out
  Tensor(DType dtype, const Extents& extents, Layout layout = {}) : dtype_(dtype), extents_(extents) {
    index step = 1;
    size_ = 1;
    for (int d = Rank - 1; d >= 0; --d) {
      strides_[d] = step;
      step *= extents[d];
      if (d == Rank - 1) step += layout.row_gap;
      size_ *= extents[d];
    }
    const index first = 128 + layout.misaligned;  // 64 bytes or more of guard, whatever the type
    first_byte_ = byte_size(dtype, first), dense_ = layout.row_gap == 0;
    bytes_ = Bytes(static_cast<std::size_t>(byte_size(dtype, first + step + 128)), guard);
  }

  View<Rank> view() { return {begin(), dtype_, extents_, strides_}; }
  ConstView<Rank> view() const { return {begin(), dtype_, extents_, strides_}; }
  operator View<Rank>() { return view(); }
  operator ConstView<Rank>() const { return view(); }
  template <class T> T* data() { return reinterpret_cast<T*>(begin()); }

  DType dtype() const { return dtype_; }
  const Extents& extents() const { return extents_; }
  INLAY_INLINE index size() const { return size_; }
  bool present() const { return view().present(); }

  // Element k in row-major order.
  double get(index k) const { return load_element(begin(), dtype_, place(k)); }
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
    Bytes gaps = bytes_;  // less what the elements hold
    const index row = Rank == 0 || dense_ ? size_ : extents_[Rank - 1], width = bits(dtype_);
    for (index k = 0; k < size_; k += row) {
      unsigned char* const at = gaps.data() + first_byte_;
      index bit = place(k) * width;
      const index end = bit + row * width;
      for (; bit < end && bit % 8 != 0; bit += width) restore(at[bit / 8], bit % 8);
      std::memset(at + bit / 8, guard, static_cast<std::size_t>(bit < end ? (end - bit) / 8 : 0));
      if (bit < end && end % 8 != 0) restore(at[end / 8], 0);
    }
    return gaps.all_are(guard);
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

  // The code of four bits at this bit is the guard's.
  static void restore(unsigned char& byte, index bit) {
    const int mask = 15 << bit;
    byte = static_cast<unsigned char>((byte & ~mask) | (guard & mask));
  }

  INLAY_INLINE unsigned char* begin() const { return bytes_.size() == 0 ? nullptr : bytes_.data() + first_byte_; }
  index place(index k) const {
    if (dense_) return k;
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
  index size_ = 0;
  index first_byte_ = 0;
  bool dense_ = true;
  Bytes bytes_;
};

}  // namespace inlay::test
