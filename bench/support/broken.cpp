// Figures of kernels that are wrong, one way each, and of one that is right: bench/support/broken.cmake runs them and
// expects the program to say so. The operator is the skeleton, y = slope * x.
#include "bench/support/measure.hpp"
#include "shapes/skeleton.hpp"

namespace inlay::bench {
namespace {

enum class Bug {
  none,
  writes_nothing,
  writes_nothing_but_once,  // the first call alone writes
  leaves_the_last_row,
  leaves_the_last_byte,
  one_row_in_seven,  // has one wrong element
  fails_at_the_second_call,
};

constexpr index rows = 64, dim = 256;

class Broken {
 public:
  using Space = Host;

  Broken(const Cpu& cpu, Bug bug) : cpu(cpu), bug(bug) {}

  Cpu cpu;
  Bug bug;
  int calls = 0;
};

Status supports(const Broken&, const Skeleton<Host>&) { return {}; }
std::size_t scratch_bytes(const Broken& broken, const Skeleton<Host>& op) { return workspace_bytes(broken.cpu, op); }

Status compute(Broken& broken, Skeleton<Host> op, Workspace workspace) {
  ++broken.calls;
  const index count = op.x.extents[0];
  switch (broken.bug) {
    case Bug::none: break;
    case Bug::writes_nothing: return {};
    case Bug::writes_nothing_but_once:
      if (broken.calls > 1) return {};
      break;
    case Bug::leaves_the_last_row: keep(0, 0, count - 1, op.x, op.y); break;
    case Bug::leaves_the_last_byte: {
      std::byte& last = static_cast<std::byte*>(op.y.data)[byte_size(op.y.dtype, op.y.size()) - 1];
      const std::byte before = last;
      Status status = run(broken.cpu, op, workspace);
      last = before;
      return status;
    }
    case Bug::one_row_in_seven: {
      Status status = run(broken.cpu, op, workspace);
      for (index row = 3; row < count; row += 7) put(op.y, row, dim / 2, at(op.y, row, dim / 2) + 1);
      return status;
    }
    case Bug::fails_at_the_second_call:
      if (broken.calls == 2) return {StatusCode::unsupported, "the second call is one too many"};
      break;
  }
  return run(broken.cpu, op, workspace);
}

void figure(benchmark::State& state, Bug bug, bool in_place) {
  Operands operands;
  const auto op = [&](index i) {
    Skeleton<Host> op = SkeletonShape{rows, dim, DType::f32}.make(operands.of_call(i));
    if (in_place) op.y = over(op.x);
    op.slope = -2;
    return op;
  };
  const auto row = [](Skeleton<Host> op, index r) {
    keep_row(r, op.x, op.y);
    return op;
  };
  Broken broken(bench::cpu(), bug);
  measure_on(broken, broken.cpu, state, {.bytes = 3.0 * rows * dim * 4}, op,
             {.rows = rows, .row = row, .ulps = 4, .in_place = in_place});
}

}  // namespace

void add_all() {
  for (bool in_place : {false, true}) {
    const auto figure_of = [=](const std::string& name, Bug bug) {
      add(name + (in_place ? "/in_place" : "/apart"), [=](benchmark::State& state) { figure(state, bug, in_place); });
    };
    figure_of("right", Bug::none);
    figure_of("writes_nothing", Bug::writes_nothing);
    figure_of("writes_nothing_but_once", Bug::writes_nothing_but_once);
    figure_of("leaves_the_last_row", Bug::leaves_the_last_row);
    figure_of("leaves_the_last_byte", Bug::leaves_the_last_byte);
    figure_of("one_row_in_seven", Bug::one_row_in_seven);
    figure_of("fails_at_the_second_call", Bug::fails_at_the_second_call);
  }
}

}  // namespace inlay::bench
