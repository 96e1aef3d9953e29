#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/hf/safetensors.hpp"
#include "executor/model/json/json.hpp"

namespace inlay::exec {

namespace {

Status read_safetensors_entry(SafetensorsFile& file, std::string_view name, const Json& entry,
                              std::span<const std::byte> data) {
  const auto corrupt = [&](const std::string& what) -> Status {
    return {StatusCode::corrupt_data, file.path + ": the tensor " + quote(name) + " " + what};
  };
  const Json dtype = entry.find("dtype"), shape = entry.find("shape"), offsets = entry.find("data_offsets");
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return corrupt("lacks a dtype, a shape or data_offsets");
  if (!offsets[0].is_natural() || !offsets[1].is_natural())
    return corrupt("has data_offsets that are no whole numbers");
  const std::uint64_t begin = offsets[0].natural(), end = offsets[1].natural();
  if (begin > end || end > data.size())
    return corrupt("lies at [" + std::to_string(begin) + ", " + std::to_string(end) + "); the file has " +
                   std::to_string(data.size()) + " bytes of data");
  const std::string_view type = dtype.text();
  WeightTensor tensor{.name = std::string(name), .data = data.data() + begin, .bytes = static_cast<index>(end - begin)};
  constexpr std::pair<std::string_view, index> sizes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
                                                          {"I32", 4}, {"I8", 1},  {"U8", 1},   {"F8_E4M3", 1}};
  const auto known =
      std::find_if(std::begin(sizes), std::end(sizes), [&](const auto& each) { return each.first == type; });
  if (known == std::end(sizes))
    return file.other_dtypes.emplace(name, SafetensorsFile::Raw{.dtype = std::string(type), .bytes = tensor.bytes}),
           Status{};
  if (shape.size() > 4) return corrupt("has rank " + std::to_string(shape.size()) + "; it must be 0 to 4");
  index bytes = known->second;  // without extents of 0: products must not overflow beside one either
  for (const Json extent : shape.elements()) {
    if (!extent.is_natural() || extent.natural() > INT64_MAX ||
        __builtin_mul_overflow(bytes, std::max<index>(extent.integer(), 1), &bytes))
      return corrupt("has an extent that is no reasonable number");
    tensor.extents[static_cast<std::size_t>(tensor.rank++)] = extent.integer();
  }
  if (tensor.size() == 0) bytes = 0;
  if (bytes != tensor.bytes)
    return corrupt("takes " + std::to_string(tensor.bytes) + " bytes; its shape needs " + std::to_string(bytes));
  if (type == "F32" || type == "F16" || type == "BF16") {
    tensor.type = type == "F32" ? GgmlType::F32 : type == "F16" ? GgmlType::F16 : GgmlType::BF16;
    file.tensors.emplace(name, std::move(tensor));
  } else {
    file.other_dtypes.emplace(
        name, SafetensorsFile::Raw{std::string(type), tensor.rank, tensor.extents, tensor.data, tensor.bytes});
  }
  return {};
}

// Loading copies some of them: those that share their bytes could be copied more often than the file is long.
Status check_apart(const SafetensorsFile& file) {
  struct Place {
    const std::string* name;
    const std::byte* data;
    index bytes;
  };
  std::vector<Place> order;
  order.reserve(file.tensors.size() + file.other_dtypes.size());
  const auto add = [&](const std::string& name, const auto& tensor) {
    if (tensor.bytes > 0 && tensor.data != nullptr) order.push_back({&name, tensor.data, tensor.bytes});
  };
  for (const auto& [name, tensor] : file.tensors) add(name, tensor);
  for (const auto& [name, tensor] : file.other_dtypes) add(name, tensor);
  std::sort(order.begin(), order.end(), [](const Place& a, const Place& b) { return a.data < b.data; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i - 1].data + order[i - 1].bytes > order[i].data)
      return {StatusCode::corrupt_data,
              file.path + ": the tensors " + quote(*order[i - 1].name) + " and " + quote(*order[i].name) + " overlap"};
  return {};
}

}  // namespace

Expected<SafetensorsFile> open_safetensors(const std::string& path) {
  auto mapping = Mapping::file(path);
  if (!mapping) return failure(std::move(mapping.error()));
  SafetensorsFile file{.path = path, .mapping = *mapping, .tensors = {}, .other_dtypes = {}};
  const std::span<const std::byte> bytes = file.mapping->bytes();
  std::uint64_t length = 0;
  if (bytes.size() < sizeof(length))
    return failure(StatusCode::corrupt_data, path + ": the file ends within the header's length");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > bytes.size() - sizeof(length))
    return failure(StatusCode::corrupt_data,
                   path + ": a header of " + std::to_string(length) + " bytes passes the end of the file");
  const auto header = parse_json(
      {reinterpret_cast<const char*>(bytes.data()) + sizeof(length), static_cast<std::size_t>(length)}, path);
  if (!header)
    return failure(header.error().code(), std::string(header.error().message()) + " where the header should be");
  const auto data = bytes.subspan(sizeof(length) + static_cast<std::size_t>(length));
  for (const auto& [name, entry] : header->root().members()) {
    if (name == "__metadata__") continue;
    if (Status status = read_safetensors_entry(file, name, entry, data); !status) return failure(std::move(status));
  }
  if (Status status = check_apart(file); !status) return failure(std::move(status));
  return file;
}

Expected<const std::byte*> aligned_data(const std::byte* data, index bytes, std::size_t alignment,
                                        std::vector<std::shared_ptr<const Mapping>>& memory) {
  if (bytes == 0 || reinterpret_cast<std::uintptr_t>(data) % alignment == 0) return data;
  auto copy = Mapping::anonymous(static_cast<std::size_t>(bytes));
  if (!copy) return failure(std::move(copy.error()));
  std::memcpy((*copy)->mutable_data(), data, static_cast<std::size_t>(bytes));
  drop_pages(data, static_cast<std::size_t>(bytes));
  memory.push_back(std::move(*copy));
  return memory.back()->data();
}

}  // namespace inlay::exec
