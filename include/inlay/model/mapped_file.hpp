// A file mapped read-only, and anonymous memory of the same kind: both give pages back with drop_pages().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <inlay/core/status.hpp>

namespace inlay::exec {

class Mapping {
 public:
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  static Expected<std::shared_ptr<const Mapping>> file(const std::string& path);

  // Zeroed memory of our own, for tensors that no file holds in the wanted form. In huge pages where the system has
  // them and the size is worth it.
  static Expected<std::shared_ptr<Mapping>> anonymous(std::size_t size);

  // Memory that somebody else keeps, as long as whatever was loaded from it lives.
  static std::shared_ptr<const Mapping> borrow(std::span<const std::byte> bytes);

  // Do its pages come back when they were dropped?
  bool of_file() const { return owner_ == Owner::file; }
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }
  std::byte* mutable_data() { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {data(), size_}; }

 private:
  enum class Owner : unsigned char { file, anonymous, borrowed };
  Mapping(void* data, std::size_t size, Owner owner) : data_(data), size_(size), owner_(owner) {}
  void* data_ = nullptr;
  std::size_t size_ = 0;
  Owner owner_ = Owner::file;
};

// Gives back the pages that lie wholly inside [data, data + bytes). A file's pages are read again
// on the next access; anonymous pages read as zero then.
void drop_pages(const std::byte* data, std::size_t bytes);

}  // namespace inlay::exec
