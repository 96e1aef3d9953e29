// The copy by axes.
#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

void MachineCore::add_footprints(std::vector<Footprint>& to, const NdTensor& tensor, bool write) const {
  for (const Region& region : regions_of(tensor)) to.push_back(footprint({tensor.first, write}, region));
}

// Its elements are the buffer's, and in scratch memory each run of `run` elements starts at a granule.
bool MachineCore::reachable(const char* verb, const NdTensor& tensor, index run, Site site) {
  if (!usable(verb, {&tensor.first}, site)) return false;
  const Buffer& buffer = run_.memories.buffer(tensor.first.buffer);
  const Memory& memory = device().memory(tensor.first.space);
  const auto where = [&] { return std::string(verb) + " at " + line_of(site); };
  const auto [low, high] = span_of(tensor);
  const std::uint64_t end = buffer.memory == 0 ? buffer.bytes : memory.bytes;
  if (low < 0 || static_cast<std::uint64_t>(high) > end) {
    report(ReportKind::capacity, where() + " touches " + buffer.name + " beyond its end", site, tensor.first.buffer);
    return false;
  }
  if (tensor.first.space == Space::global) return true;
  index inside = 1;
  bool right = tensor.first.begin % memory.granule == 0;
  for (int axis = tensor.rank - 1; axis >= 0; inside *= tensor.extent(axis--))
    if (inside >= run && tensor.extent(axis) > 1)
      right = right && byte_size(tensor.first.dtype, tensor.stride(axis)) % memory.granule == 0;
  if (right) return true;
  report(ReportKind::alignment,
         where() + ": runs of " + describe(tensor) + " start off the " + std::to_string(memory.granule) + " bytes of " +
             memory.name,
         site, tensor.first.buffer);
  return false;
}

std::optional<MachineCore::CopyByAxes> MachineCore::copying(const NdTensor& destination, const NdTensor& source,
                                                            Site site) {
  constexpr const char* verb = "copy";
  const auto refuse = [&](const std::string& why) {
    illegal(verb, why, site);
    return std::nullopt;
  };
  NdTensor to = destination;
  to.first = target(destination.first, verb, site);
  NdTensor from = source;
  from.first = resolve(source.first);
  for (const NdTensor* each : {&to, &from})
    if (each->first.error != nullptr) return refuse(each->first.error);
  if (device().path(from.first.space, to.first.space) == nullptr)
    return refuse("there is no path from " + describe(from) + " to " + describe(to));
  bool equal = to.rank == from.rank && to.first.dtype == from.first.dtype;
  for (int axis = 0; equal && axis < to.rank; ++axis) equal = to.extent(axis) == from.extent(axis);
  if (!equal) return refuse(describe(from) + " is not " + describe(to));
  if (to.empty()) return std::nullopt;
  const index run = common_run(to, from);
  if (bits(to.first.dtype) == 4) {
    bool whole = run % 2 == 0;
    for (const NdTensor* each : {&to, &from})
      for (int axis = 0; axis < each->rank; ++axis)
        whole = whole && (each->stride(axis) == 1 || each->stride(axis) % 2 == 0);
    if (!whole) return refuse("runs of " + describe(to) + " must be whole bytes");
  }
  if (!reachable(verb, to, run, site) || !reachable(verb, from, run, site)) return std::nullopt;
  if (to.first.space == Space::global && run_.memories.use(to.first.buffer) == Use::in)
    return refuse(run_.memories.buffer(to.first.buffer).name + " is an input");
  if (!elements_apart(to)) return refuse("elements of " + describe(to) + " share memory");
  return CopyByAxes{to, from, run_.memories.data(to.first), run_.memories.data(from.first)};
}

void MachineCore::copy(const NdTensor& destination, const NdTensor& source, Site site) {
  if (stopped() || !moves_here(destination.first, source.first)) return;
  const auto found = copying(destination, source, site);
  if (!found) return;
  const CopyByAxes& body = *found;
  if (!checked_) return perform(body, {{body.to.first, body.into}, {body.from.first, body.out_of}});
  const NdTensor &to = body.to, &from = body.from;
  const Path* path = device().path(from.first.space, to.first.space);
  Entry entry_of_copy = entry(Event::work, path->pipe, "copy", site);
  Work& work = entry_of_copy.work;
  work.unit = Unit::dma;
  work.path = static_cast<std::uint8_t>(path - device().paths.data());
  work.in = work.out = to.first.dtype;
  work.bytes = static_cast<std::uint64_t>(byte_size(to.first.dtype, to.size()));
  work.runs = static_cast<std::uint64_t>(to.size() / common_run(to, from));
  std::vector<Footprint> all = no_footprints();
  add_footprints(all, from, false);
  add_footprints(all, to, true);
  enqueue(entry_of_copy, std::move(all), carried_out(path->pipe, body));
}

void MachineCore::copy_row(const NdTensor& to, const NdTensor& from_row_0, const NamedRow& row, Site site) {
  copy(to, row.in(from_row_0, static_cast<index>(scalar_read(row.numbers, 0, row.at, site))), site);
}

}  // namespace inlay::npu
