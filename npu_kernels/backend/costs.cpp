#include "npu_kernels/backend/costs.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <inlay/core/threads.hpp>

#include "tile_machine/run/recording_machine.hpp"

namespace inlay::npu {

namespace {

Device of_cores(Device device, std::uint32_t cores) {
  if (cores > 0) device.cores = cores;
  return device;
}

using Build = std::function<Program(GlobalMemory&)>;

EstimateRequest request_of(const Device& device, std::string name, const Build& build) {
  // One build for the problem and the launch, which the log is asked with.
  PlanningMemory planning(device);
  const Program plan = build(planning);
  return {.name = std::move(name),
          .sizes = {},
          .types = {},
          .problem = plan.problem,
          .build = [&build](GlobalMemory& memory) { return build(memory).body; },
          .launch = plan.launch};
}

}  // namespace

std::byte* describe(CallKey& call, const AnyOperator& op, const Device& device, const PackedWeights& packed) {
  call.start(op.name());
  op.add_to(call);
  const WeightForm weight = op.weight(device);
  if (weight.place == nullptr) return nullptr;
  const std::span<std::byte> blocks = packed.find(weight);
  call.operand(ConstView<1>(blocks.data(), DType::i8, {static_cast<index>(blocks.size())}), false);
  return blocks.data();
}

Costs::Costs(Device device, std::uint32_t cores, NpuActivations activations)
    : device_(of_cores(std::move(device), cores)), activations_(activations) {}

// Of a call that is not known: who asks for the same meanwhile waits for this one, and does not do it again.
class Costs::Turn {
 public:
  // Null: another thread was at it, and has ended.
  static std::unique_ptr<Turn> take(Costs& costs, const CallKey& call, std::unique_lock<std::mutex>& lock) {
    if (costs.under_way_.insert(call.key()).second) {
      ++costs.timed_;
      return std::make_unique<Turn>(costs, call.key());
    }
    costs.one_ended_.wait(lock, [&] { return !costs.under_way_.contains(call.key()); });
    return nullptr;
  }
  Turn(Costs& costs, std::string key) : costs_(costs), key_(std::move(key)) {}
  ~Turn() {
    const std::lock_guard lock(costs_.mutex_);
    costs_.under_way_.erase(key_);
    costs_.one_ended_.notify_all();
  }

 private:
  Costs& costs_;
  const std::string key_;
};

Expected<NpuEstimate> Costs::estimate(const AnyOperator& op, const PackedWeights& packed) {
  if (Status status = op.refusal(device_); !status.ok()) return failure(std::move(status));
  if (op.nothing_to_write()) return NpuEstimate{};
  CallKey call;
  std::byte* blocks = nullptr;
  std::unique_ptr<Turn> turn;
  while (turn == nullptr) {
    std::unique_lock lock(mutex_);
    blocks = describe(asked_, op, device_, packed);
    if (const NpuEstimate* known = kept_.find(asked_.key())) return *known;
    call = asked_;
    turn = Turn::take(*this, call, lock);
  }
  const Build build = [&](GlobalMemory& memory) { return op.make_program(memory, choices(call, blocks)); };
  auto found = npu::estimate(device_, request_of(device_, std::string(op.name()), build), DramShares::all_of_it);
  if (!found) return failure(std::move(found.error()));
  NpuEstimate estimate{.cycles = found->cycles,
                       .us = found->us,
                       .bytes = found->bytes,
                       .bound = found->bound,
                       .problem_share = found->problem_share,
                       .launch_us = device_.host.launch_us,
                       .dispatch_us = device_.host.dispatch_us,
                       .sync_us = device_.host.sync_us,
                       .compile_us = device_.compile.fixed_ms * 1e3,
                       .compile_us_per_token = device_.compile.per_token_ms * 1e3};
  const std::lock_guard lock(mutex_);
  kept_.make_room(max_kept);
  return kept_.put(call.key(), std::move(estimate));
}

template <class Use> auto Costs::of_program(const AnyOperator& op, const PackedWeights& packed, Use&& use) {
  CallKey call;
  std::byte* const blocks = describe(call, op, device_, packed);
  const Build build = [&](GlobalMemory& memory) { return op.make_program(memory, choices(call, blocks)); };
  return use(request_of(device_, std::string(op.name()), build));
}

Expected<NpuUsAtDramShares> Costs::us_at_dram_shares(const AnyOperator& op, const PackedWeights& packed) {
  if (Status status = op.refusal(device_); !status.ok()) return failure(std::move(status));
  if (op.nothing_to_write()) return NpuUsAtDramShares{};
  return of_program(op, packed, [&](const EstimateRequest& program) -> Expected<NpuUsAtDramShares> {
    auto found = npu::estimate(device_, program, DramShares::each, threads());
    if (!found) return failure(std::move(found.error()));
    return found->us_at_share;
  });
}

Expected<Plan> Costs::plan(const AnyOperator& op, const PackedWeights& packed) {
  return of_program(op, packed, [&](const EstimateRequest& program) -> Expected<Plan> {
    auto log = events_of(device_, program);
    if (!log) return failure(std::move(log.error()));
    return Plan{std::move(*log), program.problem};
  });
}

Expected<VerbLog> Costs::verbs(const AnyOperator& op, const PackedWeights& packed) {
  CallKey call;
  std::byte* const blocks = describe(call, op, device_, packed);
  RecordingMachine machine(device_);
  const Program made = op.make_program(machine, choices(call, blocks));
  VerbLog log;
  const std::vector<Report> reports = machine.run(made.body, made.launch, log);
  if (!reports.empty()) return failure(unsupported(device_.name + ": " + reports.front().message));
  return log;
}

std::size_t Costs::timed() const {
  const std::lock_guard lock(mutex_);
  return timed_;
}

std::size_t Costs::known() const {
  const std::lock_guard lock(mutex_);
  return std::max(kept_.size(), of_variants_.known());
}

}  // namespace inlay::npu
