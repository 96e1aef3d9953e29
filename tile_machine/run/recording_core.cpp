#include "tile_machine/run/recording_core.hpp"

#include <algorithm>
#include <utility>

#include "tile_machine/run/recording_machine.hpp"
#include "tile_machine/run/run_checked.hpp"

namespace inlay::npu {

RecordingCore::RecordingCore(CheckedRun& run, std::uint32_t stream, VerbLog::Stream& into)
    : CheckedCore(run, stream), into_(into) {
  into_.core = block_idx();
  into_.has_vector = runs(Pipe::vector);
  into_.has_matrix = runs(Pipe::matrix);
  into_.vector_worker = static_cast<std::uint32_t>(vector_worker());
  into_.vector_workers = static_cast<std::uint32_t>(vector_workers());
}

void RecordingCore::say(const char* verb, VectorOp op, std::initializer_list<Tensor> tensors, Scalar scalar,
                        Compare how) {
  next_ = {};
  named_ = verb;
  next_.described = true;
  next_.op = op;
  next_.compare = how;
  next_.scalar = scalar;
  next_.count = tensors.size();
  std::copy(tensors.begin(), tensors.end(), next_.tensors.begin());
}

// A verb's own barriers and waits come before it, and are its machine's.
void RecordingCore::enqueue(const Entry& entry, std::vector<Footprint> footprints, std::function<void()> body) {
  Verb verb;
  if (entry.event == Event::work && named_ == entry.verb) verb = std::exchange(next_, {});
  verb.entry = entry;
  CheckedCore::enqueue(entry, std::move(footprints), std::move(body));
  into_.verbs.push_back(std::move(verb));
}

// A set or a wait of a queue comes back as an entry of it; one of the scalar stream does not.
void RecordingCore::dispatch(const Entry& sync) {
  if (sync.pipe == Pipe::scalar) {
    Verb verb;
    verb.entry = sync;
    into_.verbs.push_back(std::move(verb));
  }
  CheckedCore::dispatch(sync);
}

void RecordingCore::copy(const Tensor& to, const Tensor& from, Site site) {
  say("copy", VectorOp::add, {to, from});
  CheckedCore::copy(to, from, site);
}

void RecordingCore::copy(const NdTensor& to, const NdTensor& from, Site site) {
  say("copy", VectorOp::add, {});
  next_.to = to;
  next_.from = from;
  CheckedCore::copy(to, from, site);
}

void RecordingCore::nd2nz(const Tensor& to, const Tensor& from, Site site) {
  say("nd2nz", VectorOp::add, {to, from});
  CheckedCore::nd2nz(to, from, site);
}

void RecordingCore::load_a(const Tensor& left, const Tensor& staged, Site site) {
  say("load_a", VectorOp::add, {left, staged});
  CheckedCore::load_a(left, staged, site);
}

void RecordingCore::load_b(const Tensor& right, const Tensor& staged, bool transpose, Site site) {
  say("load_b", VectorOp::add, {right, transpose ? staged.transposed() : staged});
  CheckedCore::load_b(right, staged, transpose, site);
}

void RecordingCore::mma(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site) {
  say("mma", VectorOp::add, {acc, a, b});
  next_.flag = init;
  CheckedCore::mma(acc, a, b, init, site);
}

void RecordingCore::drain(const Tensor& to, const Tensor& acc, const DrainOptions& options, Site site) {
  say("drain", VectorOp::add, {to, acc}, options.scale);
  next_.flag = options.relu || options.scale_row.present() || options.bias_row.present() || options.zero != 0;
  CheckedCore::drain(to, acc, options, site);
}

void RecordingCore::vbinary(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b, Site site) {
  say("vbinary", op, {dst, a, b});
  CheckedCore::vbinary(op, dst, a, b, site);
}

void RecordingCore::vscalar(VectorOp op, const Tensor& dst, const Tensor& a, Scalar b, Site site) {
  say("vscalar", op, {dst, a}, b);
  CheckedCore::vscalar(op, dst, a, b, site);
}

void RecordingCore::vunary(VectorOp op, const Tensor& dst, const Tensor& a, Site site) {
  say("vunary", op, {dst, a});
  CheckedCore::vunary(op, dst, a, site);
}

void RecordingCore::vcompare(Compare how, const Tensor& mask, const Tensor& a, Scalar b, Site site) {
  say("vcompare", VectorOp::compare, {mask, a}, b, how);
  CheckedCore::vcompare(how, mask, a, b, site);
}

void RecordingCore::vselect(const Tensor& dst, const Tensor& mask, const Tensor& yes, const Tensor& no, Site site) {
  say("vselect", VectorOp::select, {dst, mask, yes, no});
  CheckedCore::vselect(dst, mask, yes, no, site);
}

void RecordingCore::vreduce(VectorOp op, const Tensor& dst, const Tensor& a, Site site) {
  say("vreduce", op, {dst, a});
  CheckedCore::vreduce(op, dst, a, site);
}

void RecordingCore::vreduce_columns(VectorOp op, const Tensor& dst, const Tensor& a, Site site) {
  say("vreduce_columns", op, {dst, a});
  CheckedCore::vreduce_columns(op, dst, a, site);
}

void RecordingCore::vcast(const Tensor& dst, const Tensor& a, Round round, Site site) {
  say("vcast", VectorOp::cast, {dst, a});
  CheckedCore::vcast(dst, a, round, site);
}

void RecordingCore::viota(const Tensor& dst, Iota sequence, Site site) {
  say("viota", VectorOp::iota, {dst});
  next_.iota = sequence;
  CheckedCore::viota(dst, sequence, site);
}

void RecordingCore::vfill(const Tensor& dst, float value, Site site) {
  say("vfill", VectorOp::fill, {dst}, value);
  CheckedCore::vfill(dst, value, site);
}

double RecordingCore::scalar_read(const Tensor& from, index row, index column, Site site) {
  say("scalar_read", VectorOp::add, {from.slice(row, 1, column, 1)});
  const std::size_t before = into_.verbs.size();
  const double value = CheckedCore::scalar_read(from, row, column, site);
  if (into_.verbs.size() > before) into_.verbs.back().scalar = static_cast<float>(value);
  next_ = {};
  return value;
}

void RecordingCore::barrier_all(Site site) {
  CheckedCore::barrier_all(site);
  into_.verbs.emplace_back().entry = entry(Event::barrier_all, Pipe::scalar, "barrier_all", site);
}

void RecordingCore::sync_all(Site site) {
  into_.verbs.emplace_back().entry = entry(Event::sync_all, Pipe::scalar, "sync_all", site);
  CheckedCore::sync_all(site);
}

std::vector<Report> RecordingMachine::run(const std::function<void(Core&)>& program, Launch launch, VerbLog& into) {
  std::vector<VerbLog::Stream> streams(device_.streams.empty() ? 1 : 0);
  for (const auto& kind : device_.streams) streams.resize(streams.size() + kind.count);
  into.streams.assign(streams.size() * cores_of(launch), {});
  Outcome outcome = run_checked(device_, memories_, cores_of(launch), launch, {.data = false},
                                [&](CheckedRun& run, std::uint32_t stream) {
                                  RecordingCore core(run, stream, into.streams[stream]);
                                  program(core);
                                });
  into.buffers = std::move(outcome.log.buffers);
  return std::move(outcome.reports);
}

}  // namespace inlay::npu
