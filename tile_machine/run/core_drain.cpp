// The accumulator's way out.
#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

namespace {

struct Drain {
  Tile to, from;
  DrainOptions options;
  Tile scales, bias;
  void operator()() const { tiles::drain(to, from, options, scales, bias); }
};

}  // namespace

// Can the device do what the options ask of an accumulator of `from` that becomes `to`? Otherwise a report.
bool MachineCore::drains(DType from, DType to, const DrainOptions& options, Site site) {
  const DrainForm* form = device().drain(from, to);
  const auto refuse = [&](const std::string& why) {
    illegal("drain", device().name + why + std::string(name(from)) + " as " + std::string(name(to)), site);
    return false;
  };
  if (form == nullptr) return refuse(" does not drain ");
  if (options.scale != 1 && form->scales == DrainScales::none) return refuse(" does not scale when it drains ");
  if (options.scale_row.buffer != none && form->scales != DrainScales::columns)
    return refuse(" has no scale for each column when it drains ");
  if (options.bias_row.buffer != none && !form->bias) return refuse(" adds no bias when it drains ");
  const bool integer = to == DType::i8 || to == DType::u8;
  if (options.zero != 0 && (!integer || form->scales == DrainScales::none))
    return refuse(" adds no zero point when it drains ");
  return true;
}

// A row of one f32 for each column, in staging memory; none where there is nothing.
bool MachineCore::drain_row(const Tensor& row, const Tensor& to, Site site) {
  if (row.buffer == none && row.error == nullptr) return true;
  if (!usable("drain", {&row}, site)) return false;
  if (!device().same_memory(row.space, Space::staging))
    return illegal("drain", "a row for the columns lies in staging, not " + describe(row), site), false;
  if (row.shape == Shape{1, to.columns()} && row.dtype == DType::f32) return true;
  illegal("drain", describe(row) + " is no row of f32 for the columns of " + describe(to), site);
  return false;
}

void MachineCore::drain(const Tensor& destination, const Tensor& acc, const DrainOptions& options, Site site) {
  if (!moves_here(destination, acc)) return;
  const Tensor to = target(destination, "drain", site), from = resolve(acc);
  if (!usable("drain", {&to, &from}, site)) return;
  if (from.space != Space::accumulator)
    return illegal("drain", "it empties an accumulator, not " + describe(from), site);
  const Path* path = legal_path("drain", to, from, site);
  if (path == nullptr || !drains(from.dtype, to.dtype, options, site)) return;
  const Tensor scales = resolve(options.scale_row), bias = resolve(options.bias_row);
  if (!drain_row(scales, to, site) || !drain_row(bias, to, site)) return;
  const auto row = [&](const Tensor& tensor) { return tensor.buffer == none ? Tile{} : tile(tensor); };
  const Drain body{tile(to), tile(from), options, row(scales), row(bias)};
  if (!checked_) return perform(body, {{body.to.form, body.to.data}});
  Entry work = entry(Event::work, path->pipe, "drain", site);
  work.work = dma_work(*path, to, from);
  const Region target_region = to.region();  // the narrow side is what moves
  work.work.bytes = target_region.runs * target_region.bytes;
  work.work.runs = target_region.runs;
  std::vector<Footprint> footprints = no_footprints();
  footprints.push_back(footprint({from}));
  for (const Tensor* each : {&scales, &bias})
    if (each->buffer != none) footprints.push_back(footprint({*each}));
  footprints.push_back(footprint({to, true}));
  enqueue(work, std::move(footprints), carried_out(path->pipe, body));
}

}  // namespace inlay::npu
