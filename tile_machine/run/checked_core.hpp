// Checked mode's verbs: entries with their footprints go to the log and into the scheduler's queues. With a mutation a
// line of the program is left out or bent.
#pragma once

#include <optional>

#include "tile_machine/run/machine_core.hpp"
#include "tile_machine/run/pipe_order.hpp"
#include "tile_machine/run/scheduler.hpp"

namespace inlay::npu {

struct CheckedRun : Run {
  Scheduler* scheduler = nullptr;
  EventLog* log = nullptr;
  Mutations* mutations = nullptr;
  bool compute = true;                       // Options::compute
  bool local_footprints = true;              // Options::local_footprints
  std::size_t entries = 0, max_entries = 0;  // Options::entries
};

class CheckedCore : public MachineCore {
 public:
  CheckedCore(CheckedRun& run, std::uint32_t stream);

  void barrier(Pipe pipe, Site site) override;
  void barrier_all(Site site) override;
  void sync_all(Site site) override;

 protected:
  void enqueue(const Entry& entry, std::vector<Footprint> footprints, std::function<void()> body) override;
  void dispatch(const Entry& sync) override;

 private:
  struct OpenChain {  // of a queue
    std::uint32_t scopes = 0;
    std::uint64_t works = 0;  // since its last barrier
    std::optional<PipeOrder> order;
  };

  void record_life(Event event, std::uint32_t buffer, Site site) override;
  bool mutated(MutationKind kind, const char* verb, Site site) override;
  bool computes(Pipe pipe) const override { return run_.compute || pipe == Pipe::scalar; }  // scalar work always is
  void multiply(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site) override;
  void open_chain(Pipe pipe) override;
  void close_chain(Pipe pipe) override;
  void link(const Entry& entry, const std::vector<Footprint>& footprints);
  void notice(const Entry& entry, const std::vector<Footprint>& footprints);
  std::uint32_t record(const Entry& entry, const std::vector<Footprint>& footprints);

  CheckedRun& run_;
  std::vector<OpenChain> chains_;     // by queue
  std::vector<std::size_t> chained_;  // queues that need barriers
};

}  // namespace inlay::npu
