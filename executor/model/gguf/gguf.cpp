#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include <inlay/core/quote.hpp>

#include "executor/model/gguf/gguf.hpp"
#include "executor/model/one_of.hpp"

namespace inlay::exec {

namespace {

// "F32, F16, .. or MXFP4": of weights.
std::string weight_types() {
  std::vector<std::string_view> names;
  for (std::uint32_t number = 0; number < std::size(detail::ggml_formats); ++number)
    if (const auto type = static_cast<GgmlType>(number); is_weight_type(type)) names.push_back(ggml_format(type).name);
  return one_of(names);
}

}  // namespace

Expected<GgufFile> GgufFile::open(const std::string& path, const Accept& accept) {
  auto mapping = Mapping::file(path);
  if (!mapping) return failure(std::move(mapping.error()));
  return parse(std::move(*mapping), path, accept);
}

Expected<GgufFile> GgufFile::parse(std::shared_ptr<const Mapping> mapping, const std::string& origin,
                                   const Accept& accept) {
  static_assert(std::endian::native == std::endian::little, "GGUF is read in place");
  GgufFile file;
  file.mappings_.push_back(std::move(mapping));
  file.origin_ = origin;
  if (Status status = file.parse_all(accept); !status) return failure(std::move(status));
  return file;
}

void GgufFile::take_tensors(GgufFile part) {
  std::move(part.tensors_.begin(), part.tensors_.end(), std::back_inserter(tensors_));
  std::move(part.mappings_.begin(), part.mappings_.end(), std::back_inserter(mappings_));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? nullptr : &at->second;
}

Status GgufFile::parse_all(const Accept& accept) {
  GgufCursor cursor(mapping().bytes());
  std::uint32_t magic = 0, version = 0;
  std::uint64_t tensor_count = 0, pair_count = 0;
  if (!cursor.read(magic) || magic != 0x46554747u) return corrupt("not a GGUF file (the magic is missing)");
  if (!cursor.read(version)) return truncated("the version");
  if (version != 0 && (version & 0xffffu) == 0)
    return {StatusCode::unsupported, origin_ + ": a big-endian GGUF file; only little-endian ones are read"};
  if (version != 2 && version != 3)
    return {StatusCode::unsupported, origin_ + ": GGUF version " + std::to_string(version) + "; it must be 2 or 3"};
  if (!cursor.read(tensor_count) || !cursor.read(pair_count)) return truncated("the header");
  // The least that an entry takes: empty strings, one byte of value, one extent.
  constexpr std::uint64_t min_pair = 8 + 4 + 1, min_tensor = 8 + 4 + 8 + 4 + 8;
  if (pair_count > cursor.left() / min_pair) return too_many("metadata pairs", pair_count);
  if (tensor_count > cursor.left() / min_tensor) return too_many("tensors", tensor_count);
  for (std::uint64_t i = 0; i < pair_count; ++i)
    if (Status status = parse_pair(cursor, i); !status) return status;
  if (accept)
    if (Status status = accept(*this); !status) return status;
  if (Status status = read_alignment(); !status) return status;
  tensors_.reserve(static_cast<std::size_t>(tensor_count));
  std::vector<std::uint64_t> offsets(static_cast<std::size_t>(tensor_count));
  std::set<std::string_view> names;
  for (std::uint64_t i = 0; i < tensor_count; ++i)
    if (Status status = parse_tensor(cursor, i, names, offsets[static_cast<std::size_t>(i)]); !status) return status;
  return place_tensors(cursor.position(), offsets);
}

Status GgufFile::parse_pair(GgufCursor& cursor, std::uint64_t i) {
  std::string_view key;
  std::uint32_t type = 0;
  if (!cursor.read_string(key)) return truncated("the key of metadata pair " + std::to_string(i));
  if (key.empty()) return corrupt("metadata pair " + std::to_string(i) + " has an empty key");
  if (!cursor.read(type)) return truncated("the type of key " + quote(key));
  if (type >= gguf_type_count) return corrupt("key " + quote(key) + " has the unknown type " + std::to_string(type));
  GgufValue value{.type = static_cast<GgufType>(type)};
  if (value.type == GgufType::array) {
    if (Status status = parse_array(cursor, key, value); !status) return status;
  } else if (value.type == GgufType::string) {
    std::uint64_t length = 0;
    if (!cursor.read(length) || !cursor.take(length, value.bytes)) return truncated("the value of key " + quote(key));
  } else if (!cursor.take(gguf_scalar_bytes(value.type), value.bytes)) {
    return truncated("the value of key " + quote(key));
  }
  if (value.type == GgufType::boolean && value.read<std::uint8_t>() > 1)
    return corrupt("key " + quote(key) + " is a boolean of " + std::to_string(value.read<std::uint8_t>()) +
                   "; it must be 0 or 1");
  if (!metadata_.emplace(key, value).second) return corrupt("key " + quote(key) + " is there twice");
  return {};
}

Status GgufFile::parse_array(GgufCursor& cursor, std::string_view key, GgufValue& value) {
  std::uint32_t element = 0;
  if (!cursor.read(element) || !cursor.read(value.count)) return truncated("the array of key " + quote(key));
  if (element >= gguf_type_count)
    return corrupt("key " + quote(key) + " is an array of the unknown type " + std::to_string(element));
  value.element = static_cast<GgufType>(element);
  if (value.element == GgufType::array)
    return {StatusCode::unsupported, origin_ + ": key " + quote(key) + " is an array of arrays"};
  if (value.element != GgufType::string) {
    const std::size_t size = gguf_scalar_bytes(value.element);
    if (value.count > cursor.left() / size || !cursor.take(value.count * size, value.bytes))
      return truncated("the array of key " + quote(key) + " with " + std::to_string(value.count) + " elements");
    return {};
  }
  GgufCursor inside = cursor;  // strings: walked once here, so that readers need not check again
  for (std::uint64_t k = 0; k < value.count; ++k)
    if (std::string_view text; !inside.read_string(text))
      return truncated("element " + std::to_string(k) + " of " + std::to_string(value.count) + " of key " + quote(key));
  cursor.take(inside.position() - cursor.position(), value.bytes);
  return {};
}

Status GgufFile::read_alignment() {
  const GgufValue* value = find("general.alignment");
  if (!value) return {};
  if (value->type != GgufType::u32) return corrupt("general.alignment is not a u32");
  alignment_ = value->read<std::uint32_t>();
  if (!std::has_single_bit(alignment_) || alignment_ < 8)
    return corrupt("general.alignment is " + std::to_string(alignment_) + "; it must be a power of two from 8 on");
  return {};
}

Status GgufFile::parse_tensor(GgufCursor& cursor, std::uint64_t i, std::set<std::string_view>& names,
                              std::uint64_t& offset) {
  std::string_view name;
  std::uint32_t rank = 0, type = 0;
  if (!cursor.read_string(name)) return truncated("the name of tensor " + std::to_string(i));
  if (name.empty()) return corrupt("tensor " + std::to_string(i) + " has an empty name");
  if (!names.insert(name).second) return corrupt("tensor " + quote(name) + " is there twice");
  if (!cursor.read(rank)) return truncated("tensor " + quote(name));
  if (rank < 1 || rank > 4)
    return corrupt("tensor " + quote(name) + " has rank " + std::to_string(rank) + "; it must be 1 to 4");
  WeightTensor tensor{.name = std::string(name), .rank = static_cast<int>(rank)};
  index size = 1;  // without extents of 0: their product must not overflow either, wherever the 0 stands
  for (std::uint32_t d = 0; d < rank; ++d) {
    std::uint64_t extent = 0;
    if (!cursor.read(extent)) return truncated("tensor " + quote(name));
    if (extent > static_cast<std::uint64_t>(INT64_MAX) ||
        __builtin_mul_overflow(size, std::max<index>(static_cast<index>(extent), 1), &size))
      return corrupt("tensor " + quote(name) + " has the extent " + std::to_string(extent) + " in dimension " +
                     std::to_string(d));
    tensor.extents[rank - 1 - d] = static_cast<index>(extent);
  }
  if (!cursor.read(type) || !cursor.read(offset)) return truncated("tensor " + quote(name));
  tensor.type = static_cast<GgmlType>(type);
  const GgmlFormat format = ggml_format(tensor.type);
  if (!is_known(tensor.type))
    return {StatusCode::unsupported, origin_ + ": tensor " + quote(name) + " has the type " +
                                         (format.name.empty() ? std::to_string(type) : std::string(format.name)) +
                                         "; it must be one of " + weight_types()};
  const index row = tensor.extents[rank - 1];
  if (row % format.block != 0)
    return corrupt("tensor " + quote(name) + " has rows of " + std::to_string(row) + "; " + std::string(format.name) +
                   " needs a multiple of " + std::to_string(format.block));
  if (__builtin_mul_overflow(size / format.block, format.bytes, &tensor.bytes))
    return corrupt("tensor " + quote(name) + " is larger than any file");
  if (tensor.size() == 0) tensor.bytes = 0;
  tensors_.push_back(std::move(tensor));
  return {};
}

Status GgufFile::place_tensors(std::size_t table_end, const std::vector<std::uint64_t>& offsets) {
  const std::uint64_t file_size = mapping().size();
  const std::uint64_t data = (table_end + alignment_ - 1) / alignment_ * alignment_;
  const bool has_data = std::any_of(tensors_.begin(), tensors_.end(), [](const auto& each) { return each.bytes > 0; });
  if (has_data && data > file_size) return truncated("the padding before the data");
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    WeightTensor& tensor = tensors_[i];
    if (offsets[i] % alignment_ != 0)
      return corrupt("tensor " + quote(tensor.name) + " lies at offset " + std::to_string(offsets[i]) +
                     "; it must be a multiple of " + std::to_string(alignment_));
    if (tensor.bytes == 0) continue;
    const std::uint64_t room = file_size - data;
    if (offsets[i] > room || static_cast<std::uint64_t>(tensor.bytes) > room - offsets[i])
      return corrupt("tensor " + quote(tensor.name) + " of " + std::to_string(tensor.bytes) + " bytes at offset " +
                     std::to_string(offsets[i]) + " passes the end of the file, which has " + std::to_string(room) +
                     " bytes of data");
    tensor.data = mapping().data() + data + offsets[i];
    order.emplace_back(offsets[i], i);
  }
  std::sort(order.begin(), order.end());
  for (std::size_t k = 1; k < order.size(); ++k) {
    const WeightTensor& before = tensors_[order[k - 1].second];
    if (order[k - 1].first + static_cast<std::uint64_t>(before.bytes) > order[k].first)
      return corrupt("tensors " + quote(before.name) + " and " + quote(tensors_[order[k].second].name) + " overlap");
  }
  return {};
}

}  // namespace inlay::exec
