// Products, and the scalar unit's elements.
#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

namespace {

struct Write {
  Tile to;
  double value;
  bool kept;  // what is there
  void operator()() const {
    if (to.data != nullptr && !kept) tiles::write(to, 0, 0, value);
  }
};

}  // namespace

void MachineCore::mma(const Tensor& accumulator, const Tensor& left, const Tensor& right, bool init, Site site) {
  if (!runs(Pipe::matrix)) return;
  const Tensor acc = target(accumulator, "mma", site), a = resolve(left), b = resolve(right);
  if (!usable("mma", {&acc, &a, &b}, site)) return;
  if (acc.space != Space::accumulator || a.space != Space::left || b.space != Space::right)
    return illegal("mma",
                   "it multiplies left by right into an accumulator, not " + describe(a) + " by " + describe(b) +
                       " into " + describe(acc),
                   site);
  if (a.columns() != b.rows() || acc.rows() != a.rows() || acc.columns() != b.columns())
    return illegal("mma", "the shapes of " + describe(a) + ", " + describe(b) + " and " + describe(acc) + " do not fit",
                   site);
  if (a.dtype != b.dtype || device().rate(a.dtype, acc.dtype) == nullptr)
    return illegal("mma",
                   "the matrix unit does not multiply " + describe(a) + " by " + describe(b) + " into " + describe(acc),
                   site);
  multiply(acc, a, b, init, site);
}

double MachineCore::scalar_read(const Tensor& tensor, index row, index column, Site site) {
  if (!has(tensor.space)) return 0;
  const Tensor from = resolve(tensor).slice(row, 1, column, 1);
  if (!usable("scalar_read", {&from}, site)) return 0;
  const Tile there = tile(from);
  if (replay_ != nullptr) return replay_->read(there);
  const auto read = [&there] { return there.data == nullptr ? 0 : tiles::read(there, 0, 0); };
  if (run_.rehearsal) return read();
  double value = 0;
  Work work;
  work.unit = Unit::scalar;
  work.in = work.out = from.dtype;
  work.elements = 1;
  issue(Pipe::scalar, "scalar_read", site, work, {{from}}, [&value, &read] { value = read(); });
  return value;
}

// Of the streams those write that have the vector unit: a vector's memory is theirs alone, and what lies in global
// memory would else be written by each. They share it by rows, as what the vector unit writes.
void MachineCore::scalar_write(const Tensor& destination, index row, index column, double value, Site site) {
  if (!runs(Pipe::vector)) return;
  const Tensor to = target(destination, "scalar_write", site).slice(row, 1, column, 1);
  if (!usable("scalar_write", {&to}, site)) return;
  if (to.space != Space::global && !device().same_memory(to.space, Space::vector))
    return illegal("scalar_write", "the scalar unit does not reach " + describe(to), site);
  if (to.space == Space::global && run_.memories.use(to.buffer) == Use::in)
    return illegal("scalar_write", run_.memories.buffer(to.buffer).name + " is an input", site);
  if (bits(to.dtype) < 8) return illegal("scalar_write", "it writes whole bytes, not " + describe(to), site);
  Work work;
  work.unit = Unit::scalar;
  work.in = work.out = to.dtype;
  work.elements = 1;
  // An estimate is asked of buffers that nobody may touch.
  const bool callers = to.space == Space::global && !run_.memories.buffer(to.buffer).workspace;
  const Write body{tile(to), value, callers && !computes(Pipe::vector)};
  issue(Pipe::scalar, "scalar_write", site, work, {{to, true}}, body, {{body.to.form, body.to.data}});
}

// Functional mode has one memory, and no caches.
void MachineCore::tend(LineVerb what, const char* verb, const Tensor& tensor, Site site) {
  const Tensor lines = resolve(tensor);
  if (device().scalar.coherent || !usable(verb, {&lines}, site)) return;
  if (lines.space != Space::global) return illegal(verb, describe(lines) + " is in no cache", site);
  if (what == LineVerb::clean && !runs(Pipe::vector)) return;  // it writes nothing
  if (!checked_ || mutated(MutationKind::drop_sync, verb, site)) return;
  Entry work = entry(Event::work, Pipe::scalar, verb, site);
  work.line = what;
  work.work.unit = Unit::scalar;
  work.work.in = work.work.out = lines.dtype;
  work.work.elements = static_cast<std::uint64_t>(lines.elements());
  std::vector<Footprint> footprints = no_footprints();
  footprints.push_back(footprint({lines}));
  enqueue(work, std::move(footprints), [] {});
}

}  // namespace inlay::npu
