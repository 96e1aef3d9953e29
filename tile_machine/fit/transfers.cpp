#include "tile_machine/fit/transfers.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "tile_machine/fit/least_squares.hpp"

namespace inlay::npu {

namespace {

constexpr int transfer_rounds = 20;

// Of a transfer: when the one before it in its queue ended (-1: there is none).
struct Placed {
  const TransferSample* transfer;
  double before = -1;
};

using QueueOfCore = std::pair<std::uint32_t, std::uint8_t>;

std::map<QueueOfCore, std::vector<Placed>> by_queue(const Device& device, const InstructionLog& log) {
  std::map<QueueOfCore, std::vector<Placed>> queues;
  for (const TransferSample& each : log.transfers)
    queues[{each.core, device.queue_of[static_cast<int>(device.paths[each.path].pipe)]}].push_back({&each});
  for (auto& [queue, transfers] : queues) {
    std::sort(transfers.begin(), transfers.end(), [](const Placed& a, const Placed& b) {
      return std::pair(a.transfer->end, a.transfer->start) < std::pair(b.transfer->end, b.transfer->start);
    });
    for (std::size_t i = 1; i < transfers.size(); ++i) transfers[i].before = transfers[i - 1].transfer->end;
  }
  return queues;
}

// Whether a transfer of global memory in this queue, ordered by their ends, moves at some time of begin to end.
bool meets(const Device& device, const std::vector<Placed>& queue, double begin, double end) {
  auto each = std::lower_bound(queue.begin(), queue.end(), begin,
                               [](const Placed& a, double time) { return a.transfer->end <= time; });
  // Ends are in order, starts nearly so: of a few that are under way together.
  for (int after = 0; each != queue.end() && after < 16; ++each, ++after)
    if (device.paths[each->transfer->path].dram && each->transfer->start < end) return true;
  return false;
}

std::vector<Placed> samples_of(const Device& device, std::size_t path, Change change,
                               std::span<const InstructionLog> logs, TransferFit& fit) {
  std::vector<Placed> result;
  for (const InstructionLog& log : logs) {
    const auto queues = by_queue(device, log);
    for (const auto& mine : queues)
      for (const Placed& placed : mine.second) {
        if (placed.transfer->path != path || placed.transfer->change != change) continue;
        ++fit.samples;
        const double begin = std::max(placed.transfer->start, placed.before), end = placed.transfer->end;
        const bool shared =
            device.paths[path].dram && std::any_of(queues.begin(), queues.end(), [&](const auto& other) {
              return other.first != mine.first && meets(device, other.second, begin, end);
            });
        if (!shared) result.push_back(placed);
      }
  }
  fit.alone = result.size();
  return result;
}

struct Model {
  bool latency = true, runs = true;  // that are unknowns
};

}  // namespace

TransferFit fit_transfers(const Device& device, const std::vector<Path>& paths, std::size_t path, Change change,
                          std::span<const InstructionLog> logs) {
  TransferFit fit{.change = change};
  const std::vector<Placed> samples = samples_of(device, path, change, logs, fit);
  // Unknowns: what a byte takes, what a run takes, the latency.
  const auto solve = [&](const Model& model, double half_burst) {
    double latency = paths[path].latency;
    Solution solution;
    std::vector<bool> late(samples.size()), last;
    for (int round = 0; round < transfer_rounds; ++round) {
      std::vector<Equation> equations;
      for (std::size_t i = 0; i < samples.size(); ++i) {
        const TransferSample& transfer = *samples[i].transfer;
        late[i] = samples[i].before < 0 || transfer.start + latency >= samples[i].before;
        Equation equation;
        std::size_t x = 0;
        if (model.latency) equation.x[x++] = late[i] ? 1 : 0;
        equation.x[x++] = transfer.bytes + (model.runs ? 0 : half_burst * transfer.runs);
        if (model.runs) equation.x[x++] = transfer.runs;
        equation.y = transfer.end - (late[i] ? transfer.start : samples[i].before);
        if (!model.latency && late[i]) equation.y -= latency;
        equation.scale = transfer.end - transfer.start;
        if (equation.scale > 0) equations.push_back(equation);
      }
      solution = solve_scaled(equations, 1 + (model.latency ? 1 : 0) + (model.runs ? 1 : 0));
      if (!solution.determined || late == last) break;
      last = late;
      if (model.latency) latency = std::max(solution.value[0], 0.0);
    }
    return solution;
  };
  for (const Model& model : {Model{true, true}, Model{true, false}, Model{false, true}, Model{false, false}}) {
    Solution solution = solve(model, paths[path].half_burst);
    const std::size_t byte = model.latency ? 1 : 0;
    if (!solution.determined || solution.value[byte] <= 0) continue;
    if (model.runs && solution.value[byte + 1] < 0) {  // less than nothing is noise: a run takes nothing
      const double error = solution.error[byte + 1];
      solution = solve({model.latency, false}, 0);
      solution.value[byte + 1] = 0;
      solution.error[byte + 1] = error;
      solution.quotient_error = error / solution.value[byte];
    }
    fit.used = solution.used;
    fit.rate_determined = true;
    fit.latency_determined = model.latency;
    fit.run_determined = model.runs;
    fit.latency = model.latency ? std::max(solution.value[0], 0.0) : paths[path].latency;
    fit.latency_error = solution.error[0];
    fit.per_byte = solution.value[byte];
    fit.per_byte_error = solution.error[byte];
    fit.per_run = model.runs ? solution.value[byte + 1] : paths[path].half_burst * fit.per_byte;
    fit.per_run_error = model.runs ? solution.error[byte + 1] : 0;
    fit.quotient_error = solution.quotient_error;
    break;
  }
  return fit;
}

}  // namespace inlay::npu
