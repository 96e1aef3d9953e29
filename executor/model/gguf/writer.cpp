#include <cerrno>
#include <cstring>

#include "executor/model/gguf/writer.hpp"
#include "files/whole_file.hpp"

namespace inlay::exec {

namespace {

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + gguf_default_alignment - 1) / gguf_default_alignment * gguf_default_alignment;
}
Status write_error(const std::string& path) {
  return {StatusCode::internal, path + ": cannot be written: " + std::strerror(errno)};
}

}  // namespace

void GgufWriter::tensor(std::string name, GgmlType type, std::span<const index> extents, RowSource source) {
  Entry entry{std::move(name), type, {extents.begin(), extents.end()}, std::move(source)};
  entry.row_bytes = ggml_row_bytes(type, extents.back());
  for (std::size_t d = 0; d + 1 < extents.size(); ++d) entry.rows *= extents[d];
  entries_.push_back(std::move(entry));
}

index GgufWriter::tensor_bytes() const {
  index sum = 0;
  for (const Entry& entry : entries_) sum += entry.rows * entry.row_bytes;
  return sum;
}

Status GgufWriter::write(const std::string& path) const {
  return files::write_whole(path, [&](std::FILE* file) { return write_to(file, path); });
}

std::string GgufWriter::head() const {
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
  return head;
}

Status GgufWriter::write_to(std::FILE* file, const std::string& path) const {
  const std::string head = this->head();
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

}  // namespace inlay::exec
