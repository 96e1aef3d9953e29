#include "files/whole_file.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace inlay::files {

namespace {

namespace fs = std::filesystem;

Status cannot_write(const std::string& file, StatusCode code) {
  return {code, file + " cannot be written: " + std::strerror(errno)};
}

// Writes and closes `path`, which messages call `file`. `sync`: it is on the disk then.
Status write_to(const std::string& path, const std::string& file, bool sync,
                const std::function<Status(std::FILE*)>& write) {
  std::FILE* out = std::fopen(path.c_str(), "wb");
  if (out == nullptr) return cannot_write(file, StatusCode::not_found);
  Status status = write(out);
  if (status.ok() && (std::fflush(out) != 0 || (sync && fsync(fileno(out)) != 0)))
    status = cannot_write(file, StatusCode::internal);
  if (std::fclose(out) != 0 && status.ok()) status = cannot_write(file, StatusCode::internal);
  return status;
}

}  // namespace

Status write_whole(const std::string& file, const std::function<Status(std::FILE*)>& write) {
  std::error_code error;
  const fs::file_status there = fs::status(file, error);
  if (fs::exists(there) && !fs::is_regular_file(there)) return write_to(file, file, false, write);
  // Where a link leads: the link stays.
  const fs::path target = fs::is_symlink(file, error) ? fs::weakly_canonical(file, error) : fs::path(file);
  static std::atomic<unsigned> parts = 0;  // threads of one process may write the same file
  const std::string part = target.string() + "." + std::to_string(getpid()) + "." + std::to_string(parts++);
  Status status = write_to(part, file, true, write);
  if (status.ok() && std::rename(part.c_str(), target.c_str()) != 0) status = cannot_write(file, StatusCode::not_found);
  if (!status.ok()) (void)std::remove(part.c_str());
  return status;
}

Status write_whole(const std::string& file, std::string_view text) {
  return write_whole(file, [&](std::FILE* out) {
    return std::fwrite(text.data(), 1, text.size(), out) == text.size() ? Status()
                                                                        : cannot_write(file, StatusCode::internal);
  });
}

}  // namespace inlay::files
