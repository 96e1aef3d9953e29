#include "executor/model/hf/index.hpp"

#include <algorithm>
#include <numeric>

#include <inlay/core/quote.hpp>

#include "executor/model/json/file.hpp"

namespace inlay::exec {
namespace {

// The name of a shard stands in messages as a part of a path.
bool unprintable(char c) { return c < ' ' || c > '~'; }

// A path could point anywhere.
bool is_plain_name(std::string_view file) {
  return !file.empty() && file != "." && file != ".." && std::none_of(file.begin(), file.end(), unprintable) &&
         file.find_first_of("/\\") == std::string_view::npos;
}

}  // namespace

Expected<HfIndex> HfIndex::read(const std::string& path) {
  auto document = read_json(path);
  if (!document) return failure(std::move(document.error()));
  const Json map = document->root().find("weight_map");
  if (!map.is_object()) return failure(StatusCode::corrupt_data, path + ": the key 'weight_map' is no object");
  for (const auto& [tensor, shard] : map.members()) {
    if (!shard.is_string())
      return failure(StatusCode::corrupt_data, path + ": the shard of " + quote(tensor) + " is no string");
    if (!is_plain_name(shard.text()))
      return failure(StatusCode::corrupt_data, path + ": the shard " + quote(shard.text()) + " is no plain file name");
  }
  HfIndex index;
  index.texts_ = document->texts();
  index.places_.reserve(map.size());
  for (const auto& [tensor, shard] : map.members()) index.places_.push_back({shard.text(), tensor});
  std::sort(index.places_.begin(), index.places_.end());
  index.by_tensor_.resize(map.size());
  std::iota(index.by_tensor_.begin(), index.by_tensor_.end(), 0);
  std::sort(index.by_tensor_.begin(), index.by_tensor_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return index.places_[a].tensor < index.places_[b].tensor; });
  return index;
}

std::string_view HfIndex::shard_of(std::string_view tensor) const {
  const auto at = std::lower_bound(by_tensor_.begin(), by_tensor_.end(), tensor,
                                   [&](std::uint32_t i, const auto& name) { return places_[i].tensor < name; });
  return at != by_tensor_.end() && places_[*at].tensor == tensor ? places_[*at].shard : std::string_view();
}

}  // namespace inlay::exec
