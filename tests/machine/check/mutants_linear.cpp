// The mutation suite (mutate.hpp) over the linear layers' own programs.
#include "tests/machine/check/mutate.hpp"
#include "tests/machine/programs/small_linear.hpp"

namespace inlay::npu::test {
namespace {

// The vector unit holds rows in f32 here, which takes a little more than the worked programs.
std::vector<Device> devices() {
  std::vector<Device> list = small_devices();
  for (Device& device : list) {
    auto& vector = device.memories[device.memory_of[static_cast<std::size_t>(Space::vector)]].bytes;
    vector = std::max<std::uint64_t>(vector, device.same_memory(Space::vector, Space::staging) ? 160 << 10 : 48 << 10);
  }
  return list;
}

TEST(MutantsOfLinear, EveryNecessarySyncIsReported) {
  Count total;
  for (const Device& device : devices())
    for (const Problem& program : small_linear()) total += mutate(program, device);
  std::cout << "linear layers: " << total << "\n";
}

}  // namespace
}  // namespace inlay::npu::test
