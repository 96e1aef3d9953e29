// Zeroed memory in huge pages where the system has them, as the executor's KV cache and packed weights lie in
// (a page walk every 4 KiB: decode attention on Zen 4 reads 13 instead of 17 GB/s a thread).
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace inlay::measure {

class Memory {
 public:
  explicit Memory(std::size_t bytes);  // throws std::bad_alloc: a figure without its memory is none
  ~Memory();
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Memory& operator=(Memory&&) = delete;

  std::byte* data() const { return data_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_;
  std::size_t size_;
};

// The most memory that this program has had at once. (ru_maxrss is that of whoever started it, where that was more.)
std::size_t peak_resident_bytes();

}  // namespace inlay::measure
