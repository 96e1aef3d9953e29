// Ids below a bound, each once, in the order in which they came: a file may name one as often as it likes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace inlay::exec {

class IdSet {
 public:
  // Appends to `ids`.
  IdSet(std::vector<std::int32_t>& ids, std::size_t bound) : ids_(ids), seen_(bound) {}

  // `id` is below the bound.
  void add(std::int32_t id) {
    if (!seen_[static_cast<std::size_t>(id)]) ids_.push_back(id);
    seen_[static_cast<std::size_t>(id)] = true;
  }

 private:
  std::vector<std::int32_t>& ids_;
  std::vector<bool> seen_;
};

}  // namespace inlay::exec
