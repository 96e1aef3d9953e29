// Plans: captured passes, found again by what their shapes depend on.
//
// A plan holds addresses of weights, cache, activations and Params, and of a device's scratch. It serves every pass of
// its key until one of them changes: then its generation is over, and replaying it is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <utility>

#include <inlay/exec/batch.hpp>
#include <inlay/exec/plan/tape.hpp>

namespace inlay::exec {

// Which passes are captured, and replayed where one like it comes again.
enum class Plans : unsigned char {
  off,
  decode,     // those of generated tokens alone: of few shapes, which come again and again
  piecewise,  // all, but for their attention, which runs as without a plan (pieces.hpp)
  full        // all
};

// What a model's operators depend on besides contents: passes of one key have the same operators.
struct PlanKey {
  index tokens = 0, generated = 0, prompts = 0;
  index generated_width = 0, prompt_width = 0;  // of their tables
  index logit_rows = 0, first_logit_row = 0;    // of those reserved
  bool names_logit_rows = false;                // they are not the last ones

  static PlanKey of(const BatchViews<Host>& batch, index logit_rows, index first_logit_row);
  // Of what lies between attention: who of the tokens is generated, and how wide tables are, is all the same.
  PlanKey without_attention() const {
    PlanKey key = *this;
    key.generated = key.prompts = key.generated_width = key.prompt_width = 0;
    return key;
  }
  bool operator==(const PlanKey&) const = default;
};

class Plan {
 public:
  // What computes a piece of the pass again.
  using Replay = std::function<Status(index piece, StepObserver*)>;

  Plan(Replay replay, index pieces, std::int64_t generation)
      : pieces_(pieces), replay_(std::move(replay)), generation_(generation) {}
  Plan(Tape tape, std::int64_t generation)
      : pieces_(tape.pieces()),
        replay_([tape = std::move(tape)](index piece, StepObserver* observer) {
          return observer == nullptr ? tape.replay(piece) : tape.replay(*observer, piece);
        }),
        generation_(generation) {}

  index pieces() const { return pieces_; }
  std::int64_t generation() const { return generation_; }

  // `generation`: that of the addresses now. A device's steps have no observer: they run when it has time.
  Status replay(std::int64_t generation, StepObserver* observer = nullptr, index piece = 0) const;

 private:
  index pieces_;
  Replay replay_;
  std::int64_t generation_;
};

// The plans used last.
class PlanCache {
 public:
  static constexpr std::size_t most = 64;
  // Passes so far.
  struct Counts {
    index replayed = 0;  // by a plan that was there
    index captured = 0;  // and replayed then
    index eager = 0;     // without a plan, though plans were asked for
    index pieces = 0;    // of the plans that were captured: one each, or pieces_of(layers) (buckets.hpp)
  };

  explicit PlanCache(Plans plans) : plans_(plans) {}

  void use(Plans plans) { plans_ = plans; }

  // Are plans in pieces, with attention between them?
  bool in_pieces() const { return plans_ == Plans::piecewise; }
  // Are passes like this one captured?
  bool takes(const BatchViews<Host>& batch) const;
  // Of a pass that was not, unless plans are off.
  void count_eager() { counts_.eager += plans_ != Plans::off; }

  // The plan of this key, or nothing. One whose generation is over is forgotten.
  const Plan* find(const PlanKey& key, std::int64_t generation);
  // A plan that was not there; the one that was not used for longest makes room. Valid until the next call.
  const Plan& keep(const PlanKey& key, Plan plan);

  std::size_t size() const { return entries_.size(); }
  const Counts& counts() const { return counts_; }

 private:
  Plans plans_;
  std::list<std::pair<PlanKey, Plan>> entries_;  // the one used last first
  Counts counts_;
};

}  // namespace inlay::exec
