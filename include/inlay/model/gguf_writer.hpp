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

#include <inlay/model/gguf.hpp>

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
  void set(std::string_view key, std::span<const std::string_view> values) {
    begin(key, GgufType::array);
    put(pairs_, GgufType::string);
    put(pairs_, static_cast<std::uint64_t>(values.size()));
    for (const std::string_view value : values) put_string(pairs_, value);
  }

  // `extents` row-major, innermost last.
  void tensor(std::string name, GgmlType type, std::span<const index> extents, RowSource source) {
    Entry entry{std::move(name), type, {extents.begin(), extents.end()}, std::move(source)};
    entry.row_bytes = ggml_row_bytes(type, extents.back());
    for (std::size_t d = 0; d + 1 < extents.size(); ++d) entry.rows *= extents[d];
    entries_.push_back(std::move(entry));
  }

  index tensor_bytes() const {
    index sum = 0;
    for (const Entry& entry : entries_) sum += entry.rows * entry.row_bytes;
    return sum;
  }

  Status write(const std::string& path) const {
    const std::string partial = path + ".partial";
    std::FILE* file = std::fopen(partial.c_str(), "wb");
    if (!file) return {StatusCode::not_found, partial + ": " + std::strerror(errno)};
    Status status = write_to(file, path);
    if (std::fclose(file) != 0 && status) status = write_error(path);
    if (status && std::rename(partial.c_str(), path.c_str()) != 0) status = write_error(path);
    if (!status) (void)std::remove(partial.c_str());
    return status;
  }

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

  static std::uint64_t aligned(std::uint64_t offset) {
    return (offset + gguf_default_alignment - 1) / gguf_default_alignment * gguf_default_alignment;
  }
  static Status write_error(const std::string& path) {
    return {StatusCode::internal, path + ": cannot be written: " + std::strerror(errno)};
  }

  Status write_to(std::FILE* file, const std::string& path) const {
    std::string head("GGUF");
    put(head, std::uint32_t{3});
    put(head, static_cast<std::uint64_t>(entries_.size()));
    put(head, pair_count_);
    head += pairs_;
    std::uint64_t offset = 0;
    for (const Entry& entry : entries_) {
      put_string(head, entry.name);
      put(head, static_cast<std::uint32_t>(entry.extents.size()));
      for (auto extent = entry.extents.rbegin(); extent != entry.extents.rend(); ++extent)
        put(head, static_cast<std::uint64_t>(*extent));
      put(head, entry.type);
      put(head, offset);
      offset = aligned(offset + static_cast<std::uint64_t>(entry.rows * entry.row_bytes));
    }
    head.resize(aligned(head.size()), '\0');
    if (std::fwrite(head.data(), 1, head.size(), file) != head.size()) return write_error(path);
    std::vector<std::byte> row;
    for (const Entry& entry : entries_) {
      row.resize(static_cast<std::size_t>(entry.row_bytes));
      for (index r = 0; r < entry.rows; ++r) {
        if (Status status = entry.source(r, row.data()); !status) return status;
        if (std::fwrite(row.data(), 1, row.size(), file) != row.size()) return write_error(path);
      }
      const auto bytes = static_cast<std::uint64_t>(entry.rows * entry.row_bytes);
      row.assign(static_cast<std::size_t>(aligned(bytes) - bytes), std::byte{});
      if (std::fwrite(row.data(), 1, row.size(), file) != row.size()) return write_error(path);
    }
    return {};
  }

  std::string pairs_;
  std::uint64_t pair_count_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace inlay::exec
