#include "tile_machine/run/chain.hpp"

#include "tile_machine/run/core.hpp"

namespace inlay::npu {

Chain::Chain(Core& core, Pipe pipe) : core_(core), pipe_(core.role(pipe)) { core_.open_chain(pipe_); }

Chain::~Chain() { core_.close_chain(pipe_); }

Chain Core::chain(Pipe pipe) { return Chain(*this, pipe); }

void Core::open_chain(Pipe pipe) {
  const std::size_t queue = device().queue_of[static_cast<std::size_t>(pipe)];
  if (!checked() || !runs(pipe) || pipe == Pipe::scalar || device().queues[queue].in_order_visible) return;
  OpenChain& open = chains_[queue];
  if (open.scopes++ == 0) open.order.emplace(device(), pipe, open.works > 0);
}

void Core::close_chain(Pipe pipe) {
  OpenChain& open = chains_[device().queue_of[static_cast<std::size_t>(pipe)]];
  if (open.scopes > 0 && --open.scopes == 0) open.order.reset();
}

// Before a work entry is put into its queue.
void Core::link(const Entry& entry_of_work, const std::vector<Footprint>& footprints) {
  OpenChain& open = chains_[device().queue_of[static_cast<std::size_t>(entry_of_work.pipe)]];
  if (!open.order || !open.order->needs_barrier(footprints)) return;
  const Entry barrier = entry(Event::barrier, entry_of_work.pipe, "barrier", entry_of_work.site);
  if (mutated(MutationKind::drop_sync, "barrier", entry_of_work.site))
    notice(barrier, {});
  else
    enqueue(barrier, {}, {});
}

void Core::notice(const Entry& issued, const std::vector<Footprint>& footprints) {
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
