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
  decode,  // those of generated tokens alone: of few shapes, which come again and again
  full     // all
};

// What a model's operators depend on besides contents: passes of one key have the same operators.
struct PlanKey {
  index tokens = 0, generated = 0, prompts = 0;
  index generated_width = 0, prompt_width = 0;  // of their tables
  index logit_rows = 0, first_logit_row = 0;    // of those reserved
  bool names_logit_rows = false;                // they are not the last ones

  static PlanKey of(const BatchViews<Host>& batch, index logit_rows, index first_logit_row);
  bool operator==(const PlanKey&) const = default;
};

class Plan {
 public:
  // What computes the pass again.
  using Replay = std::function<Status(StepObserver*)>;

  Plan(Replay replay, std::int64_t generation) : replay_(std::move(replay)), generation_(generation) {}
  Plan(Tape tape, std::int64_t generation)
      : Plan([tape = std::move(tape)](StepObserver* o) { return o == nullptr ? tape.replay() : tape.replay(*o); },
             generation) {}

  std::int64_t generation() const { return generation_; }

  // `generation`: that of the addresses now. A device's steps have no observer: they run when it has time.
  Status replay(std::int64_t generation, StepObserver* observer = nullptr) const;

 private:
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
  };

  explicit PlanCache(Plans plans) : plans_(plans) {}

  void use(Plans plans) { plans_ = plans; }

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
