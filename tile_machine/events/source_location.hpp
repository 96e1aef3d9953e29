// Where a program's statement stands. Like std::source_location, which clang has from 15 on; but the same type to every
// compiler, so that what one has compiled links with what another has.
#pragma once

#include <cstdint>
#include <version>
#ifdef __cpp_lib_source_location
#include <source_location>
#endif

namespace inlay::npu {

class SourceLocation {
 public:
#ifdef __cpp_lib_source_location
  static constexpr SourceLocation current(std::source_location here = std::source_location::current()) {
    return {here.file_name(), here.line(), here.column()};
  }
#else
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          std::uint_least32_t line = __builtin_LINE(),
                                          std::uint_least32_t column = __builtin_COLUMN()) {
    return {file, line, column};
  }
#endif
  constexpr SourceLocation() = default;
  // Of a program that is not C++ here. The name must outlive it.
  static constexpr SourceLocation at(const char* file, std::uint_least32_t line, std::uint_least32_t column) {
    return {file, line, column};
  }

  constexpr const char* file_name() const { return file_; }
  constexpr std::uint_least32_t line() const { return line_; }
  constexpr std::uint_least32_t column() const { return column_; }

 private:
  constexpr SourceLocation(const char* file, std::uint_least32_t line, std::uint_least32_t column)
      : file_(file), line_(line), column_(column) {}

  const char* file_ = "";
  std::uint_least32_t line_ = 0, column_ = 0;
};

}  // namespace inlay::npu
