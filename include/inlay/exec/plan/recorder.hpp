// Captures a pass. A model is a straight line of operators: this is a `run` that appends them to a tape, computes
// nothing and writes nothing.
//
//   Recorder record(chain, params.memory());
//   decoder.forward(record, cache, params.views(), logits);
//   Expected<Tape> tape = std::move(record).take();
//
// Whatever a pass's shapes decide is decided here, once: the contract, which backend takes the operator, its scratch.
// Contents decide too, and some of them are not there yet: block tables, lengths, slots and ids that each pass brings,
// and what routes a mixture's tokens, which earlier steps write. An operator that reads such a list
//
//   is checked here without contents (Planned): Params sees to what passes bring, and moe_routing writes what is right;
//   asks for its scratch at replay, since that may depend on it: memory grows where a pass wants more than any before;
//   goes through the chain at replay, as without a plan, where the backend may decline it for what it holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/layout.hpp>
#include <inlay/core/rebind.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/plan/tape.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>

namespace inlay::exec {

// Host memory as a plan sees it: addresses, and contents that nobody may look at.
struct Planned {};

// Those that compute whatever passed its check, for any contents.
template <class Backend> inline constexpr bool declines_nothing = false;
template <> inline constexpr bool declines_nothing<Cpu> = true;
template <> inline constexpr bool declines_nothing<Reference> = true;

}  // namespace inlay::exec

namespace inlay {
template <> struct SpacePointer<exec::Planned> : SpacePointer<Host> {};
}  // namespace inlay

namespace inlay::exec {

// The contract but for contents.
template <class Op> Status check_without_contents(const Op& op) {
  return check(rebind<Planned>(op, []<class V>(const auto&, const V& view) {
                 return ViewIn<V, Planned>(view.data, view.dtype, view.extents, view.strides);
               }).op);
}

// Of a chain that computes on host memory. It must outlive the tape, and stay where it is.
template <class Chain> class Recorder {
 public:
  // `brought`: where the contents lie that each pass brings.
  Recorder(Chain& chain, std::span<const std::byte> brought)
      : chain_(chain), later_{byte_range(ConstView<1>(brought.data(), DType::i8, {std::ssize(brought)}))} {}

  template <class Op> void operator()(const Op& op) {
    if (status_.ok()) status_ = record(op);
  }
  template <class Step> void gather(const Step& step) {
    if (status_.ok()) tape_.add(gather_as_captured<Step>, nullptr, 0, step, step.y.extents[1]);
  }

  // Steps that go through the chain.
  std::size_t eager_steps() const { return eager_steps_; }
  // What was recorded, or the first failure.
  Expected<Tape> take() && {
    if (!status_.ok()) return failure(std::move(status_));
    return std::move(tape_);
  }

 private:
  using Links = decltype(Chain::links_);

  template <class Op> Status record(const Op& op) {
    if (Status status = check_without_contents(op); !status.ok()) return status;
    if (writes_nothing(op)) return {};
    bool reads_known = false, reads_later = false;
    for_each_list(op, [&](const auto& field, ByteRange list) {
      if (!field.is_written()) (is_later(list) ? reads_later : reads_known) = true;
    });
    if (reads_known && !reads_later)
      if (Status status = check(op); !status.ok()) return status;
    for_each_list(op, [&](const auto& field, ByteRange list) {
      if (field.is_written()) later_.push_back(list);
    });
    return record_from<0>(op, reads_later);
  }

  template <std::size_t i, class Op> Status record_from(const Op& op, bool reads_later) {
    auto& link = std::get<i>(chain_.links_);
    using Link = std::remove_cvref_t<decltype(link)>;
    using Backend = std::remove_cvref_t<decltype(link.backend)>;
    if constexpr (!RunsOn<Backend, Op>) {
      return add_eager(op);
    } else {
      if (reads_later && !declines_nothing<Backend>) return add_eager(op);
      if (Status status = supports_parts(link.backend, op); !status.ok()) {
        if constexpr (i + 1 < std::tuple_size_v<Links>) {
          if (status.code() == StatusCode::unsupported) {
            using Next = std::remove_cvref_t<decltype(std::get<i + 1>(chain_.links_).backend)>;
            chain_.note_fallback(Op::name, Backend::name, Next::name, status);
            return record_from<i + 1>(op, reads_later);
          }
        }
        return status;
      }
      if (reads_later) {
        tape_.add(compute_with_contents<Link, Op>, &link, 0, op, shape_of_result(op).width);
        return {};
      }
      const std::size_t scratch = scratch_of_parts(link.backend, op);
      tape_.add(compute_as_captured<Link, Op>, &link, scratch, op, shape_of_result(op).width);
      if (const ByteRange weight = streamed(op); weight.begin != weight.end)
        tape_.streams(reinterpret_cast<const void*>(weight.begin), weight.end - weight.begin);
      return check_scratch(link, link.scratch.get(link.backend, scratch), scratch);
    }
  }

  template <class Op> Status add_eager(const Op& op) {
    tape_.add(run_by_chain<Op>, &chain_, 0, op, shape_of_result(op).width);
    ++eager_steps_;
    return {};
  }

  // What a tape calls.
  template <class Together> static Status gather_as_captured(const Tape::Step& step) { return step.op<Together>()(); }
  template <class Link, class Op> static Status compute_as_captured(const Tape::Step& step) {
    Link& link = *static_cast<Link*>(step.target);
    if constexpr (requires { link.backend.parallel(); })
      if (const Parallel::Ahead& ahead = link.backend.parallel().ahead;
          step.ahead != nullptr && ahead.expect != nullptr)
        ahead.expect(ahead.context, step.ahead, step.ahead_bytes);
    return compute_in(link, step.op<Op>(), step.scratch);
  }
  template <class Link, class Op> static Status compute_with_contents(const Tape::Step& step) {
    Link& link = *static_cast<Link*>(step.target);
    return compute_in(link, step.op<Op>(), scratch_of_parts(link.backend, step.op<Op>()));
  }
  template <class Op> static Status run_by_chain(const Tape::Step& step) {
    return static_cast<Chain*>(step.target)->template run_from<0>(step.op<Op>());
  }

  template <class Link, class Op> static Status compute_in(Link& link, const Op& op, std::size_t scratch) {
    using Backend = std::remove_cvref_t<decltype(link.backend)>;
    const Workspace workspace = link.scratch.get(link.backend, scratch);
    if (workspace.size() < scratch) return check_scratch(link, workspace, scratch);
    Status status = each_part<Backend>(op, [&](const auto& part) { return compute(link.backend, part, workspace); });
    if constexpr (requires { outcome(op); }) {
      if (status.ok()) return outcome(op);
    }
    return status;
  }
  template <class Link> static Status check_scratch(Link& link, const Workspace& workspace, std::size_t wanted) {
    Status lacks = link.scratch.take_failure();
    return lacks.ok() ? check_workspace<Host>(workspace, wanted) : std::move(lacks);
  }

  bool is_later(ByteRange list) const {
    return std::any_of(later_.begin(), later_.end(),
                       [&](const ByteRange& range) { return list.begin < range.end && range.begin < list.end; });
  }

  // What a linear reads once, in the order of its outputs: of a mixture nobody knows which experts those are.
  template <class Op> static ByteRange streamed(const Op&) { return {}; }
  static ByteRange streamed(const Linear<Host>& op) {
    if (op.expert_ends.present()) return {};
    return op.weight.present() ? byte_range(op.weight) : byte_range(op.weight_rows);
  }
  static ByteRange streamed(const LinearInt8<Host>& op) {
    return op.expert_ends.present() ? ByteRange{} : byte_range(op.weight);
  }
  static ByteRange streamed(const LinearW4a16<Host>& op) {
    return op.expert_ends.present() ? ByteRange{} : byte_range(op.codes);
  }
  // visit(field, memory) for each list of ids, lengths or places.
  template <class Op, class Visit> static void for_each_list(const Op& op, Visit&& visit) {
    for_each_field(op, [&]<class Value>(const auto& field, const Value& view) {
      static_assert(!ListOfViews<Value>, "a list of views is somebody else's memory, which is gone at replay");
      if constexpr (ViewLike<Value>)
        if (ids.contains(view.dtype) && !view.empty()) visit(field, byte_range(view));
    });
  }

  Chain& chain_;
  std::vector<ByteRange> later_;  // memory whose contents are not there yet
  Tape tape_;
  std::size_t eager_steps_ = 0;
  Status status_;
};

}  // namespace inlay::exec
