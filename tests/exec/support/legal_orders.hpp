// Orders of steps that edges allow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include <inlay/exec/plan/edges.hpp>

namespace inlay::exec::test {

enum class Pick : unsigned char { random, latest };

// Of the steps that wait for none, any is next, or the one that stands last in the program: as far from its order as
// edges let it.
inline std::vector<index> legal_order(const Edges& edges, Pick pick, std::mt19937& random) {
  std::vector<std::size_t> waits(static_cast<std::size_t>(edges.steps()));
  std::vector<index> ready, order;
  for (index step = 0; step < edges.steps(); ++step) {
    waits[static_cast<std::size_t>(step)] = edges.before(step).size();
    if (edges.before(step).empty()) ready.push_back(step);
  }
  while (!ready.empty()) {
    auto chosen = std::max_element(ready.begin(), ready.end());
    if (pick == Pick::random) chosen = ready.begin() + static_cast<std::ptrdiff_t>(random() % ready.size());
    const index step = *chosen;
    ready.erase(chosen);
    order.push_back(step);
    for (const index next : edges.after(step))
      if (--waits[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
  }
  return order;
}

}  // namespace inlay::exec::test
