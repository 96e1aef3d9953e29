// Packed weights and other large memory asks for huge pages. What the system gives is its own affair; what it was asked
// for stands in /proc/self/smaps.
#include <inlay/core/cache_line_allocator.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/requirements.hpp"

namespace inlay {
namespace {

// Whether the mapping that `memory` lies in is flagged "hg": MADV_HUGEPAGE.
bool asks_for_huge_pages(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') here = begin <= address && address < end;
    if (here && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST(huge_pages, are_asked_for_by_large_memory_alone) {
  INLAY_NEEDS(std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled"), "huge_pages",
              "a kernel with transparent huge pages");
  constexpr std::size_t mib = 1 << 20;
  using Bytes = std::vector<std::byte, CacheLineAllocator<std::byte>>;
  const Bytes large(16 * mib), small(2 * mib);
  EXPECT_TRUE(asks_for_huge_pages(large.data() + 8 * mib));
  EXPECT_FALSE(asks_for_huge_pages(small.data() + mib));
}

}  // namespace
}  // namespace inlay
