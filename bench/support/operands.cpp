#include "bench/support/operands.hpp"

#include <cstring>

namespace inlay::bench {

void fill_random(std::byte* data, DType dtype, index bytes) {
  // Drawing is slow beside copying: a prime number of bytes times the element is drawn, so that rows differ.
  constexpr index period = 65521;
  std::mt19937 rng(1);
  const bool integral = dtype == DType::i8 || dtype == DType::u8 || dtype == DType::i4 || dtype == DType::u4;
  if (integral) {
    const index drawn = std::min(bytes, period);
    for (index i = 0; i < drawn; ++i) data[i] = static_cast<std::byte>(rng());
    return repeat(data, drawn, bytes);
  }
  std::uniform_real_distribution<double> values(-1, 1);
  const index size = bits(dtype) / 8, drawn = std::min(bytes / size, period);
  for (index i = 0; i < drawn; ++i) store_element(data, dtype, i, values(rng));
  repeat(data, drawn * size, bytes);
}

void repeat(std::byte* data, index bytes, index all) {
  for (index done = bytes; done < all && bytes > 0; done += std::min(done, all - done))
    std::memcpy(data + done, data, static_cast<std::size_t>(std::min(done, all - done)));
}

}  // namespace inlay::bench
