// Device descriptions.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/support/device_promise.hpp"
#include "tests/fuzz/support/json_tree.hpp"
#include "tests/fuzz/support/promise.hpp"

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return inlay::fuzz::mutate_json(data, size, max_size, seed, 2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string broken = inlay::npu::broken_promise({reinterpret_cast<const char*>(data), size});
  if (!broken.empty()) inlay::fuzz::broken_promise(broken);
  return 0;
}
