// std::source_location, also where the compiler does not have it (clang before 15).
#pragma once

#include <version>

#ifdef __cpp_lib_source_location

#include <source_location>

namespace inlay::npu {
using SourceLocation = std::source_location;
}

#else

#include <cstdint>

namespace inlay::npu {

class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          std::uint_least32_t line = __builtin_LINE(),
                                          std::uint_least32_t column = __builtin_COLUMN()) {
    SourceLocation location;
    location.file_ = file;
    location.function_ = function;
    location.line_ = line;
    location.column_ = column;
    return location;
  }

  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }
  constexpr std::uint_least32_t line() const { return line_; }
  constexpr std::uint_least32_t column() const { return column_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  std::uint_least32_t line_ = 0, column_ = 0;
};

}  // namespace inlay::npu

#endif
