// Passes in pieces, as vLLM's piecewise graphs: what lies between attention is captured, attention runs as without a
// plan.
//
//   | rope table, embedding, norm, qkv, rope, cache | attention | output, norm, feed forward, norm, qkv, .. | attention
//   | ..
//     piece 0                                         eager       piece 1                                     eager
//
// Attention alone looks at tables, and asks which tokens are generated: so pieces serve all passes of so many tokens,
// however deep their texts are and whoever shares a batch. A line of layers is emitted in each pass, for its attention.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <inlay/exec/eager.hpp>
#include <inlay/exec/plan/plan_cache.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/paged_attention.hpp>

namespace inlay::exec {

// Who is in no piece.
template <class Op> inline constexpr bool attends = false;
template <class Space> inline constexpr bool attends<PagedAttention<Space>> = true;
template <class Space> inline constexpr bool attends<FlashAttention<Space>> = true;

// Where a line is that passes by. A piece ends where attention begins: that of generated tokens and that of prompts,
// one behind the other, end one piece.
class PiecePlace {
 public:
  // Of the operator that comes next: does it end a piece?
  template <class Op> bool pass() {
    if constexpr (attends<Op>) return !std::exchange(attending_, true);
    if (std::exchange(attending_, false)) ++piece_;
    return false;
  }
  index piece() const { return piece_; }
  // Is there a piece that nobody ended?
  bool open() const { return !attending_; }
  index pieces() const { return piece_ + 1; }

 private:
  index piece_ = 0;
  bool attending_ = false;
};

// A `run` that lets those of one piece through: a device records one after the other, each by a line of its own.
template <class Run> class PieceRun {
 public:
  PieceRun(Run& run, index piece) : run_(run), piece_(piece) {}

  template <class Op> void operator()(const Op& op) {
    place_.pass<Op>();
    if constexpr (!attends<Op>)
      if (place_.piece() == piece_) run_(op);
  }
  template <class Step> void gather(const Step& step) {
    place_.pass<Step>();
    if (place_.piece() == piece_) run_.gather(step);
  }

  // Of the line that passed by.
  index pieces() const { return place_.pieces(); }

 private:
  Run& run_;
  index piece_;
  PiecePlace place_;
};

// A `run` that replays a plan's pieces where they end, and computes what is between them. Attention may want more
// scratch than any operator before, and a device's plan knows where that lay: its generation ends in the midst of a
// pass, of which the rest runs as without a plan. `generation()`: that of the addresses now.
template <class Chain, class Generation> class ReplayRun {
 public:
  ReplayRun(Chain& chain, const Plan& plan, Generation generation, StepObserver* observer)
      : chain_(chain), plan_(plan), generation_(std::move(generation)), observer_(observer) {}

  template <class Op> void operator()(const Op& op) {
    const bool ends = place_.pass<Op>();
    if constexpr (attends<Op>) {
      if (ends && !over_) replay();
      if (!status_.ok()) return;
      if (observer_ != nullptr) observer_->begin(Op::name, shape_of_result(op).width);
      chain_(op);
      if (observer_ != nullptr) observer_->end();
      if (!chain_.ok()) status_ = chain_.take_status();
      over_ = over_ || generation_() != plan_.generation();
    } else if (over_) {
      chain_(op);
    }
  }
  template <class Step> void gather(const Step& step) {
    place_.pass<Step>();
    if (over_) chain_.gather(step);
  }

  // The last piece; the first failure.
  Status finish() && {
    if (place_.open() && !over_) replay();
    return std::move(status_);
  }

 private:
  void replay() {
    if (status_.ok()) status_ = plan_.replay(generation_(), observer_, place_.piece());
  }

  Chain& chain_;
  const Plan& plan_;
  Generation generation_;
  StepObserver* observer_;
  PiecePlace place_;
  bool over_ = false;  // the plan's generation
  Status status_;
};

}  // namespace inlay::exec
