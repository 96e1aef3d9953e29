// The machine's side of every verb: legality, footprints, the tape, the queues.
#include "tile_machine/run/core.hpp"

#include <algorithm>
#include <new>

namespace inlay::npu {

Core::Core(Run& run, std::uint32_t stream)
    : run_(run),
      index_(stream / static_cast<std::uint32_t>(run.kinds.size())),
      stream_(static_cast<std::uint8_t>(stream % run.kinds.size())),
      views_(run.device.feeds_are_views()),
      chains_(run.device.queues.size()) {
  const std::uint8_t kind = run.kinds[stream_], vectors = device().stream_of(Pipe::vector);
  const bool all = device().streams.empty();
  for (int pipe = 0; pipe < pipes; ++pipe) {
    stream_of_[static_cast<std::size_t>(pipe)] = device().stream_of(static_cast<Pipe>(pipe));
    runs_[static_cast<std::size_t>(pipe)] = all || device().has_queue(kind, device().queue_of[pipe]);
  }
  for (int space = 0; space < spaces; ++space)
    has_[static_cast<std::size_t>(space)] =
        all || device().memory_of[space] == 0 || device().stream_of(static_cast<Space>(space)) == kind;
  for (std::size_t queue = 0; queue < chains_.size(); ++queue)
    if (!device().queues[queue].in_order_visible) chained_.push_back(queue);
  vector_dim_ = static_cast<std::uint32_t>(std::count(run.kinds.begin(), run.kinds.end(), vectors));
  if (kind == vectors)
    vector_idx_ = static_cast<std::uint32_t>(std::count(run.kinds.begin(), run.kinds.begin() + stream_, vectors));
}

bool Core::across(Pipe from, Pipe to) const {
  return from != Pipe::scalar && to != Pipe::scalar &&
         stream_of_[static_cast<std::size_t>(from)] != stream_of_[static_cast<std::size_t>(to)];
}

bool Core::is_mine(Event event, Pipe from, Pipe to) const {
  const Pipe acts = event == Event::set ? from : to, other = event == Event::set ? to : from;
  return runs(acts == Pipe::scalar ? other : acts);
}

bool Core::moves_here(const Tensor& to, const Tensor& from) const {
  const Path* path = device().path(from.space, to.space);
  return path == nullptr || runs(path->pipe);
}

void Core::report(ReportKind kind, std::string message, Site site, std::uint32_t buffer) {
  Report found;
  found.kind = kind;
  found.message = std::move(message);
  found.second = {site, static_cast<std::uint16_t>(index_), Pipe::scalar, no_entry, stream_};
  found.first = found.second;
  if (buffer != none) found.first.site = run_.memories.buffer(buffer).site;
  run_.reports.add(std::move(found));
  run_.failed = true;
}

void Core::illegal(const char* verb, const std::string& why, Site site) {
  report(ReportKind::illegal_path, std::string(verb) + " at " + line_of(site) + ": " + why, site);
}

bool Core::mutated(MutationKind kind, const char* verb, Site site) {
  return run_.mutations != nullptr && run_.mutations->hit(kind, verb, site);
}

Tensor Core::resolve(const Tensor& tensor) {
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

Tensor Core::target(const Tensor& tensor, const char* verb, Site site) {
  Tensor result = resolve(tensor);
  if (mutated(MutationKind::shift_offset, verb, site) && result.buffer != none)
    result.begin += std::max<std::uint64_t>(device().memory(result.space).align, byte_size(result.dtype, 1));
  return result;
}

bool Core::usable(const char* verb, std::initializer_list<const Tensor*> tensors, Site site) {
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

bool Core::aligned(const char* verb, const Tensor& tensor, Site site) {
  const Memory& memory = device().memory(tensor.space);
  return aligned_rows(verb, tensor, memory.align, memory.name, site);
}

bool Core::aligned_rows(const char* verb, const Tensor& tensor, std::uint32_t align, std::string_view of, Site site) {
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

Footprint Core::footprint(const Access& access, const Region& region) const {
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

Entry Core::entry(Event event, Pipe pipe, const char* verb, Site site) const {
  Entry result;
  result.event = event;
  result.core = static_cast<std::uint16_t>(index_);
  result.stream = stream_;
  result.pipe = pipe;
  result.verb = verb;
  result.site = site;
  return result;
}

std::uint32_t Core::record(const Entry& entry, const std::vector<Footprint>& footprints) {
  notice(entry, footprints);
  if (run_.entries >= run_.most_entries) {
    run_.full = run_.failed = true;
    return no_entry;
  }
  ++run_.entries;
  if (run_.tape == nullptr) return no_entry;
  Tape& tape = *run_.tape;
  const std::size_t before = tape.footprints.size();
  try {
    for (const Footprint& each : footprints)
      if (each.memory == 0 || run_.local_footprints) tape.footprints.push_back(each);
    tape.entries.push_back(entry);
  } catch (const std::bad_alloc&) {
    run_.full = run_.failed = true;
    return no_entry;
  }
  tape.entries.back().footprints = static_cast<std::uint32_t>(before);
  tape.entries.back().footprint_count = static_cast<std::uint32_t>(tape.footprints.size() - before);
  return static_cast<std::uint32_t>(tape.entries.size() - 1);
}

void Core::enqueue(const Entry& entry, std::vector<Footprint> footprints, std::function<void()> body) {
  if (entry.event == Event::work) link(entry, footprints);
  const std::uint32_t index = record(entry, footprints);
  const bool scalar = entry.event == Event::work && entry.pipe == Pipe::scalar;
  if (!run_.compute && !scalar) {
    if (footprints.capacity() > spare_.capacity()) spare_ = std::move(footprints);
    return run_.scheduler->pass(entry, index);
  }
  Instruction instruction{entry, std::move(footprints), std::move(body), index, 0};
  if (scalar) return run_.scheduler->scalar(instruction);
  run_.scheduler->put(std::move(instruction));
}

}  // namespace inlay::npu
