// The memory that a second device looks at. ClOverHost must be told of it; others look wherever a step does.
#pragma once

#include <inlay/core/layout.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

template <class Second> class SharedMemory {
 public:
  static constexpr bool is_told = requires { typename Second::Contents; };

  explicit SharedMemory(Second& second) : second_(second) {}

  // The device is lost, and may be at a step: it is told of nothing any more.
  void abandon() { abandoned_ = true; }

  // That steps write.
  Status share([[maybe_unused]] ByteRange memory) {
    if constexpr (is_told)
      if (!abandoned_) return second_.share(memory, Second::Contents::change);
    return {};
  }
  // All that those steps of a line look at that are `used`.
  template <class Used> Status share([[maybe_unused]] const StepGraph& graph, [[maybe_unused]] Used&& used) {
    if constexpr (is_told)
      if (!abandoned_) return second_.share(graph, used);
    return {};
  }
  void forget([[maybe_unused]] ByteRange memory) {
    if constexpr (is_told)
      if (!abandoned_) second_.forget(memory);
  }
  template <class V> void forget_view(const V& view) {
    if (view.present() && !view.empty()) forget(byte_range(view));
  }

 private:
  Second& second_;
  bool abandoned_ = false;
};

}  // namespace inlay::exec
