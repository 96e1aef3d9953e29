// Which steps of a recorded line must wait for which: whatever order keeps the edges computes the same bits.
//
//   rope_table ---------------+
//   embedding - norm - qkv -+- rope k - cache -+- attention - ..
//                           +- rope q ---------+
//
// An edge stands for a byte that both touch and one of them writes (Hazards). Only those that no path says already are
// kept: the transitive reduction. Scratch makes no edges: a device computes one step after the other, in scratch of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <inlay/exec/plan/accesses.hpp>

namespace inlay::exec {

class Edges {
 public:
  // Of steps in the order of the program.
  static Edges of(std::span<const Accesses> steps);
  // Of steps that keep the order of the program.
  static Edges in_order(index steps);

  index steps() const { return static_cast<index>(before_.size()); }
  index count() const { return count_; }
  // The steps that end an edge, or begin one, at this one, the latest first, or the earliest.
  std::span<const index> before(index step) const { return before_[static_cast<std::size_t>(step)]; }
  std::span<const index> after(index step) const { return after_[static_cast<std::size_t>(step)]; }

  // Is there a path?
  bool precedes(index earlier, index later) const;
  // Pairs of steps that may run at once, of steps x (steps - 1) / 2.
  index unordered_pairs() const;
  // Steps of the longest path.
  index longest_path() const;

 private:
  explicit Edges(index steps);

  void add(index from, index to);
  std::uint64_t* ancestors(index step) { return ancestors_.data() + static_cast<std::size_t>(step) * words_; }
  const std::uint64_t* ancestors(index step) const {
    return ancestors_.data() + static_cast<std::size_t>(step) * words_;
  }

  std::size_t words_;
  std::vector<std::vector<index>> before_, after_;
  std::vector<std::uint64_t> ancestors_;  // a row of bits for each step
  index count_ = 0;
};

}  // namespace inlay::exec
