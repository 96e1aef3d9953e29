#include "cl_kernels/runtime/whole_file.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <unistd.h>

namespace inlay::cl {

Status write_whole(const std::string& file, std::string_view text) {
  static std::atomic<unsigned> parts = 0;  // threads of one process may write the same file
  const std::string part = file + "." + std::to_string(getpid()) + "." + std::to_string(parts++);
  std::error_code error;
  {
    std::ofstream out(part, std::ios::binary);
    out << text;
    if (!out.flush()) {
      std::filesystem::remove(part, error);
      return {StatusCode::not_found, file + " cannot be written"};
    }
  }
  std::filesystem::rename(part, file, error);
  if (!error) return {};
  const std::string reason = error.message();
  std::filesystem::remove(part, error);
  return {StatusCode::not_found, file + " cannot be written: " + reason};
}

}  // namespace inlay::cl
