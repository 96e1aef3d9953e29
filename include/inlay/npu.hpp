// The NPU backend: every operator as a tile program, run by a machine that has the memories, queues and units of a
// described device (docs/npu.md). SoCs share their memory with the host: views are those of the host.
//
//   auto npu = Npu::make({.device = "hexagon-htp-like"});
//   run(*npu, RmsNorm<Host>{.x = .., .weight = .., .y = ..});
//   auto cost = estimate(*npu, RmsNorm<Host>{..});              // cycles on the device, without touching a buffer
//
// `functional` computes at once, `checked` proves each program's synchronisation as it runs: a race, a flag that is
// left over or an unwritten output is the Status. Their bits agree.
//
// An Npu is used by one thread at a time: a call while another thread's is under way is refused with a Status that says
// so, and leaves that call alone. Estimates may be asked for beside it, by any number of threads, of an NpuEstimator:
//
//   auto estimator = NpuEstimator::make({.device = "hexagon-htp-like"});
//   auto cost = estimate(*estimator, RmsNorm<Host>{..});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/npu_operator.hpp>

namespace inlay {

enum class NpuMode : unsigned char { functional, checked };

struct NpuOptions {
  // A description's name, the path of a file, or a description itself (JSON); empty: INLAY_NPU_DEVICE, else
  // ascend-a2-like.
  std::string device = {};
  NpuMode mode = NpuMode::functional;
  NpuActivations activations = NpuActivations::exact;
  std::uint32_t cores = 0;  // of the device, that programs may use; 0: all
};

// What the timing model says of an operator at its shapes. Simulated time is no prediction of a device.
struct NpuEstimate {
  double cycles = 0, us = 0;
  std::uint64_t bytes = 0;   // that global memory moves
  std::string bound;         // the resource that the program takes longest
  double problem_share = 0;  // of the makespan that compulsory bytes and products take at least
  // Beside `us`, which are the program's own: of a call on an idle device, of one that stands in line behind another
  // program, and until a host that waits knows of the end.
  double launch_us = 0, dispatch_us = 0, sync_us = 0;
  // Before the first call: to bind a static graph of one length, the device's `compile`, whatever else is in the graph.
  // 0 where shapes come at run time. compile_us + compile_us_per_token * tokens for each length.
  double compile_us = 0, compile_us_per_token = 0;
};

// Microseconds where others leave 1, 3/4, 1/2, 1/4 of global memory's bandwidth, of which the first are
// NpuEstimate::us.
using NpuUsAtDramShares = std::array<double, 4>;

namespace npu {
class Costs;
class Runtime;
struct Plan;  // npu_kernels/backend/plan.hpp
}  // namespace npu

// The names of the descriptions that the library brings.
std::vector<std::string_view> npu_devices();

class Npu {
 public:
  using Space = Host;
  static constexpr std::string_view name = "npu";

  // Errors: a device that there is not (with those that there are), a file that is no description.
  static Expected<Npu> make(const NpuOptions& options = {});
  Npu(Npu&&) noexcept;
  Npu& operator=(Npu&&) noexcept;
  ~Npu();

  const NpuOptions& options() const;       // as they were completed
  const std::string& device_name() const;  // as the description says

  npu::Runtime& runtime() const { return *runtime_; }  // for npu_kernels/

 private:
  explicit Npu(std::unique_ptr<npu::Runtime> runtime);
  std::unique_ptr<npu::Runtime> runtime_;
};

// What operators cost on a described device, apart from an Npu that runs them: any number of threads may ask one of it
// at once. It knows of no packed weights: a linear costs what it does where its weight is laid out anew.
class NpuEstimator {
 public:
  // Errors: as Npu::make. Of the options the mode is not looked at.
  static Expected<NpuEstimator> make(const NpuOptions& options = {});
  NpuEstimator(NpuEstimator&&) noexcept;
  NpuEstimator& operator=(NpuEstimator&&) noexcept;
  ~NpuEstimator();

  npu::Costs& costs() const { return *costs_; }  // for npu_kernels/

 private:
  explicit NpuEstimator(std::unique_ptr<npu::Costs> costs);
  std::unique_ptr<npu::Costs> costs_;
};

namespace npu {

Status supports(const Npu& npu, const AnyOperator& op);
std::size_t scratch_bytes(const Npu& npu, const AnyOperator& op);
Status compute(const Npu& npu, const AnyOperator& op, const Workspace& workspace);
Expected<NpuEstimate> estimate(const Npu& npu, const AnyOperator& op);
Expected<NpuEstimate> estimate(const NpuEstimator& estimator, const AnyOperator& op);
Expected<NpuUsAtDramShares> us_at_dram_shares(const Npu& npu, const AnyOperator& op);
Expected<NpuUsAtDramShares> us_at_dram_shares(const NpuEstimator& estimator, const AnyOperator& op);
Expected<Plan> plan(const Npu& npu, const AnyOperator& op);  // what the estimate is read from
std::size_t packed_bytes(const Npu& npu, const AnyOperator& op);
Status pack(const Npu& npu, const AnyOperator& op, std::span<std::byte> memory);

// ask(op), without the operator's type.
template <class Op, class Ask> auto about(const Op& op, Ask&& ask) {
  std::optional<std::invoke_result_t<Ask, const AnyOperator&>> answer;
  const auto keep = [&](const AnyOperator& any) { answer.emplace(ask(any)); };
  void* const context = const_cast<void*>(static_cast<const void*>(&keep));
  Operator<Op>::visit(op, context, [](void* kept, const AnyOperator& any) {
    (*static_cast<std::add_pointer_t<decltype(keep)>>(kept))(any);
  });
  return *std::move(answer);
}

}  // namespace npu

template <class Op> Status supports(const Npu& npu, const Op& op) {
  return each_part<Npu>(op, [&](const auto& part) {
    return npu::about(part, [&](const npu::AnyOperator& any) { return npu::supports(npu, any); });
  });
}
template <class Op> std::size_t scratch_bytes(const Npu& npu, const Op& op) {
  return npu::about(op, [&](const npu::AnyOperator& any) { return npu::scratch_bytes(npu, any); });
}
template <class Op> Status compute(const Npu& npu, const Op& op, const Workspace& workspace) {
  return npu::about(op, [&](const npu::AnyOperator& any) { return npu::compute(npu, any, workspace); });
}

// Kept by operator, shapes, types and device: asked for again, it is there. What an operator refuses, the backend
// declines or the device has no room for has no estimate.
template <class Costs, class Op>
requires std::is_same_v<Costs, Npu> || std::is_same_v<Costs, NpuEstimator> Expected<NpuEstimate> estimate(
    const Costs& costs, const Op& op) {
  if (Status status = check(op); !status.ok()) return failure(std::move(status));
  if (has_experts(op)) return failure(unsupported("an estimate is of one expert: expert_ends must be left out"));
  return npu::about(op, [&](const npu::AnyOperator& any) { return npu::estimate(costs, any); });
}

// Each share is a timing of its own, and none is kept: an estimate takes a quarter of this.
template <class Costs, class Op>
requires std::is_same_v<Costs, Npu> || std::is_same_v<Costs, NpuEstimator> Expected<NpuUsAtDramShares>
us_at_dram_shares(const Costs& costs, const Op& op) {
  if (Status status = check(op); !status.ok()) return failure(std::move(status));
  if (has_experts(op)) return failure(unsupported("an estimate is of one expert: expert_ends must be left out"));
  return npu::about(op, [&](const npu::AnyOperator& any) { return npu::us_at_dram_shares(costs, any); });
}

// A weight laid out once. The contracts' packed forms are those of every backend; where a device's units read another
// one, each call lays the weight out anew, unless it has been packed here:
//
//   std::span<std::byte> memory = ..;         // packed_bytes(*npu, op) of them, aligned to 64; 0: nothing to gain
//   Status packed = pack(*npu, op, memory);   // reads the weight, and no other operand
//   run(*npu, op, workspace);                 // the same bits, without the pass
//   forget(*npu, memory);                     // before `memory` or the weight is freed or written
//
// It serves every later call and estimate on this Npu whose weight is the same view (address, shape, strides, type) and
// whose x asks for the same blocks; rows, bias and all else are free. The weight stays where it is: it names the
// blocks, and shadow outliers read it. Of linear_int8 and linear; a mixture of experts has nothing to gain yet.

// The bytes of memory that `pack` fills for this operator at this shape. 0 where its program lays out no weight in
// global memory: it has none, the device reads it as it lies or makes blocks where it uses them; and where `check` or
// `supports` refuses it.
template <class Op> std::size_t packed_bytes(const Npu& npu, const Op& op) {
  if (has_experts(op) || !check(op).ok() || !supports(npu, op).ok() || writes_nothing(op)) return 0;
  return npu::about(op, [&](const npu::AnyOperator& any) { return npu::packed_bytes(npu, any); });
}

// Lays the operator's weight out in the first packed_bytes(npu, op) bytes of `memory`; of 0 bytes nothing is to be
// done. A weight that is packed again, because its elements changed, is read from the new blocks. Errors, before
// anything is written: what `check` and `supports` refuse; `memory` that is too short, is not aligned to 64 bytes,
// overlaps the weight, or holds blocks of another one.
template <class Op> Status pack(const Npu& npu, const Op& op, std::span<std::byte> memory) {
  if (Status status = check(op); !status.ok()) return status;
  if (Status status = supports(npu, op); !status.ok()) return status;
  if (writes_nothing(op) || has_experts(op)) return {};
  return npu::about(op, [&](const npu::AnyOperator& any) { return npu::pack(npu, any, memory); });
}

// Every weight whose blocks lie in some of `memory` is read as it is again. Returns how many those were.
std::size_t forget(const Npu& npu, std::span<const std::byte> memory);

}  // namespace inlay
