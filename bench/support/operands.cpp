#include "bench/support/operands.hpp"

#include <cstring>

namespace inlay::bench {

void fill_random(std::byte* data, DType dtype, index bytes, Tensors::Range range) {
  // Drawing is slow beside copying: a prime number of bytes times the element is drawn, so that rows differ.
  constexpr index period = 65521;
  std::mt19937 rng(1);
  const bool has_halves = bits(dtype) < 8;
  if (has_halves || dtype == DType::i8 || dtype == DType::u8) {
    const index drawn = std::min(bytes, period), low = has_halves ? 0 : static_cast<index>(range.low),
                all = has_halves ? 256 : static_cast<index>(range.high) - low + 1;
    for (index i = 0; i < drawn; ++i) data[i] = static_cast<std::byte>(low + static_cast<index>(rng() % all));
    return repeat(data, drawn, bytes);
  }
  std::uniform_real_distribution<double> values(range.low, range.high);
  const index size = bits(dtype) / 8, drawn = std::min(bytes / size, period);
  for (index i = 0; i < drawn; ++i) store_element(data, dtype, i, values(rng));
  repeat(data, drawn * size, bytes);
}

void repeat(std::byte* data, index bytes, index all) {
  for (index done = bytes; done < all && bytes > 0; done += std::min(done, all - done))
    std::memcpy(data + done, data, static_cast<std::size_t>(std::min(done, all - done)));
}

Operands::Placed Operands::place(const Tensor& tensor) {
  constexpr index total = index{256} << 20;
  if (next_ == all_.size()) {
    const index bytes = (byte_size(tensor.dtype, tensor.size()) + 63) / 64 * 64;
    const index count = !rotate_ || tensor.is_kept ? 1
                        : measure::short_run()     ? 2
                                                   : std::max<index>(total / std::max<index>(bytes, 1), 1);
    all_.push_back({bytes, count, measure::Memory(static_cast<std::size_t>(bytes * count))});
    const Copies& copies = all_.back();
    // What is written is touched before it is timed, too.
    if (tensor.fill != nullptr)
      (*tensor.fill)(copies.memory.data());
    else
      fill_random(copies.memory.data(), tensor.dtype, bytes, tensor.range);
    repeat(copies.memory.data(), bytes, bytes * count);
  }
  const Copies& copies = all_[next_++];
  return {copies.memory.data() + call_ % copies.count * copies.bytes, tensor.dtype};
}

}  // namespace inlay::bench
