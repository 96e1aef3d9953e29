// Tensors of random values, the same for the same shapes in the same order. A call can be made twice with them: as it
// is, and with every float type widened to f32, for a reference whose results are not rounded to a shorter type.
#pragma once

#include <cstdint>
#include <random>

#include "shapes/tensors.hpp"

namespace inlay {

class RandomTensors : public Tensors {
 public:
  // `gap` elements are between the rows of what is written, so that it is seen what is written beside them.
  explicit RandomTensors(bool widened = false, index gap = 0) : widened_(widened), gap_(gap) {}
  RandomTensors(const RandomTensors&) = delete;

 protected:
  Placed place(const Tensor& tensor) override {
    const bool is_short = tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
    const DType kept = widened_ && is_short ? DType::f32 : tensor.dtype;
    const index gap = tensor.is_read || tensor.extents.size() == 1 ? 0 : gap_;
    const index last = tensor.extents.back(), rows = last == 0 ? 0 : tensor.size() / last;
    void* const data = memory(byte_size(kept, rows * (last + gap)));
    if (tensor.fill != nullptr)
      (*tensor.fill)(data);
    else if (tensor.is_read)
      fill(data, kept, tensor);
    return {data, kept, gap};
  }

 private:
  // Every byte is 0xff: NaN in each float type.
  void* memory(index bytes) {
    auto& all = memory_.emplace_back(static_cast<std::size_t>(bytes) + alignment, std::byte{0xff});
    const auto at = reinterpret_cast<std::uintptr_t>(all.data());
    return all.data() + (alignment - at % alignment) % alignment;
  }
  // Rounded to the tensor's own type.
  void fill(void* data, DType kept, const Tensor& tensor) {
    std::uniform_real_distribution<double> floats(tensor.range.low, tensor.range.high);
    std::uniform_int_distribution<std::int64_t> integers(static_cast<std::int64_t>(tensor.range.low),
                                                         static_cast<std::int64_t>(tensor.range.high));
    const bool is_float = tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::bf16;
    for (index i = 0; i < tensor.size(); ++i)
      store_element(data, kept, i,
                    is_float ? round_to(tensor.dtype, floats(rng_)) : static_cast<double>(integers(rng_)));
  }

  static constexpr std::size_t alignment = 64;
  bool widened_;
  index gap_;
  std::mt19937_64 rng_{1};
  std::deque<std::vector<std::byte>> memory_;
};

}  // namespace inlay
