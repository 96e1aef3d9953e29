// Where a template reads and sets its names, as far as Jinja's compiler makes more of it than who runs the template
// would:
//
//   {% for m in messages %}{{ bos_token }}{% endfor %}{% set bos_token = '' %}
//
// Since the outer block sets the name and does nothing else with it before, the inner one reads that name, which has no
// value yet, and not the one that was given. Such a template is refused where the name is given.
#pragma once

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace inlay::exec::chat {

class NameScopes {
 public:
  void enter() { scopes_.emplace_back(); }
  void leave() {
    const Scope inner = std::move(scopes_.back());
    scopes_.pop_back();
    Names& reads = scopes_.back().inner_reads;
    reads.insert(inner.reads.begin(), inner.reads.end());
    for (const std::string_view name : inner.inner_reads)
      if (!inner.known.contains(name)) reads.insert(name);
  }
  void read(std::string_view name) {
    if (scopes_.back().known.insert(name).second) scopes_.back().reads.insert(name);
  }
  // True where an inner block has read the name, and none around it knows it.
  bool set(std::string_view name) {
    const bool known =
        std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& each) { return each.known.contains(name); });
    scopes_.back().known.insert(name);
    return !known && scopes_.back().inner_reads.contains(name);
  }

 private:
  using Names = std::set<std::string_view>;
  struct Scope {
    Names known = {};        // read or set here
    Names reads = {};        // of these, those that were read first
    Names inner_reads = {};  // by blocks within
  };

  std::vector<Scope> scopes_{1};
};

}  // namespace inlay::exec::chat
