#include "tile_machine/run/functional_core.hpp"

#include <algorithm>

namespace inlay::npu {

namespace {

// The row that the number names when the step is done.
struct CopyRow {
  NdTensor to, from;
  std::byte *into, *out_of;  // of row 0
  Tile number;
  index count, bytes;
  bool operator()() const {
    const auto row = static_cast<index>(tiles::read(number, 0, 0));
    if (row < 0 || row >= count) return false;
    tiles::copy_by_axes(to, into, from, out_of + row * bytes);
    return true;
  }
};

}  // namespace

// With a replay the number is part of the step, so that another number does not end the replay.
void FunctionalCore::copy_row(const NdTensor& to, const NdTensor& from_row_0, const NamedRow& row, Site site) {
  if (replay_ == nullptr) return MachineCore::copy_row(to, from_row_0, row, site);
  const Tensor number = row.numbers.slice(0, 1, row.at, 1);
  if (stopped() || !moves_here(to.first, from_row_0.first) || !usable("copy_row", {&number}, site)) return;
  const Tile named = tile(number);
  const auto body = copying(to, row.in(from_row_0, static_cast<index>(tiles::read(named, 0, 0))), site);
  if (!body) return;
  const CopyRow step{body->to, body->from, body->into, run_.memories.data(from_row_0.first),
                     named,    row.count,  row.bytes};
  perform(step, {{step.to.first, step.into}, {step.from.first, step.out_of}, {step.number.form, step.number.data}});
}

void FunctionalCore::multiply(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site) {
  // A replay outlives the run: the host's product is part of the step.
  perform([to = tile(acc), x = tile(a), y = tile(b), init, &numerics = device().numerics, product = run_.product,
           &host = *run_.host] { tiles::multiply_on_host(to, x, y, init, numerics, product, host); });
}

void FunctionalCore::dispatch(const Entry& sync) {
  const bool set = sync.event == Event::stream_set || sync.event == Event::cross_set;
  if (!set && sync.event != Event::stream_wait && sync.event != Event::cross_wait) return;
  std::uint64_t& standing = run_.standing[channel_of(sync, run_.kinds.size())];
  if (set) {
    ++standing;
    return;
  }
  run_.streams.block(number(), [&] { return standing > 0; });
  if (standing > 0) --standing;
}

void FunctionalCore::sync_all(Site) {
  if (stopped()) return;
  const std::uint64_t meeting = ++run_.meetings[number()];
  run_.streams.block(number(), [&] {
    return std::all_of(run_.meetings.begin(), run_.meetings.end(), [&](std::uint64_t met) { return met >= meeting; });
  });
}

}  // namespace inlay::npu
