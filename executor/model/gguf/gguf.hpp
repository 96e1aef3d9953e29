// The GGUF container, versions 2 and 3, little endian, read in place:
//
//   "GGUF" u32 version u64 tensors u64 pairs
//   pairs x { string key, u32 type, value }                 string: u64 length, bytes
//   tensors x { string name, u32 rank, u64 extents[rank] innermost first, u32 type, u64 offset }
//   padding to general.alignment (32)
//   data: offsets count from here
//
// A tensor may have an extent of 0: no bytes then, wherever it lies.
//
// Files come from anywhere. Every length and count is compared with what is left of the file before
// anything is sized by it, so work and memory stay proportional to the file.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/model/mapped_file.hpp>
#include <inlay/model/model_file.hpp>

namespace inlay::exec {

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

inline constexpr std::uint32_t gguf_type_count = 13;
inline constexpr std::uint64_t gguf_default_alignment = 32;

// Bytes of a scalar; 0 for strings and arrays.
constexpr std::size_t gguf_scalar_bytes(GgufType type) {
  constexpr std::size_t table[gguf_type_count] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return table[static_cast<std::size_t>(type)];
}

struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;        // of an array
  std::uint64_t count = 0;                // of an array
  std::span<const std::byte> bytes = {};  // a scalar, the characters of a string, or an array's payload

  template <class T> T read(std::size_t i = 0) const {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

// A position in the file that cannot pass its end.
class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return bytes_.size() - position_; }

  bool take(std::uint64_t count, std::span<const std::byte>& out) {
    if (count > left()) return false;
    out = bytes_.subspan(position_, static_cast<std::size_t>(count));
    position_ += static_cast<std::size_t>(count);
    return true;
  }
  template <class T> bool read(T& value) {
    std::span<const std::byte> raw;
    if (!take(sizeof(T), raw)) return false;
    std::memcpy(&value, raw.data(), sizeof(T));
    return true;
  }
  bool read_string(std::string_view& out) {
    std::uint64_t length = 0;
    std::span<const std::byte> raw;
    if (!read(length) || !take(length, raw)) return false;
    out = {reinterpret_cast<const char*>(raw.data()), raw.size()};
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

class GgufFile {
 public:
  // Asked when the metadata are read and the tensors are not: what it refuses is said before what is wrong with them.
  using Accept = std::function<Status(const GgufFile&)>;

  static Expected<GgufFile> open(const std::string& path, const Accept& accept = {});

  // `origin` names the file in messages.
  static Expected<GgufFile> parse(std::shared_ptr<const Mapping> mapping, const std::string& origin,
                                  const Accept& accept = {});

  const std::string& origin() const { return origin_; }
  // The file's own first, then those of parts that were taken in.
  const std::vector<std::shared_ptr<const Mapping>>& mappings() const { return mappings_; }
  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  const std::vector<WeightTensor>& tensors() const { return tensors_; }  // in the file's order

  const GgufValue* find(std::string_view key) const;

  // The tensors of `part`, behind those that are there. Whether they belong together is for whoever calls.
  void take_tensors(GgufFile part);

  Status corrupt(const std::string& what) const { return {StatusCode::corrupt_data, origin_ + ": " + what}; }

 private:
  Status parse_all(const Accept& accept);
  Status parse_pair(GgufCursor& cursor, std::uint64_t i);
  Status parse_array(GgufCursor& cursor, std::string_view key, GgufValue& value);
  Status read_alignment();
  Status parse_tensor(GgufCursor& cursor, std::uint64_t i, std::set<std::string_view>& names, std::uint64_t& offset);
  Status place_tensors(std::size_t table_end, const std::vector<std::uint64_t>& offsets);

  Status truncated(const std::string& what) const { return corrupt("the file ends within " + what); }
  Status too_many(const std::string& what, std::uint64_t count) const {
    return corrupt("the header counts " + std::to_string(count) + " " + what + ", more than the file has room for");
  }

  const Mapping& mapping() const { return *mappings_.front(); }

  std::vector<std::shared_ptr<const Mapping>> mappings_;
  std::string origin_;
  std::map<std::string_view, GgufValue> metadata_;
  std::vector<WeightTensor> tensors_;
  std::uint64_t alignment_ = gguf_default_alignment;
};

}  // namespace inlay::exec
