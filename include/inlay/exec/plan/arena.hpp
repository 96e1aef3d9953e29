// Where the tensors of a recorded line may lie. A model writes into a few buffers again and again; what it writes into
// one of them and reads again is a tensor, and the next one in that buffer has nothing to do with it:
//
//   step       0        1        2        3        4
//   normed   | write    read   | write    read     read |       two tensors
//
//   Arena arena(graph.accesses(), kept);
//   Edges edges = Edges::of(arena.apart());     // what values need, without those that only share a buffer
//   arena.place(edges);                         // in as few bytes as the order of these edges lets it
//   arena.move(graph, memory);                  // arena.bytes() of them, aligned to 64
//
// Two tensors have a byte in common only if all steps that touch one precede all that touch the other in that order,
// not only in the program's: then every legal order is one that keeps them apart in time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <inlay/core/layout.hpp>
#include <inlay/exec/plan/accesses.hpp>
#include <inlay/exec/plan/edges.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

class Arena {
 public:
  struct Tensor {
    ByteRange recorded;         // where it lies
    std::vector<index> steps;   // that touch it, in the order of the program
    std::ptrdiff_t offset = 0;  // in the arena; as its recorded address, modulo 64
  };

  // `kept`: memory whose contents outlive the steps: caches, logits. It stays where it is, as does all that a step
  // reads before one has written it.
  Arena(std::vector<Accesses> steps, std::span<const ByteRange> kept);

  std::span<const Tensor> tensors() const { return tensors_; }
  // Of the buffers that they lie in as recorded.
  std::size_t recorded_bytes() const { return recorded_bytes_; }

  // The steps as if each tensor had a buffer to itself.
  std::vector<Accesses> apart() const;

  void place(const Edges& order);
  std::size_t bytes() const { return bytes_; }
  // The steps of the graph that was recorded look there.
  void move(StepGraph& graph, std::byte* memory) const;

 private:
  struct Region;

  void find_tensors(Region& region);

  std::vector<Accesses> steps_;
  std::vector<std::vector<index>> tensor_of_;  // of each access of each step; -1: it is kept
  std::vector<Tensor> tensors_;
  std::size_t recorded_bytes_ = 0, bytes_ = 0;
};

}  // namespace inlay::exec
