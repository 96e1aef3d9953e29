#include "tile_machine/run/checked_core.hpp"

#include <algorithm>
#include <new>

namespace inlay::npu {

namespace {

// A long list gets room for eight times as much, of which the system gives what is touched: to copy it into twice the
// room again and again took a tenth of an estimate.
template <class T> void make_room(Many<T>& list) {
  constexpr std::size_t is_long = 1 << 12, enough = 1 << 20;
  if (list.size() < list.capacity() || list.size() < is_long) return;
  try {
    list.reserve(std::max(enough, 8 * list.size()));
  } catch (const std::bad_alloc&) {  // it grows as it can
  }
}

}  // namespace

CheckedCore::CheckedCore(CheckedRun& run, std::uint32_t stream)
    : MachineCore(run, stream, true, nullptr), run_(run), chains_(run.device.queues.size()) {
  for (std::size_t queue = 0; queue < chains_.size(); ++queue)
    if (!device().queues[queue].in_order_visible) chained_.push_back(queue);
}

bool CheckedCore::mutated(MutationKind kind, const char* verb, Site site) {
  return run_.mutations != nullptr && run_.mutations->hit(kind, verb, site);
}

std::uint32_t CheckedCore::record(const Entry& entry, const std::vector<Footprint>& footprints) {
  notice(entry, footprints);
  if (run_.entries >= run_.max_entries) {
    run_.full = run_.failed = true;
    return no_entry;
  }
  ++run_.entries;
  if (run_.log == nullptr) return no_entry;
  EventLog& log = *run_.log;
  const std::size_t before = log.footprints.size();
  try {
    make_room(log.footprints);
    for (const Footprint& each : footprints)
      if (each.memory == 0 || run_.local_footprints) log.footprints.push_back(each);
    make_room(log.entries);
    log.entries.push_back(entry);
  } catch (const std::bad_alloc&) {
    run_.full = run_.failed = true;
    return no_entry;
  }
  log.entries.back().footprints = static_cast<std::uint32_t>(before);
  log.entries.back().footprint_count = static_cast<std::uint32_t>(log.footprints.size() - before);
  return static_cast<std::uint32_t>(log.entries.size() - 1);
}

void CheckedCore::record_life(Event event, std::uint32_t buffer, Site site) {
  Entry life = entry(event, Pipe::scalar, event == Event::allocate ? "alloc" : "release", site);
  life.buffer = buffer;
  record(life, {});
}

void CheckedCore::enqueue(const Entry& entry, std::vector<Footprint> footprints, std::function<void()> body) {
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

void CheckedCore::dispatch(const Entry& sync) {
  if (sync.pipe != Pipe::scalar) return enqueue(sync, {}, {});
  record(sync, {});
  if (sets(sync.event)) run_.scheduler->stream_set(sync);
  if (waits(sync.event)) run_.scheduler->stream_wait(sync);
}

void CheckedCore::multiply(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site) {
  Work work;
  work.unit = Unit::matrix;
  work.in = a.dtype;
  work.out = acc.dtype;
  work.m = static_cast<std::uint32_t>(a.rows());
  work.n = static_cast<std::uint32_t>(b.columns());
  work.k = static_cast<std::uint32_t>(a.columns());
  work.turned = device().turns(b.flipped);
  const auto body = [to = tile(acc), x = tile(a), y = tile(b), init, &numerics = device().numerics] {
    tiles::multiply(to, x, y, init, numerics);
  };
  if (init)
    issue(Pipe::matrix, "mma", site, work, {{a}, {b}, {acc, true}}, body);
  else
    issue(Pipe::matrix, "mma", site, work, {{a}, {b}, {acc}, {acc, true}}, body);
}

void CheckedCore::barrier(Pipe pipe, Site site) {
  pipe = role(pipe);
  if (!runs(pipe) || stopped() || pipe == Pipe::scalar) return;
  if (device().queues[device().queue_of[static_cast<std::size_t>(pipe)]].in_order_visible) return;
  if (mutated(MutationKind::drop_sync, "barrier", site)) return;
  enqueue(entry(Event::barrier, pipe, "barrier", site), {}, {});
}

void CheckedCore::barrier_all(Site site) {
  if (stopped() || mutated(MutationKind::drop_sync, "barrier_all", site)) return;
  const Entry sync = entry(Event::barrier_all, Pipe::scalar, "barrier_all", site);
  record(sync, {});
  run_.scheduler->drain(sync);
}

void CheckedCore::sync_all(Site site) {
  if (stopped() || mutated(MutationKind::drop_sync, "sync_all", site)) return;
  const Entry sync = entry(Event::sync_all, Pipe::scalar, "sync_all", site);
  record(sync, {});
  run_.scheduler->meet(sync);
}

void CheckedCore::open_chain(Pipe pipe) {
  const std::size_t queue = device().queue_of[static_cast<std::size_t>(pipe)];
  if (!runs(pipe) || pipe == Pipe::scalar || device().queues[queue].in_order_visible) return;
  OpenChain& open = chains_[queue];
  if (open.scopes++ == 0) open.order.emplace(device(), pipe, open.works > 0);
}

void CheckedCore::close_chain(Pipe pipe) {
  OpenChain& open = chains_[device().queue_of[static_cast<std::size_t>(pipe)]];
  if (open.scopes > 0 && --open.scopes == 0) open.order.reset();
}

// Before a work entry is put into its queue.
void CheckedCore::link(const Entry& entry_of_work, const std::vector<Footprint>& footprints) {
  OpenChain& open = chains_[device().queue_of[static_cast<std::size_t>(entry_of_work.pipe)]];
  if (!open.order || !open.order->needs_barrier(footprints)) return;
  const Entry barrier = entry(Event::barrier, entry_of_work.pipe, "barrier", entry_of_work.site);
  if (mutated(MutationKind::drop_sync, "barrier", entry_of_work.site))
    notice(barrier, {});
  else
    enqueue(barrier, {}, {});
}

void CheckedCore::notice(const Entry& issued, const std::vector<Footprint>& footprints) {
  for (const std::size_t queue : chained_) {
    OpenChain& open = chains_[queue];
    if (open.order) open.order->saw(issued, footprints);
    const bool mine = device().queue_of[static_cast<std::size_t>(issued.pipe)] == queue;
    if (mine && issued.event == Event::work) ++open.works;
    const bool all = issued.event == Event::barrier_all || issued.event == Event::sync_all;
    if ((mine && issued.event == Event::barrier) || all) open.works = 0;
  }
}

}  // namespace inlay::npu
