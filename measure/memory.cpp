#include "measure/memory.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <new>
#include <string>

#include <inlay/core/huge_pages.hpp>

namespace inlay::measure {

Memory::Memory(std::size_t bytes) : data_(nullptr), size_(bytes) {
  if (bytes == 0) return;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  want_huge_pages(memory, bytes);
  data_ = static_cast<std::byte*>(memory);
}

Memory::~Memory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

std::size_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    unsigned long kib = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %lu kB", &kib) == 1) return std::size_t{kib} * 1024;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace inlay::measure
