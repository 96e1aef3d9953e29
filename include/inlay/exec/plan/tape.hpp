// A captured pass: its operators as bytes, each behind the step that computes it.
//
//   | step | RmsNorm  .. | step | Linear    .. | step | Rope .. | ..
//
// Replay goes from step to step and calls what each one names: it takes no memory, looks at no shape and checks
// nothing. An operator is views and scalars without memory of its own, so that it is copied as bytes and read where it
// lies.
//
// Asking memory for 4 KB of the steps that come next, which weights have driven from the caches since the last pass, is
// worth less than 1%: SmolLM2-135M 0.99 and 1.01 of the speed (Zen 4, 15 and 21 turns).
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include <inlay/core/dtype.hpp>
#include <inlay/core/fields.hpp>
#include <inlay/core/status.hpp>

namespace inlay::exec {

// Who looks on while a tape is replayed: told before and behind each step.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // `op`: the operator's name. `width`: how many elements a row has of what it writes, which tells a model's linears
  // apart.
  virtual void begin(std::string_view op, index width) = 0;
  virtual void end() = 0;
};

// Of the first of an operator's results: how many rows there are, and how many elements one of them has.
struct ResultShape {
  index rows = 0, width = 0;
};
template <class Op> ResultShape shape_of_result(const Op& op) {
  ResultShape shape;
  for_each_field(op, [&]<class Value>(const auto& field, const Value& view) {
    if constexpr (ViewLike<Value>)
      if (shape.rows == 0 && field.is_written() && !view.empty())
        shape = {view.extents[0], view.size() / view.extents[0]};
  });
  return shape;
}

class Tape {
 public:
  struct Step {
    using Compute = Status(const Step& step);

    Compute* compute;
    void* target;         // who computes the operator; it outlives the tape
    std::size_t scratch;  // bytes that this takes, where they were known at capture
    std::size_t bytes;    // to the next step
    std::string_view name;
    index width;  // as StepObserver's
    // Of a step that streams memory: what the next such step will read, from its beginning to its end.
    const void* ahead = nullptr;
    std::size_t ahead_bytes = 0;

    template <class Op> const Op& op() const { return *reinterpret_cast<const Op*>(this + 1); }
  };

  template <class Op> void add(Step::Compute* compute, void* target, std::size_t scratch, const Op& op, index width) {
    static_assert(std::is_trivially_copyable_v<Op> && alignof(Op) <= alignof(Step) && sizeof(Op) % alignof(Step) == 0);
    const Step step{.compute = compute,
                    .target = target,
                    .scratch = scratch,
                    .bytes = sizeof(Step) + sizeof(Op),
                    .name = Op::name,
                    .width = width};
    const std::size_t at = last_ = memory_.size();
    memory_.resize(at + step.bytes);
    std::memcpy(memory_.data() + at, &step, sizeof(Step));
    std::memcpy(memory_.data() + at + sizeof(Step), &op, sizeof(Op));
    ++steps_;
  }

  // The step that was added last reads this, from its beginning to its end: the one before it that did so will know.
  void streams(const void* begin, std::size_t bytes) {
    if (streaming_) {
      Step& before = *reinterpret_cast<Step*>(memory_.data() + *streaming_);
      before.ahead = begin, before.ahead_bytes = bytes;
    }
    streaming_ = last_;
  }

  // The steps behind the last end are a piece, which is replayed by itself. A tape that none was ended on is one.
  void end_piece() { ends_.push_back(memory_.size()); }
  index pieces() const { return ends_.empty() ? 1 : static_cast<index>(ends_.size()); }

  // The first failure, behind which nothing is computed.
  Status replay(index piece = 0) const {
    return each_step(piece, [](const Step& step) { return step.compute(step); });
  }
  Status replay(StepObserver& observer, index piece = 0) const {
    return each_step(piece, [&](const Step& step) {
      observer.begin(step.name, step.width);
      Status status = step.compute(step);
      observer.end();
      return status;
    });
  }

  std::size_t steps() const { return steps_; }
  std::size_t bytes() const { return memory_.size(); }

 private:
  template <class Visit> Status each_step(index piece, Visit&& visit) const {
    const auto i = static_cast<std::size_t>(piece);
    const std::byte* const end = memory_.data() + (ends_.empty() ? memory_.size() : ends_[i]);
    for (const std::byte* at = memory_.data() + (i == 0 ? 0 : ends_[i - 1]); at != end;) {
      const Step& step = *reinterpret_cast<const Step*>(at);
      if (Status status = visit(step); !status.ok()) return status;
      at += step.bytes;
    }
    return {};
  }

  std::vector<std::byte> memory_;
  std::vector<std::size_t> ends_;         // of pieces
  std::size_t steps_ = 0, last_ = 0;      // where the last one lies
  std::optional<std::size_t> streaming_;  // and the last that streams
};

}  // namespace inlay::exec
