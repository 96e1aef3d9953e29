// s = scale x + mask,   y = exp(s - m) / (sum exp(s - m) + exp(sink - m)),   m = max(s, sink)
//
//   load_vector   x, mask, sink     vector   s, its maximum m and sum l, the quotient     store   y
//
// A row that fits into the memory is there from its load to its store. Of a longer one the pieces come twice: m and l
// are corrected piece after piece, as in online softmax,
//
//   m' = max(m, max s)      l' = l exp(m - m') + sum exp(s - m')
//
// and the second time exp(s - m) / l is stored. Where all is masked so far, m is minus infinity and zero stands for it.
#include <inlay/ops/softmax.hpp>

#include <limits>
#include <optional>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/rows/tiles.hpp"

namespace inlay::npu {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float lowest = -std::numeric_limits<float>::max();

struct SoftmaxOperands {
  rows::Grid grid{};
  NdTensor x{}, mask{}, sink{}, y{};
  bool masked = false, sinks = false, heads_are_rows = false, log = false;
  float scale = 1;

  rows::Need need() const {
    rows::Need all = rows::Need().input(x.first.dtype).output(y.first.dtype);
    if (masked) all.input(mask.first.dtype).spare();
    if (log) all.spare();
    all.columns = 10;
    return all;
  }
  // One mask may serve all heads, or all rows.
  NdTensor mask_of(const rows::Window& w) const {
    const NdTensor plane = mask.at(0, mask.extent(0) == 1 ? 0 : w.plane);
    return (plane.extent(0) == 1 ? plane : plane.slice(0, w.row, w.rows)).slice(1, w.column, w.columns);
  }
  NdTensor sink_of(const rows::Window& w) const {
    return heads_are_rows ? sink.slice(0, w.row, w.rows) : sink.slice(0, w.plane, 1);
  }
};

class SoftmaxProgram {
 public:
  SoftmaxProgram(Core& core, const SoftmaxOperands& op)
      : core_(core),
        op_(op),
        chain_(core.auto_barrier(Pipe::vector)),
        walk_(core, op.grid, op.need(), {.sweeps = 2}),
        x_(core, "x", walk_, op.x),
        y_(core, "y", walk_, op.y),
        powers_(op.log ? core.alloc("powers", Space::vector, walk_.tile(), DType::f32) : Tensor()),
        most_(column("m")),
        more_(column("m'")),
        sum_(column("l")),
        shift_(column("shift")),
        spare_(column("spare")),
        hidden_(rows::constant(core, "minus infinity", -infinity)),
        zero_(rows::constant(core, "zero", 0)),
        one_(rows::constant(core, "one", 1)) {
    if (op.masked) {
      const Shape tile{op.mask.extent(1) == 1 ? 1 : walk_.tile().rows, walk_.tile().columns};
      mask_.emplace(core, "mask", walk_, op.mask.first.dtype, tile,
                    [&op](const rows::Window& window) { return op.mask_of(window); });
      masked_ = core.alloc("masked", Space::vector, tile, DType::f32);
    }
    if (op.sinks)
      sink_.emplace(core, "sink", walk_, DType::f32, Shape{op.heads_are_rows ? walk_.tile().rows : 1, 1},
                    [&op](const rows::Window& window) { return op.sink_of(window); });
  }

  void run() {
    for (step_ = 0; step_ < walk_.steps(); ++step_) {
      window_ = walk_.at(step_);
      const Tensor s = scores(), powers = op_.log ? window_.of(powers_) : s;
      const Tensor sink = sink_ ? sink_->next() : Tensor();
      if (walk_.in(step_, 0)) {
        start(s, sink);
        core_.vbinary(VectorOp::sub, powers, s, of(shift_));
        core_.vunary(VectorOp::exp, powers, powers);
        core_.vreduce(VectorOp::reduce_sum, of(spare_), powers);
        core_.vbinary(VectorOp::add, of(sum_), of(sum_), of(spare_));
        if (walk_.closes(step_)) finish();
      } else if (!op_.log) {
        core_.vbinary(VectorOp::sub, s, s, of(shift_));
        core_.vunary(VectorOp::exp, s, s);
      }
      if (walk_.in(step_, 1)) store(s);
      x_.done();
      if (sink_) sink_->done();
    }
  }

 private:
  Tensor column(const char* name) { return core_.alloc(name, Space::vector, {walk_.tile().rows, 1}, DType::f32); }
  Tensor of(const Tensor& statistics) const { return window_.column_of(statistics); }

  // What x holds under a mask, NaN included, is gone.
  Tensor scores() {
    const Tensor s = x_.wide();
    if (op_.scale != 1) core_.vscalar(VectorOp::mul, s, s, op_.scale);
    if (!op_.masked) return s;
    if (op_.mask.first.dtype == DType::boolean) {
      core_.vselect(s, mask_->next(), hidden_, s);
    } else {
      const Tensor mask = mask_->wide(), masked = masked_.slice(0, mask.rows(), 0, mask.columns());
      core_.vcompare(Compare::less, masked, mask, lowest);
      core_.vbinary(VectorOp::add, s, s, mask);
      core_.vselect(s, masked, hidden_, s);
    }
    mask_->done();
    return s;
  }

  // m and l as they stand before the sum of this piece.
  void start(const Tensor& s, const Tensor& sink) {
    const Tensor most = of(most_), more = of(more_), sum = of(sum_), spare = of(spare_);
    core_.vreduce(VectorOp::reduce_max, more, s);
    if (!walk_.opens(step_)) {
      core_.vbinary(VectorOp::max, more, more, most);
      core_.vcast(spare, most);
      take(more);
      core_.vbinary(VectorOp::sub, spare, spare, of(shift_));
      core_.vunary(VectorOp::exp, spare, spare);
      core_.vbinary(VectorOp::mul, sum, sum, spare);
    } else if (op_.sinks) {
      core_.vbinary(VectorOp::max, more, more, sink);
      take(more);
      core_.vbinary(VectorOp::sub, spare, of(shift_), sink);
      core_.vscalar(VectorOp::mul, spare, spare, -1.0f);
      core_.vunary(VectorOp::exp, sum, spare);
    } else {
      take(more);
      core_.vfill(sum, 0);
    }
  }

  void take(const Tensor& more) {
    if (walk_.pieces() > 1) core_.vcast(of(most_), more);
    core_.vcompare(Compare::less, of(shift_), more, lowest);
    core_.vselect(of(shift_), of(shift_), zero_, more);
  }

  // A row that is masked whole: its powers are zeros, and so is their sum.
  void finish() {
    const Tensor sum = of(sum_), spare = of(spare_);
    core_.vcompare(Compare::equal, spare, sum, 0.0f);
    core_.vselect(sum, spare, one_, sum);
    core_.vunary(op_.log ? VectorOp::log : VectorOp::recip, sum, sum);
  }

  void store(const Tensor& s) {
    const Tensor y = y_.into(window_, s);
    if (op_.log) core_.vbinary(VectorOp::sub, s, s, of(shift_));
    core_.vbinary(op_.log ? VectorOp::sub : VectorOp::mul, y, s, of(sum_));
    y_.store(window_);
  }

  Core& core_;
  const SoftmaxOperands& op_;
  const AutoBarrier chain_;
  const rows::TileIterator walk_;
  rows::Input x_;
  rows::Output y_;
  const Tensor powers_, most_, more_, sum_, shift_, spare_, hidden_, zero_, one_;
  std::optional<rows::Input> mask_, sink_;
  Tensor masked_;
  rows::Window window_;
  index step_ = 0;
};

}  // namespace

Program program(GlobalMemory& memory, const Softmax<Host>& op, const Choices&) {
  const NdTensor x = memory.bind("x", op.x);
  const bool heads_are_rows = rows::rows_of_planes(x) == 0;
  const auto planes = [&](const NdTensor& each) { return heads_are_rows ? each.permuted({1, 0, 2}) : each; };
  SoftmaxOperands operands{.x = planes(x),
                           .y = planes(memory.bind("y", op.y, Use::out)),
                           .masked = op.mask.present(),
                           .sinks = op.sink.present(),
                           .heads_are_rows = heads_are_rows,
                           .log = op.log,
                           .scale = op.scale};
  operands.grid = {operands.x.extent(0), operands.x.extent(1), operands.x.extent(2)};
  if (operands.masked) operands.mask = planes(memory.bind("mask", op.mask));
  if (operands.sinks) operands.sink = memory.bind("sink", op.sink).split(0, 1);
  return {.body = [operands](Core& core) { SoftmaxProgram(core, operands).run(); },
          .problem = {.bytes = rows::bytes_of(op.x, op.mask, op.sink, op.y)},
          .launch = {.cores = rows::cores_of(memory, operands.grid)}};
}

template struct Operator<Softmax<Host>>;

}  // namespace inlay::npu
