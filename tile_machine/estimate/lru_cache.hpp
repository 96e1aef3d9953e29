// Values by key, of which those go that nobody has asked for lately: what is kept of programs must not grow with the
// lengths that a decode loop goes through.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace inlay::npu {

template <class Value> class LruCache {
 public:
  // Null: it is not there. A value stays where it is until it goes.
  Value* find(const std::string& key) {
    const auto found = kept_.find(key);
    if (found == kept_.end()) return nullptr;
    found->second.used = ++uses_;
    return &found->second.value;
  }
  Value& put(const std::string& key, Value value) {
    return kept_.insert_or_assign(key, Kept{std::move(value), ++uses_}).first->second.value;
  }
  std::size_t size() const { return kept_.size(); }

  // The half that was asked for longest ago goes; visit(value) sees each of it.
  template <class Visit> void halve(Visit&& visit) {
    std::vector<std::uint64_t> uses;
    for (const auto& [key, kept] : kept_) uses.push_back(kept.used);
    const auto middle = uses.begin() + static_cast<std::ptrdiff_t>(uses.size() / 2);
    std::nth_element(uses.begin(), middle, uses.end());
    for (auto each = kept_.begin(); each != kept_.end();) {
      const bool goes = each->second.used < *middle;
      if (goes) visit(each->second.value);
      each = goes ? kept_.erase(each) : std::next(each);
    }
  }
  // Where there are `most` of them, room for one more is made.
  void make_room(std::size_t most) {
    if (size() >= most) halve([](const Value&) {});
  }

 private:
  struct Kept {
    Value value;
    std::uint64_t used;
  };
  std::unordered_map<std::string, Kept> kept_;
  std::uint64_t uses_ = 0;
};

}  // namespace inlay::npu
