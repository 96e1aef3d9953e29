// Best-first merging of neighbours, which SPM and BPE share: of all adjacent pairs that make a token,
// merge the one of the highest priority, the leftmost among equals, until none is left.
//
// Symbols form a linked list in text order; candidates wait in a heap, and those that an earlier
// merge made stale are recognised by their length when they come up: O(n log n) for n symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include <inlay/text/vocabulary.hpp>

namespace inlay::exec {

struct Symbol {
  std::int32_t previous, next;  // in the list; -1 at the ends
  std::uint32_t begin, length;  // in the text; length 0: merged into the one before
  std::int32_t token;           // no_token where the text is none
};

// The next one of a list that is made in text order.
inline void add_symbol(std::size_t begin, std::size_t length, std::int32_t token, std::vector<Symbol>& symbols) {
  const auto at = static_cast<std::int32_t>(symbols.size());
  symbols.push_back({at - 1, at + 1, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(length), token});
}

struct Merge {
  double priority;
  std::int32_t token;  // no_token: these two do not merge
};

// `pair(left, right)` gives the Merge of two neighbours.
template <class Pair> void merge_symbols(std::vector<Symbol>& symbols, Pair pair) {
  struct Candidate {
    double priority;
    std::int32_t left, right;
    std::uint32_t length;
    std::int32_t token;
    bool operator<(const Candidate& other) const {
      return priority < other.priority || (priority == other.priority && left > other.left);
    }
  };
  std::vector<Candidate> memory;
  memory.reserve(symbols.size());
  std::priority_queue<Candidate> queue(std::less<Candidate>{}, std::move(memory));
  const auto consider = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    const Symbol& a = symbols[static_cast<std::size_t>(left)];
    const Symbol& b = symbols[static_cast<std::size_t>(right)];
    const Merge merge = pair(a, b);
    if (merge.token != TokenizerData::no_token)
      queue.push({merge.priority, left, right, a.length + b.length, merge.token});
  };
  for (std::size_t i = 1; i < symbols.size(); ++i)
    consider(static_cast<std::int32_t>(i) - 1, static_cast<std::int32_t>(i));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& a = symbols[static_cast<std::size_t>(best.left)];
    Symbol& b = symbols[static_cast<std::size_t>(best.right)];
    if (a.length == 0 || b.length == 0 || a.length + b.length != best.length) continue;
    a.length += b.length;
    a.token = best.token;
    a.next = b.next;
    b.length = 0;
    if (b.next >= 0) symbols[static_cast<std::size_t>(b.next)].previous = best.left;
    consider(a.previous, best.left);
    consider(best.left, a.next);
  }
}

}  // namespace inlay::exec
