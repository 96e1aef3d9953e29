#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <inlay/core/huge_pages.hpp>
#include <inlay/model/mapped_file.hpp>

namespace inlay::exec {

Mapping::~Mapping() {
  if (data_ && owner_ != Owner::borrowed) ::munmap(data_, size_);
}

Expected<std::shared_ptr<const Mapping>> Mapping::file(const std::string& path) {
  // A pipe of this name would keep us waiting for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return failure(StatusCode::not_found, path + ": " + std::strerror(errno));
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return failure(StatusCode::not_found, path + ": not a regular file");
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = nullptr;  // an empty file cannot be mapped, and needs not be
  if (size > 0) data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int error = errno;
  ::close(descriptor);
  if (data == MAP_FAILED) return failure(StatusCode::out_of_memory, path + ": mmap: " + std::strerror(error));
  return std::shared_ptr<const Mapping>(new Mapping(data, size, Owner::file));
}

Expected<std::shared_ptr<Mapping>> Mapping::anonymous(std::size_t size) {
  if (size == 0) return std::shared_ptr<Mapping>(new Mapping(nullptr, 0, Owner::anonymous));
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return failure(StatusCode::out_of_memory, "cannot map " + std::to_string(size) + " bytes: " + std::strerror(errno));
  want_huge_pages(data, size);
  return std::shared_ptr<Mapping>(new Mapping(data, size, Owner::anonymous));
}

std::shared_ptr<const Mapping> Mapping::borrow(std::span<const std::byte> bytes) {
  return std::shared_ptr<const Mapping>(
      new Mapping(const_cast<std::byte*>(bytes.data()), bytes.size(), Owner::borrowed));
}

void drop_pages(const std::byte* data, std::size_t bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  // Advice: where it fails, the pages stay, and nothing else changes.
  if (end > begin) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace inlay::exec
