// Writes a GGUF v3 file. Tensors come row by row from functions, so that a model larger than memory
// can be converted; the file appears under its name only when it is complete.
#pragma once

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/model/gguf/gguf.hpp"

namespace inlay::exec {

class GgufWriter {
 public:
  // Fills one row (the innermost dimension) in the tensor's type.
  using RowSource = std::function<Status(index row, std::byte* out)>;

  void set(std::string_view key, std::uint32_t value) { scalar(key, GgufType::u32, value); }
  void set(std::string_view key, float value) { scalar(key, GgufType::f32, value); }
  void set(std::string_view key, bool value) { scalar(key, GgufType::boolean, static_cast<std::uint8_t>(value)); }
  void set(std::string_view key, std::string_view value) {
    begin(key, GgufType::string);
    put_string(pairs_, value);
  }
  void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
  void set(std::string_view key, std::span<const float> values) { array(key, GgufType::f32, values); }
  void set(std::string_view key, std::span<const std::int32_t> values) { array(key, GgufType::i32, values); }
  void set_flags(std::string_view key, std::span<const std::uint8_t> values) { array(key, GgufType::boolean, values); }
  void set(std::string_view key, std::span<const std::string_view> values) {
    begin(key, GgufType::array);
    put(pairs_, GgufType::string);
    put(pairs_, static_cast<std::uint64_t>(values.size()));
    for (const std::string_view value : values) put_string(pairs_, value);
  }

  // `extents` row-major, innermost last.
  void tensor(std::string name, GgmlType type, std::span<const index> extents, RowSource source);

  index tensor_bytes() const;

  // All that goes before the tensors, padded: a file by itself where there are none.
  std::string head() const;

  Status write(const std::string& path) const;

 private:
  struct Entry {
    std::string name;
    GgmlType type;
    std::vector<index> extents;
    RowSource source;
    index rows = 1, row_bytes = 0;
  };

  template <class T> static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static void put_string(std::string& out, std::string_view text) {
    put(out, static_cast<std::uint64_t>(text.size()));
    out.append(text);
  }
  void begin(std::string_view key, GgufType type) {
    ++pair_count_;
    put_string(pairs_, key);
    put(pairs_, type);
  }
  template <class T> void scalar(std::string_view key, GgufType type, T value) {
    begin(key, type);
    put(pairs_, value);
  }
  template <class T> void array(std::string_view key, GgufType element, std::span<const T> values) {
    begin(key, GgufType::array);
    put(pairs_, element);
    put(pairs_, static_cast<std::uint64_t>(values.size()));
    if (!values.empty()) pairs_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }

  Status write_to(std::FILE* file, const std::string& path) const;

  std::string pairs_;
  std::uint64_t pair_count_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace inlay::exec
