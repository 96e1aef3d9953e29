#include "npu_kernels/attention/decode_price.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "npu_kernels/machine/arithmetic/rounding.hpp"
#include "npu_kernels/machine/time/timing.hpp"

namespace inlay::npu {

namespace {

constexpr index shortest_split = 128;  // tokens: below it a tile is no longer a good transfer

tl::expected<double, Status> cycles_of(const Device& device, const DecodeOperands& shape, DecodePlan plan,
                                       index splits) {
  Machine machine(device, {.data = false});
  const auto without_data = [&](const char* name, const Tensor& like, Use use) {
    return machine.absent(name, like.dtype, like.shape, use);
  };
  DecodeOperands op = shape;
  op.plan = plan;
  op.splits = splits;
  op.q = without_data("q", shape.q, Use::in);
  op.k = without_data("k", shape.k, Use::in);
  op.v = without_data("v", shape.v, Use::in);
  op.out = without_data("out", shape.out, Use::out);
  add_workspace(machine, op);
  const Outcome outcome = machine.run([&](Core& core) { decode_attention(core, op); }, op.launch());
  if (!outcome.ok())
    return failure(StatusCode::invalid_argument, std::string(name(plan)) + ": " + outcome.reports.front().message);
  auto timeline = time_tape(outcome.tape, device);
  if (!timeline) return tl::unexpected<Status>(std::move(timeline.error()));
  return to_cycles(timeline->makespan);
}

}  // namespace

tl::expected<std::vector<DecodeChoice>, Status> price_decode(const Device& device, const DecodeOperands& shape) {
  std::vector<DecodeChoice> choices;
  Status refused;
  for (DecodePlan plan : decode_plans) {
    if (plan == DecodePlan::c1v2 && (device.streams.empty() || shape.group() == 1)) continue;  // C1V1 by another name
    // One split, or as many as give each worker an item or two.
    index workers = device.cores;
    if (plan == DecodePlan::vector) workers *= device.vector_units();
    const index each = ceil_div(workers, shape.sequences * shape.cache_heads);
    for (index splits : {index{1}, each, 2 * each}) {
      const auto known = [&](const DecodeChoice& choice) { return choice.plan == plan && choice.splits == splits; };
      if (std::any_of(choices.begin(), choices.end(), known)) continue;
      if (splits > 1 && ceil_div(shape.length, splits) < shortest_split) continue;
      auto cycles = cycles_of(device, shape, plan, splits);
      if (cycles)
        choices.push_back({plan, splits, *cycles});
      else
        refused = std::move(cycles.error());  // its tiles do not fit
    }
  }
  if (choices.empty()) return failure(std::move(refused));
  std::stable_sort(choices.begin(), choices.end(),
                   [](const DecodeChoice& a, const DecodeChoice& b) { return a.cycles < b.cycles; });
  return choices;
}

}  // namespace inlay::npu
