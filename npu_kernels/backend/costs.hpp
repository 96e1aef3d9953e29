// What operators cost on a device, without the data and without the state of an Npu that runs them: any number of
// threads may ask at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>

#include <inlay/npu.hpp>

#include "npu_kernels/backend/any_operator.hpp"
#include "npu_kernels/backend/packed_weights.hpp"
#include "npu_kernels/backend/plan.hpp"
#include "tile_machine/estimate/estimate.hpp"
#include "tile_machine/estimate/lru_cache.hpp"
#include "tile_machine/run/verb_log.hpp"

namespace inlay::npu {

// Programs, and estimates, that are kept: those of a few thousand lengths, at some KB each.
inline constexpr std::size_t max_kept = 4096;

// Makes the key of a call. Returns the blocks of the operator's weight, if it has been packed: the last operand.
std::byte* describe(CallKey& call, const AnyOperator& op, const Device& device, const PackedWeights& packed);

class Costs {
 public:
  // With no more of the device's cores than programs may use (0: all): what they are estimated for is what they run on.
  Costs(Device device, std::uint32_t cores, NpuActivations activations);

  const Device& device() const { return device_; }
  // What a program chooses by, at the call of this key.
  Choices choices(const CallKey& call, std::byte* packed = nullptr) {
    return {activations_, &of_variants_, call.key(), packed};
  }

  // Errors: what the operator declines, what the device lacks for its program.
  Expected<NpuEstimate> estimate(const AnyOperator& op, const PackedWeights& packed = {});
  Expected<NpuUsAtDramShares> us_at_dram_shares(const AnyOperator& op, const PackedWeights& packed = {});
  Expected<Plan> plan(const AnyOperator& op, const PackedWeights& packed = {});
  Expected<VerbLog> verbs(const AnyOperator& op, const PackedWeights& packed);  // of the same program
  std::size_t known() const;
  std::size_t timed() const;  // estimates that were not known

 private:
  class Turn;

  // use(what the operator's program is estimated by), of a call that is not kept.
  template <class Use> auto of_program(const AnyOperator& op, const PackedWeights& packed, Use&& use);

  const Device device_;
  const NpuActivations activations_;
  CostCache of_variants_;
  mutable std::mutex mutex_;  // of what follows
  CallKey asked_;             // has its memory: whoever asks again takes none
  LruCache<NpuEstimate> kept_;
  std::unordered_set<std::string> under_way_;  // calls whose estimates a thread is at
  std::condition_variable one_ended_;
  std::size_t timed_ = 0;
};

}  // namespace inlay::npu
