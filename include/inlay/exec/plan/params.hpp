// All that a pass brings (BatchViews) at addresses that stay: what captured operators look at. One block of memory,
//
//   | slots | tokens | positions | logit rows | generated: lengths, tables | prompts: q_indptr, lengths, tables |
//
// with room for the largest pass. Parts lie side by side, so that passes of equal shapes (PlanKey) have each at the
// same address, and a device gets them by one copy. A batch is checked whole, then written: a captured operator looks
// at contents without asking. Tables are as wide as the longest text's, rounded up to a power of two, so that a plan
// serves until a text has twice the blocks; columns behind a text's own name no block (-1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <inlay/core/workspace.hpp>
#include <inlay/exec/batch.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/model/model_config.hpp>

namespace inlay::exec {

class Params {
 public:
  // For passes of at most `max_tokens` of a model whose cache has this shape.
  static Expected<Params> make(const ModelConfig& config, const BlockPool::Shape& cache, index max_tokens);

  // Refused, and nothing written: what an operator's contract would refuse, a token outside the vocabulary for example.
  Status commit(const BatchViews<Host>& batch);
  // What was committed last.
  const BatchViews<Host>& views() const { return views_; }
  // Where its contents lie, and how many of these bytes the last pass has.
  std::span<const std::byte> memory() const {
    return {static_cast<const std::byte*>(memory_.data), static_cast<std::size_t>(memory_.size())};
  }

  std::size_t used() const { return used_; }
  // The same views in a copy of that memory, a device's.
  template <class Space> BatchViews<Space> views_in(const View<1, Space>& copy) const {
    return moved<Space>(views_, [&]<int Rank>(const ConstView<Rank>& view) {
      ConstView<Rank, Space> there({}, view.dtype, view.extents);
      if (view.present())
        there.data =
            SpacePointer<Space>::advance(copy.data, static_cast<const std::byte*>(view.data) - memory().data());
      return there;
    });
  }

  // Counts how often addresses have changed that plans hold: these, where a table is wider than any text was said to
  // become, and those that renew() speaks for.
  std::int64_t generation() const { return generation_; }
  void renew() { ++generation_; }

 private:
  struct Bounds {
    index max_tokens, vocab, blocks, block_size;
    index window;  // keys before its own that a generated token sees in some layer; negative: all
  };
  explicit Params(const Bounds& bounds) : bounds_(bounds) {}

  Status take_room(index table_width);
  Status check_shapes(const BatchViews<Host>& batch) const;
  Status check_contents(const BatchViews<Host>& batch) const;
  Status check_texts(const char* which, const BatchViews<Host>::Texts& texts, bool windowed) const;
  BatchViews<Host>::Texts put(const BatchViews<Host>::Texts& texts, WorkspaceCutter& to) const;

  Bounds bounds_;
  HostTensors tensors_;
  View<1> memory_;
  std::size_t used_ = 0;
  index table_width_ = 0;  // that there is room for
  std::int64_t generation_ = 0;
  BatchViews<Host> views_;
};

}  // namespace inlay::exec
