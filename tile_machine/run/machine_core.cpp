// What every verb asks first: is it legal, where are its tensors, what does it touch?
#include "tile_machine/run/machine_core.hpp"

#include <algorithm>

namespace inlay::npu {

MachineCore::MachineCore(Run& run, std::uint32_t stream, bool checked, ReplayLog* replay)
    : Core(run.device, run.cores),
      run_(run),
      stream_(static_cast<std::uint8_t>(stream % run.kinds.size())),
      checked_(checked),
      replay_(replay),
      views_(run.device.feeds_are_views()) {
  index_ = stream / static_cast<std::uint32_t>(run.kinds.size());
  const std::uint8_t kind = run.kinds[stream_], vectors = device().stream_of(Pipe::vector);
  const bool all = device().streams.empty();
  for (int pipe = 0; pipe < pipes; ++pipe) {
    stream_of_[static_cast<std::size_t>(pipe)] = device().stream_of(static_cast<Pipe>(pipe));
    runs_[static_cast<std::size_t>(pipe)] = all || device().has_queue(kind, device().queue_of[pipe]);
  }
  for (int space = 0; space < spaces; ++space)
    has_[static_cast<std::size_t>(space)] =
        all || device().memory_of[space] == 0 || device().stream_of(static_cast<Space>(space)) == kind;
  vector_dim_ = static_cast<std::uint32_t>(std::count(run.kinds.begin(), run.kinds.end(), vectors));
  if (kind == vectors)
    vector_idx_ = static_cast<std::uint32_t>(std::count(run.kinds.begin(), run.kinds.begin() + stream_, vectors));
}

AutoBarrier::AutoBarrier(MachineCore& core, Pipe pipe) : core_(core), pipe_(core.role(pipe)) {
  core_.open_chain(pipe_);
}

AutoBarrier::~AutoBarrier() { core_.close_chain(pipe_); }

bool MachineCore::across(Pipe from, Pipe to) const {
  return from != Pipe::scalar && to != Pipe::scalar &&
         stream_of_[static_cast<std::size_t>(from)] != stream_of_[static_cast<std::size_t>(to)];
}

bool MachineCore::is_mine(Event event, Pipe from, Pipe to) const {
  const Pipe acts = event == Event::set ? from : to, other = event == Event::set ? to : from;
  return runs(acts == Pipe::scalar ? other : acts);
}

bool MachineCore::moves_here(const Tensor& to, const Tensor& from) const {
  const Path* path = device().path(from.space, to.space);
  return path == nullptr || runs(path->pipe);
}

void MachineCore::report(ReportKind kind, std::string message, Site site, std::uint32_t buffer) {
  Report found;
  found.kind = kind;
  found.message = std::move(message);
  found.second = {site, static_cast<std::uint16_t>(index_), Pipe::scalar, no_entry, stream_};
  found.first = found.second;
  if (buffer != none) found.first.site = run_.memories.buffer(buffer).site;
  run_.reports.add(std::move(found));
  run_.failed = true;
}

void MachineCore::illegal(const char* verb, const std::string& why, Site site) {
  report(ReportKind::illegal_path, std::string(verb) + " at " + line_of(site) + ": " + why, site);
}

Tensor MachineCore::resolve(const Tensor& tensor) {
  if (tensor.view == none || tensor.error != nullptr) {
    arrive(tensor.slot);
    return tensor;
  }
  const Tensor& bound = bindings_[tensor.view];
  if (bound.buffer == none) {
    Tensor nothing = tensor;
    nothing.error = "nothing has been loaded into an operand";
    return nothing;
  }
  Tensor result = bound.slice(static_cast<index>(tensor.begin), tensor.shape.rows, tensor.pitch, tensor.shape.columns);
  result.space = tensor.space;
  return tensor.flipped ? result.transposed() : result;
}

Tensor MachineCore::target(const Tensor& tensor, const char* verb, Site site) {
  Tensor result = resolve(tensor);
  if (mutated(MutationKind::shift_offset, verb, site) && result.buffer != none)
    result.begin += std::max<std::uint64_t>(device().memory(result.space).align, byte_size(result.dtype, 1));
  return result;
}

bool MachineCore::usable(const char* verb, std::initializer_list<const Tensor*> tensors, Site site) {
  if (stopped()) return false;
  for (const Tensor* tensor : tensors) {
    if (tensor->error != nullptr) return illegal(verb, tensor->error, site), false;
    if (tensor->buffer == none) return illegal(verb, "an operand has no memory", site), false;
    const Buffer& buffer = run_.memories.buffer(tensor->buffer);
    const auto where = [&] { return std::string(verb) + " at " + line_of(site) + " touches " + buffer.name; };
    if (!run_.memories.live(tensor->buffer)) {
      report(ReportKind::use_after_release, where() + " after its release", site, tensor->buffer);
      return false;
    }
    if (buffer.memory != 0 && (buffer.core != index_ || buffer.stream != stream_))
      return illegal(verb, buffer.name + " is another core's", site), false;
    // Global memory ends with the buffer; in scratch a mutation's shifted write may pass it.
    const std::uint64_t end = buffer.memory == 0 ? buffer.bytes : device().memories[buffer.memory].bytes;
    if (tensor->begin + storage_bytes(*tensor) > end) {
      report(ReportKind::capacity, where() + " beyond its end", site, tensor->buffer);
      return false;
    }
  }
  return true;
}

bool MachineCore::aligned(const char* verb, const Tensor& tensor, Site site) {
  const Memory& memory = device().memory(tensor.space);
  return aligned_rows(verb, tensor, memory.align, memory.name, site);
}

bool MachineCore::aligned_rows(const char* verb, const Tensor& tensor, std::uint32_t align, std::string_view of,
                               Site site) {
  const Region region = tensor.region();
  const std::uint64_t stride = region.runs > 1 ? region.stride : 0;
  if (region.begin % align == 0 && stride % align == 0) return true;
  const bool start = region.begin % align != 0;
  report(ReportKind::alignment,
         std::string(verb) + " at " + line_of(site) + ": " + run_.memories.buffer(tensor.buffer).name +
             (start ? " starts at byte " + std::to_string(region.begin)
                    : " has rows of " + std::to_string(stride) + " bytes") +
             " of " + std::string(of) + ", which must be a multiple of " + std::to_string(align),
         site, tensor.buffer);
  return false;
}

Footprint MachineCore::footprint(const Access& access, const Region& region) const {
  Footprint result;
  result.memory = run_.memories.buffer(access.tensor.buffer).memory;
  result.write = access.write;
  result.atomic = access.atomic;
  result.streamed = access.tensor.streamed;
  result.buffer = access.tensor.buffer;
  result.begin = run_.memories.address(access.tensor.buffer, region.begin);
  result.runs = static_cast<std::uint32_t>(region.runs);
  result.run_bytes = region.bytes;
  result.stride = region.stride;
  return result;
}

Entry MachineCore::entry(Event event, Pipe pipe, const char* verb, Site site) const {
  Entry result;
  result.event = event;
  result.core = static_cast<std::uint16_t>(index_);
  result.stream = stream_;
  result.pipe = pipe;
  result.verb = verb;
  result.site = site;
  return result;
}

}  // namespace inlay::npu
