#include "executor/model/gguf/parts.hpp"

#include <algorithm>
#include <cstdio>
#include <unordered_set>
#include <utility>

#include <inlay/core/quote.hpp>

#include "executor/model/gguf/metadata.hpp"

namespace inlay::exec {

namespace {

constexpr index max_parts = 99999;  // five digits of a name

struct Split {
  index no = 0, count = 1, tensors = -1;
};

Expected<Split> split_of(const GgufFile& file) {
  GgufMetadata meta(file);
  Split split;
  if (meta.integer("split.count", split.count, false) && split.count > 1) {
    meta.integer("split.no", split.no, true);
    meta.integer("split.tensors.count", split.tensors, true);
  }
  if (Status status = meta.take_status(); !status) return failure(std::move(status));
  if (split.count < 0 || split.count > max_parts)
    return failure(file.corrupt("the key 'split.count' is " + std::to_string(split.count) + "; it must be at most " +
                                std::to_string(max_parts)));
  return split;
}

// How the name of a part ends.
std::string ending(index no, index count) {
  char text[32];
  std::snprintf(text, sizeof(text), "-%05d-of-%05d.gguf", static_cast<int>(no + 1), static_cast<int>(count));
  return text;
}

bool same(const GgufValue& a, const GgufValue& b) {
  return a.type == b.type && a.element == b.element && a.count == b.count &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

}  // namespace

Status check_first_gguf_part(const GgufFile& file) {
  auto split = split_of(file);
  if (!split) return std::move(split.error());
  if (split->no == 0) return {};
  return {StatusCode::unsupported, file.origin() + ": part " + std::to_string(split->no + 1) + " of " +
                                       std::to_string(split->count) + " of a model; the first must be opened, ..." +
                                       ending(0, split->count)};
}

Status take_gguf_part(GgufFile& file, GgufFile part, index no) {
  auto expected = split_of(file), split = split_of(part);
  if (!expected) return std::move(expected.error());
  if (!split) return std::move(split.error());
  const auto refuse = [&](const std::string& key, index value, index must) -> Status {
    return part.corrupt("the key " + quote(key) + " is " + std::to_string(value) + "; it must be " +
                        std::to_string(must) + ", as " + file.origin() + " is the first part of the model");
  };
  if (split->count != expected->count) return refuse("split.count", split->count, expected->count);
  if (split->no != no) return refuse("split.no", split->no, no);
  if (split->tensors != expected->tensors) return refuse("split.tensors.count", split->tensors, expected->tensors);
  for (const auto& [key, value] : part.metadata()) {
    if (key == "split.no" || key == "general.alignment") continue;  // each part's own
    const GgufValue* first = file.find(key);
    if (first == nullptr || !same(*first, value))
      return part.corrupt("the key " + quote(key) + " is another than in " + file.origin() +
                          "; a part must be of the same model");
  }
  file.take_tensors(std::move(part));
  return {};
}

Status check_gguf_parts(const GgufFile& file) {
  auto split = split_of(file);
  if (!split) return std::move(split.error());
  if (split->count <= 1) return {};
  std::unordered_set<std::string_view> names;
  for (const WeightTensor& tensor : file.tensors())
    if (!names.insert(tensor.name).second) return file.corrupt("two parts have the tensor " + quote(tensor.name));
  if (const auto count = static_cast<index>(file.tensors().size()); count != split->tensors)
    return file.corrupt("the parts have " + std::to_string(count) + " tensors; the key 'split.tensors.count' says " +
                        std::to_string(split->tensors));
  return {};
}

Status join_gguf_parts(GgufFile& file, const std::string& path) {
  auto split = split_of(file);
  if (!split) return std::move(split.error());
  if (split->count <= 1) return {};
  const std::string end = ending(0, split->count);
  if (!path.ends_with(end))
    return {StatusCode::unsupported, file.origin() + ": the first of " + std::to_string(split->count) +
                                         " parts of a model; its name must end in " + end +
                                         ", as the others are found by it"};
  const std::string stem = path.substr(0, path.size() - end.size());
  for (index no = 1; no < split->count; ++no) {
    auto part = GgufFile::open(stem + ending(no, split->count));
    if (!part) return std::move(part.error());
    if (Status status = take_gguf_part(file, std::move(*part), no); !status) return status;
  }
  return check_gguf_parts(file);
}

}  // namespace inlay::exec
