// A recorded line of operators whose steps may run in any order that Edges allows, on whichever backend is asked.
//
//   StepGraph graph;
//   GraphRecorder<Cpu, Reference> record(graph);       // the backends that may be asked
//   decoder.forward(record, cache, batch, logits);     // computes nothing and writes nothing
//   Status status = record.take_status();
//   Edges edges = Edges::of(graph.accesses());
//   StepRunner cpu(Cpu{});
//   status = cpu.run(graph.steps()[5]);
//
// A step is checked without contents when it is recorded, and with them when it runs: earlier steps write some of them.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/exec/plan/accesses.hpp>
#include <inlay/exec/plan/linear_part.hpp>
#include <inlay/exec/plan/recorder.hpp>

namespace inlay::exec {

template <class Backend> class StepRunner;

class GraphStep {
 public:
  std::string_view name;  // the operator's
  index width = 0;        // how many elements a row has of what it writes
  index rows = 0;         // and how many rows
  index pairs = 0;        // of a query and a key that it sees, of attention where somebody has counted them
  index chunk = 0;        // which of several recorded passes it belongs to
  index layer = -1;       // of the model; negative: of none
  Accesses accesses;

  // The addresses of its views, in the order of `accesses`, that many bytes further.
  void move(std::span<const std::ptrdiff_t> by) {
    move_(op_.data(), by);
    for (std::size_t i = 0; i < by.size(); ++i) accesses[i].begin += by[i];
  }

  // Is it a linear that may be computed by parts?
  bool has_parts() const { return cut_ != nullptr; }
  // The step of those elements of y alone.
  GraphStep part(const LinearPart& wanted) const {
    GraphStep step = *this;
    cut_(step, wanted);
    return step;
  }

  // What `Asked` tells of operators that it was recorded for (StepRunner, for example); nothing for others.
  template <class Asked> const Asked* find() const {
    for (const Told& told : told_)
      if (told.by == &identity<Asked>) return static_cast<const Asked*>(told.what);
    return nullptr;
  }
  const void* op() const { return op_.data(); }

 private:
  template <class...> friend class GraphRecorder;
  struct Told {
    const void *by, *what;
  };
  template <class Asked> static constexpr char identity = 0;

  std::vector<std::max_align_t> op_;
  void (*move_)(void* op, std::span<const std::ptrdiff_t> by) = nullptr;
  void (*cut_)(GraphStep& step, const LinearPart& part) = nullptr;
  std::vector<Told> told_;
};

class StepGraph {
 public:
  std::span<const GraphStep> steps() const { return steps_; }
  std::span<GraphStep> steps() { return steps_; }
  index size() const { return static_cast<index>(steps_.size()); }
  void add(GraphStep step) { steps_.push_back(std::move(step)); }

  // Of each step.
  std::vector<Accesses> accesses() const {
    std::vector<Accesses> all;
    for (const GraphStep& step : steps_) all.push_back(step.accesses);
    return all;
  }

 private:
  std::vector<GraphStep> steps_;
};

// How a backend computes an operator whose type is forgotten.
template <class Backend> struct ComputesStep {
  Status (*run)(Backend& backend, Scratch<Backend>& scratch, const void* op);
  Status (*supports)(Backend& backend, const void* op);

  template <class Op> static Status run_as(Backend& backend, Scratch<Backend>& scratch, const void* op) {
    return run_with(backend, scratch, *static_cast<const Op*>(op));
  }
  template <class Op> static Status supports_as(Backend& backend, const void* op) {
    return supports_parts(backend, *static_cast<const Op*>(op));
  }
  template <class Op> static const ComputesStep of;
};
template <class Backend>
template <class Op>
const ComputesStep<Backend> ComputesStep<Backend>::of{run_as<Op>, supports_as<Op>};

// What an estimator (NpuEstimator) says of an operator whose type is forgotten: microseconds.
template <class Estimator> struct EstimatesStep {
  Expected<double> (*us)(const Estimator& estimator, const void* op);

  template <class Op> static Expected<double> us_as(const Estimator& estimator, const void* op) {
    auto cost = estimate(estimator, *static_cast<const Op*>(op));
    if (!cost) return failure(std::move(cost.error()));
    return cost->us;
  }
  template <class Op> static const EstimatesStep of;
};
template <class Estimator> template <class Op> const EstimatesStep<Estimator> EstimatesStep<Estimator>::of{us_as<Op>};

// A backend with scratch of its own.
template <class Backend> class StepRunner {
 public:
  using Type = std::remove_cvref_t<Backend>;

  explicit StepRunner(Backend backend) : backend_(std::forward<Backend>(backend)) {}

  Status run(const GraphStep& step) {
    const auto* computes = step.find<ComputesStep<Type>>();
    if (computes == nullptr) return unknown(step);
    Status status = computes->run(backend_, scratch_, step.op());
    return status.ok() ? finish(backend_) : std::move(status);
  }
  // Does the backend declare that it can? Contents are not looked at.
  Status supports(const GraphStep& step) {
    const auto* computes = step.find<ComputesStep<Type>>();
    return computes == nullptr ? unknown(step) : computes->supports(backend_, step.op());
  }

 private:
  static Status unknown(const GraphStep& step) {
    return unsupported(std::string(step.name) + " was recorded without " + std::string(Type::name));
  }

  Backend backend_;
  Scratch<Type> scratch_;
};
template <class Backend> StepRunner(Backend) -> StepRunner<std::unwrap_reference_t<Backend>>;

// Appends the operators that it is called with, for the backends and estimators named.
template <class... Backends> class GraphRecorder {
 public:
  explicit GraphRecorder(StepGraph& graph, index chunk = 0) : graph_(graph), chunk_(chunk) {}

  template <class Op> void operator()(const Op& op) {
    static_assert(std::is_trivially_copyable_v<Op> && alignof(Op) <= alignof(std::max_align_t));
    if (!status_.ok()) return;
    status_ = check_without_contents(op);
    if (!status_.ok() || writes_nothing(op)) return;
    GraphStep step;
    step.name = Op::name;
    const auto [rows, width] = shape_of_result(op);
    step.rows = rows, step.width = width;
    step.chunk = chunk_;
    step.layer = layer_;
    step.accesses = accesses_of(op);
    step.op_.resize((sizeof(Op) + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
    std::memcpy(step.op_.data(), &op, sizeof(Op));
    step.move_ = move<Op>;
    if constexpr (requires { part_of(op, LinearPart()); })
      if (has_parts(op)) step.cut_ = cut<Op>;
    (tell<Asked<Backends>, Op>(step), ...);
    graph_.add(std::move(step));
  }

  // What follows is of this layer.
  void enter_layer(index layer) { layer_ = layer; }

  // The first operator that was refused.
  Status take_status() { return std::exchange(status_, Status()); }

 private:
  // An estimator has no memory of its own to compute in.
  template <class Backend> static constexpr bool computes = requires { typename Backend::Space; };
  template <class Backend>
  using Asked = std::conditional_t<computes<Backend>, ComputesStep<Backend>, EstimatesStep<Backend>>;

  template <class Asked, class Op> static void tell(GraphStep& step) {
    step.told_.push_back({&GraphStep::identity<Asked>, &Asked::template of<Op>});
  }
  template <class Op> static void move(void* op, std::span<const std::ptrdiff_t> by) {
    std::size_t at = 0;
    for_each_field(*static_cast<Op*>(op), [&]<class Value>(const auto&, Value& view) {
      if constexpr (ViewLike<Value>)
        if (view.present() && !view.empty()) view.data = SpacePointer<Host>::advance(view.data, by[at++]);
    });
  }

  template <class Op> static void cut(GraphStep& step, const LinearPart& part) {
    Op& op = *reinterpret_cast<Op*>(step.op_.data());
    op = part_of(op, part);
    step.accesses = accesses_of(op);
    step.rows = part.tokens, step.width = part.channels;
  }

  StepGraph& graph_;
  index chunk_, layer_ = -1;
  Status status_;
};

}  // namespace inlay::exec
