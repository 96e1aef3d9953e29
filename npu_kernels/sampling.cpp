// The largest logit of each row: greedy sampling. What is drawn at random is drawn by the host.
//
//   load_vector  logits      vector  value, place = argmax of a part        scalar  the best part    store  one token,
//                                    sound = min(x == x): no NaN                                            1 in probs
//
// A row is cut into segments, so that one row of a vocabulary keeps all vector units busy:
//
//   unit 0  | row 0: parts 0 1 2 |     unit 1  | parts 3 4 5 |  ..     -> partial[row, segment]
//                                    sync_all
//   unit r  partial[row r, :] -> tokens[r]
//
// What the scalar units find goes through the vector unit's memory, out and in: 4 bytes of one beside 4 bytes of
// another are in one line of caches that a device need not keep coherent.
//
// Comparisons alone: tokens are the reference's. A row with NaN or +infinity, or without a finite logit, gets -1.
#include <inlay/ops/sampling.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "npu_kernels/backend/operator.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

struct GreedyOperands {
  NdTensor logits, tokens, probs;  // probs of no rank: they are not wanted
  Tensor values, places;           // [rows, segments] of the workspace
  index part, parts, segments;     // columns of a part, parts of a segment
};

// The token with the largest value; the smaller id of equal ones, as segments come in order. None: -1.
struct Best {
  double value = -std::numeric_limits<double>::infinity();
  index token = -1;
  bool sound = true;

  void meet(double other, index place) {
    sound = sound && other < std::numeric_limits<double>::infinity();  // NaN is below nothing
    if (other > value) value = other, token = place;
  }
  index drawn() const { return sound ? token : -1; }
};

// A value and a place for each of some segments.
std::array<TileForm, 2> pair(index segments) {
  const Shape shape{1, std::max<index>(segments, 2)};
  return {{{"value", Space::vector, shape, DType::f32}, {"place", Space::vector, shape, DType::i32}}};
}

class Greedy {
 public:
  Greedy(Core& core, const GreedyOperands& op)
      : core_(core),
        op_(op),
        in_(core.ring("logits", Space::vector, {1, op.part}, DType::f32, {4, Pipe::load_vector, Pipe::vector})),
        same_(core.alloc("x == x", Space::vector, {1, op.part}, DType::f32)),
        value_(core.alloc("largest", Space::vector, {op.parts, 2}, DType::f32)),
        sound_(core.alloc("sound", Space::vector, {op.parts, 2}, DType::f32)),
        place_(core.alloc("places", Space::vector, {op.parts, 2}, DType::i32)),
        out_(core.ring<2>("partial", pair(1), {2, Pipe::scalar, Pipe::store})) {}

  void segment(index row, index segment) {
    const index vocab = op_.logits.extent(1), begin = segment * op_.parts * op_.part;
    const index end = std::min(vocab, begin + op_.parts * op_.part);
    const auto of = [](const Tensor& full, index part) { return full.slice(part, 1, 0, 1); };
    index parts = 0;
    {
      const AutoBarrier chain = core_.auto_barrier(Pipe::vector);
      for (index c = begin; c < end; c += op_.part, ++parts) {
        const index n = std::min(op_.part, end - c);
        core_.copy(by_axes(in_.acquire().slice(0, 1, 0, n)).at(0, 0), op_.logits.at(0, row).slice(0, c, n));
        in_.commit();
        const Tensor x = in_.wait().slice(0, 1, 0, n), same = same_.slice(0, 1, 0, n);
        core_.vargmax(of(value_, parts), of(place_, parts), x);
        core_.vcompare(Compare::equal, same, x, x);
        in_.release();
        core_.vreduce(VectorOp::reduce_min, of(sound_, parts), same);
      }
    }
    core_.set(Pipe::vector, Pipe::scalar, 0);
    core_.wait(Pipe::vector, Pipe::scalar, 0);
    Best best;
    for (index part = 0; part < parts; ++part) {
      const bool sound = core_.scalar_read(sound_, part, 0) != 0;
      best.meet(sound ? core_.scalar_read(value_, part, 0) : std::nan(""),
                begin + part * op_.part + static_cast<index>(core_.scalar_read(place_, part, 0)));
    }
    const auto partial = out_.acquire();
    core_.scalar_write(partial[0], 0, 0, best.sound ? best.value : std::nan(""));
    core_.scalar_write(partial[1], 0, 0, static_cast<double>(best.token));
    out_.commit();
    const auto found = out_.wait();
    core_.copy(op_.values.slice(row, 1, segment, 1), found[0].slice(0, 1, 0, 1));
    core_.copy(op_.places.slice(row, 1, segment, 1), found[1].slice(0, 1, 0, 1));
    out_.release();
  }

 private:
  Core& core_;
  const GreedyOperands& op_;
  Ring in_;
  Tensor same_, value_, sound_, place_;
  TupleRing<2> out_;
};

void clear(Core& core, const NdTensor& probs, index part) {
  const Tensor zeros = core.alloc("zeros", Space::vector, {1, part}, DType::f32);
  core.vfill(zeros, 0);
  core.set(Pipe::vector, Pipe::store, 0);
  core.wait(Pipe::vector, Pipe::store, 0);
  const index across = ceil_div(probs.extent(1), part), pieces = probs.extent(0) * across;
  for (index piece = core.vector_worker(); piece < pieces; piece += core.vector_workers()) {
    const index c = piece % across * part, n = std::min(part, probs.extent(1) - c);
    core.copy(probs.at(0, piece / across).slice(0, c, n), by_axes(zeros.slice(0, 1, 0, n)).at(0, 0));
  }
}

// The best of the segments of each row, which others have found.
class Drawn {
 public:
  Drawn(Core& core, const GreedyOperands& op)
      : core_(core),
        op_(op),
        in_(core.ring<2>("partials", pair(op.segments), {1, Pipe::load_vector, Pipe::scalar})),
        out_(core.ring("token", Space::vector, {1, 2}, op.tokens.first.dtype, {1, Pipe::scalar, Pipe::store})) {
    if (!op.probs.present()) return;
    one_ = core.alloc("one", Space::vector, {1, 2}, DType::f32);
    core.vfill(one_, 1);
    core.set(Pipe::vector, Pipe::store, 0);
    core.wait(Pipe::vector, Pipe::store, 0);
  }

  void row(index row) {
    const auto of_row = [&](const Tensor& all) { return all.slice(row, 1, 0, op_.segments); };
    const auto part = [&](const Tensor& tile) { return tile.slice(0, 1, 0, op_.segments); };
    const auto to = in_.acquire();
    core_.copy(part(to[0]), of_row(op_.values));
    core_.copy(part(to[1]), of_row(op_.places));
    in_.commit();
    const auto partials = in_.wait();
    Best best;
    for (index segment = 0; segment < op_.segments; ++segment)
      best.meet(core_.scalar_read(partials[0], 0, segment),
                static_cast<index>(core_.scalar_read(partials[1], 0, segment)));
    in_.release();
    const index token = best.drawn();
    core_.scalar_write(out_.acquire(), 0, 0, static_cast<double>(token));
    out_.commit();
    const auto first = [](const Tensor& tile) { return by_axes(tile.slice(0, 1, 0, 1)).at(0, 0); };
    core_.copy(op_.tokens.slice(0, row, 1), first(out_.wait()));
    out_.release();
    if (op_.probs.present() && token >= 0) core_.copy(op_.probs.at(0, row).slice(0, token, 1), first(one_));
  }

 private:
  Core& core_;
  const GreedyOperands& op_;
  TupleRing<2> in_;
  Ring out_;
  Tensor one_;
};

void greedy(Core& core, const GreedyOperands& op) {
  const index rows = op.logits.extent(0);
  if (op.probs.present()) clear(core, op.probs, op.part);
  {
    Greedy program(core, op);
    for (index item = core.vector_worker(); item < rows * op.segments; item += core.vector_workers())
      program.segment(item / op.segments, item % op.segments);
  }
  core.sync_all();
  Drawn drawn(core, op);
  for (index row = core.vector_worker(); row < rows; row += core.vector_workers()) drawn.row(row);
}

// Nothing is left to draw: every filter but typical_p and xtc keeps the largest.
bool picks_the_largest(const Sampling<Host>& op) {
  if (op.history.present()) return false;
  const bool filtered = op.temperature_last && (op.typical_p < 1 || op.xtc_probability > 0);
  return op.top_k == 1 || (op.temperature == 0 && !filtered);
}

}  // namespace

Status declined(const Device&, const Sampling<Host>& op) {
  if (picks_the_largest(op)) return {};
  return unsupported("sampling at random, and with penalties, is the host's");
}

Program program(GlobalMemory& memory, const Sampling<Host>& op, const Choices&) {
  const index rows = op.logits.extents[0], vocab = op.logits.extents[1];
  const Device& device = memory.device();
  // Four parts under way, one that is compared: half of the memory for all.
  const auto room = static_cast<index>(device.memory(Space::vector).bytes / 2 / (5 * sizeof(float)));
  const index part = std::clamp<index>(vocab, 2, std::min<index>(room, 8192)), parts = ceil_div(vocab, part);
  const index units = device.vector_units();
  const std::uint32_t cores = cores_for(rows * parts, units, memory.cores());
  const index segments = std::clamp<index>(index{cores} * units / std::max<index>(1, rows), 1, parts);
  GreedyOperands operands{.logits = memory.bind("logits", op.logits),
                          .tokens = memory.bind("tokens", op.tokens, Use::out),
                          .probs = {},
                          .values = memory.workspace("values", {rows, segments}, DType::f32),
                          .places = memory.workspace("places", {rows, segments}, DType::i32),
                          .part = part,
                          .parts = ceil_div(parts, segments),
                          .segments = ceil_div(parts, ceil_div(parts, segments))};
  std::uint64_t bytes = static_cast<std::uint64_t>(rows * vocab) * sizeof(float) +
                        static_cast<std::uint64_t>(byte_size(op.tokens.dtype, rows));
  if (op.probs.present()) {
    operands.probs = memory.bind("probs", op.probs, Use::out);
    bytes += static_cast<std::uint64_t>(rows * vocab) * sizeof(float);
  }
  return {.body = [operands](Core& core) { greedy(core, operands); },
          .problem = {.bytes = bytes},
          .launch = {.cores = cores}};
}

template <>
inline constexpr auto scalars_unread<Sampling<Host>> = std::tuple{&Sampling<Host>::seed, &Sampling<Host>::step};

template struct Operator<Sampling<Host>>;

}  // namespace inlay::npu
