#include <inlay/exec/plan/edges.hpp>

#include <algorithm>
#include <bit>

namespace inlay::exec {

Edges::Edges(index steps)
    : words_((static_cast<std::size_t>(steps) + 63) / 64),
      before_(static_cast<std::size_t>(steps)),
      after_(static_cast<std::size_t>(steps)),
      ancestors_(static_cast<std::size_t>(steps) * words_) {}

void Edges::add(index from, index to) {
  before_[static_cast<std::size_t>(to)].push_back(from);
  after_[static_cast<std::size_t>(from)].push_back(to);
  std::uint64_t* const all = ancestors(to);
  const std::uint64_t* const more = ancestors(from);
  for (std::size_t word = 0; word < words_; ++word) all[word] |= more[word];
  all[static_cast<std::size_t>(from) / 64] |= std::uint64_t{1} << (from % 64);
  ++count_;
}

// The latest step first: whatever an earlier one's edge would say is a path by then, if there is one.
Edges Edges::of(std::span<const Accesses> steps) {
  Edges edges(std::ssize(steps));
  for (index to = 0; to < edges.steps(); ++to)
    for (index from = to; from-- > 0;)
      if (!edges.precedes(from, to) &&
          hazards(steps[static_cast<std::size_t>(from)], steps[static_cast<std::size_t>(to)]).any())
        edges.add(from, to);
  return edges;
}

Edges Edges::in_order(index steps) {
  Edges edges(steps);
  for (index to = 1; to < steps; ++to) edges.add(to - 1, to);
  return edges;
}

bool Edges::precedes(index earlier, index later) const {
  return (ancestors(later)[static_cast<std::size_t>(earlier) / 64] >> (earlier % 64) & 1) != 0;
}

index Edges::unordered_pairs() const {
  index ordered = 0;
  for (const std::uint64_t word : ancestors_) ordered += std::popcount(word);
  return steps() * (steps() - 1) / 2 - ordered;
}

index Edges::longest_path() const {
  std::vector<index> lengths(before_.size(), 1);
  index longest = 0;
  for (std::size_t step = 0; step < lengths.size(); ++step) {
    for (const index from : before_[step])
      lengths[step] = std::max(lengths[step], lengths[static_cast<std::size_t>(from)] + 1);
    longest = std::max(longest, lengths[step]);
  }
  return longest;
}

}  // namespace inlay::exec
