// Functional mode's verbs: what a verb does to bytes is done at once, in the order of the program. Of flags those
// between streams and cores alone are waited for.
#pragma once

#include <map>

#include "tile_machine/events/channels.hpp"
#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

struct FunctionalRun : Run {
  tiles::HostProduct product{};
  tiles::HostBuffers* host = nullptr;             // its space
  ReplayLog* replay = nullptr;                    // where what is done is kept
  std::vector<std::uint64_t> meetings{};          // sync_all's by stream
  std::map<ChannelId, std::uint64_t> standing{};  // sets between streams and cores that stand
};

class FunctionalCore final : public MachineCore {
 public:
  FunctionalCore(FunctionalRun& run, std::uint32_t stream) : MachineCore(run, stream, false, run.replay), run_(run) {}

  void copy_row(const NdTensor& to, const NdTensor& from_row_0, const NamedRow& row, Site site) override;
  void barrier(Pipe, Site) override {}
  void barrier_all(Site) override {}
  void sync_all(Site site) override;

 private:
  void enqueue(const Entry&, std::vector<Footprint>, std::function<void()>) override {}  // there are no queues
  void dispatch(const Entry& sync) override;
  void record_life(Event, std::uint32_t, Site) override {}
  bool mutated(MutationKind, const char*, Site) override { return false; }
  bool computes(Pipe) const override { return !run_.rehearsal; }
  void multiply(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site) override;

  FunctionalRun& run_;
};

}  // namespace inlay::npu
