#include "npu_kernels/attention/attend.hpp"

#include <algorithm>
#include <memory>

#include <inlay/core/threads.hpp>

#include "npu_kernels/attention/softmax.hpp"
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/estimate/estimate.hpp"

namespace inlay::npu {

namespace {

// What is made for the vector units alone, or for the matrix unit beside them.
Program on_vectors(GlobalMemory& memory, AttentionCall wanted, const RooflineWork& bounds) {
  const VectorTiles tiles = vector_tiles(memory.device(), wanted);
  auto units = std::make_shared<const std::vector<QueryTile>>(units_of(wanted, tiles.rows));
  wanted.hides = hides(wanted, *units);
  const auto count = static_cast<index>(units->size());
  const PartsWorkspace space = parts_workspace(memory, wanted, count, tiles.rows);
  const auto problem = std::make_shared<const AttentionCall>(std::move(wanted));
  return {.body = [=](Core& core) { attend_on_vectors(core, *problem, *units, space, tiles); },
          .problem = bounds,
          .launch = {.cores = cores_for(count, 2, memory.cores())}};
}

PerQueryPlan per_query_plan(GlobalMemory& memory, const AttentionCall& problem, const AttentionPlan& plan, index rows,
                            std::uint32_t cores) {
  PerQueryPlan queries{units_of(problem, std::min(rows, problem.group())), plan};
  queries.plan.cache = {};
  queries.plan.shares = shares_of(queries.units, cores);
  const index flags = static_cast<index>(queries.units.size()) * memory.device().vector_units();
  queries.plan.nonfinite = memory.workspace("queries that are not numbers", {flags, 1}, DType::f32);
  queries.plan.flags_of_units = true;
  return queries;
}

// Those whose sums are no numbers either.
std::vector<QueryTile> nonfinite_units(Core& core, const PerQueryPlan& queries) {
  core.sync_all();
  std::vector<QueryTile> found;
  if (!core.runs(Pipe::vector)) return found;
  const index vectors = core.vector_dim();
  for (std::size_t i = 0; i < queries.units.size(); ++i) {
    const QueryTile& unit = queries.units[i];
    bool numbers = true;
    for (index v = 0; v < vectors && unit.begin < unit.end; ++v) {
      const index flag = static_cast<index>(i) * vectors + v;
      numbers = core.scalar_read(queries.plan.nonfinite, flag, 0) == 0 && numbers;
    }
    if (!numbers) found.push_back(unit);
  }
  return found;
}

// A body-less program where its tiles do not fit.
Program on_matrix(GlobalMemory& memory, AttentionCall wanted, const RooflineWork& bounds, const Choices& choices) {
  if (!fits_matrix(memory.device(), wanted)) return {};
  auto [plan, tiles] = plan_matrix(memory.device(), wanted, choices.activations, memory.cores());
  if (plan.tiles.tokens == 0) return {};
  const auto units = std::make_shared<const std::vector<QueryTile>>(std::move(tiles));
  const auto count = static_cast<index>(units->size());
  const PartsWorkspace space = parts_workspace(memory, wanted, count, plan.tiles.rows);
  add_workspace(memory, wanted, *units, plan);
  const Launch launch{.cores = cores_for(count, 1, memory.cores())};
  plan.shares = shares_of(*units, launch.cores);
  const bool may_be_nonfinite = wanted.hides || plan.numbers.f16_scores;
  if (may_be_nonfinite) plan.nonfinite = nonfinite_flags(memory);
  // What is done once more where sums are no numbers: for a token all, for a prompt each query.
  const bool again = may_be_nonfinite && !wanted.chunk_invariant, alone = may_be_nonfinite && wanted.chunk_invariant;
  const Program vectors = again ? on_vectors(memory, wanted, bounds) : Program{};
  const VectorTiles of_vectors = vector_tiles(memory.device(), wanted);
  std::shared_ptr<const PerQueryPlan> queries;
  if (alone)
    queries = std::make_shared<const PerQueryPlan>(
        per_query_plan(memory, wanted, plan, std::min(plan.max_rows, of_vectors.rows), launch.cores));
  // A query that is alone sees all that it is multiplied with, or rules hide some of it.
  const bool hidden = plan.numbers.f16_scores || !one_rule(wanted);
  const auto problem = std::make_shared<const AttentionCall>(std::move(wanted));
  const auto body = [=, plan = std::move(plan)](Core& core) {
    const bool numbers = attend_on_matrix(core, *problem, *units, space, plan, queries.get());
    if (again && !sums_are_finite(core, plan.nonfinite)) vectors.body(core);
    if (!numbers && hidden) attend_on_vectors(core, *problem, nonfinite_units(core, *queries), {}, of_vectors);
  };
  return {.body = body, .problem = bounds, .launch = launch};
}

// Compulsory bytes below which an estimate is not worth its time: the program is the first that fits.
constexpr double estimated_from = 2e6;

// Splits that give each core one unit or two, as long as they are worth their merge.
std::vector<index> splits_of(const AttentionCall& p, const Device& device, std::uint32_t cores) {
  if (p.chunk_invariant) return {1};
  constexpr index shortest = 256;
  index longest = 1, units = 0;
  for (const AttentionSequence& s : p.sequences)
    longest = std::max(longest, s.keys), units += s.queries > 0 ? p.kv_heads() : 0;
  const index vectors = device.vector_units();
  std::vector<index> splits{1};
  for (const index wanted : {ceil_div(cores, units), ceil_div(2 * cores, units), ceil_div(vectors * cores, units)})
    if (const index most = std::min(wanted, longest / shortest);
        most > 1 && std::find(splits.begin(), splits.end(), most) == splits.end())
      splits.push_back(most);
  return splits;
}

// The quickest by the timing model, whose estimates are kept.
AttentionTemplate quickest(GlobalMemory& memory, const AttentionProblem<Host>& problem, const Choices& choices) {
  const AttentionCall call = attention_call(memory, problem);
  const std::vector<AttentionTemplate> all = templates_of(call, memory.device(), memory.cores());
  std::vector<EstimateRequest> estimated(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Program plan = attend_by(memory, call, choices, all[i]);
    if (!plan.body) continue;
    const AttentionTemplate by = all[i];
    estimated[i] = {.name = choices.key,
                    .sizes = {by.matrix, by.splits, static_cast<index>(choices.activations)},
                    .types = {},
                    .problem = plan.problem,
                    .build =
                        [&problem, &choices, by](GlobalMemory& other) {
                          return attend_by(other, attention_call(other, problem), choices, by).body;
                        },
                    .launch = plan.launch};
  }
  std::vector<double> cycles(all.size(), 0);  // 0: it does not fit
  threads()(static_cast<index>(all.size()), [&](index i) {
    const EstimateRequest& request = estimated[static_cast<std::size_t>(i)];
    if (!request.build) return;
    const auto estimate = choices.estimates->of(memory.device(), request);
    if (estimate) cycles[static_cast<std::size_t>(i)] = estimate->cycles;
  });
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (cycles[i] > 0 && (cycles[best] == 0 || cycles[i] < cycles[best])) best = i;
  return all[best];
}

}  // namespace

std::vector<AttentionTemplate> templates_of(const AttentionCall& problem, const Device& device, std::uint32_t cores) {
  std::vector<AttentionTemplate> all;
  for (const index splits : splits_of(problem, device, cores))
    for (const bool matrix : {true, false}) all.push_back({matrix, splits});
  return all;
}

Program attend_by(GlobalMemory& memory, AttentionCall problem, const Choices& choices, const AttentionTemplate& by) {
  const RooflineWork bounds = bounds_of(problem);
  index longest = 1;
  for (const AttentionSequence& s : problem.sequences) longest = std::max(longest, s.keys);
  constexpr index granule = 32;  // tokens: a split starts where a transfer is not cut
  problem.split = round_up(ceil_div(longest, by.splits), granule);
  problem.splits = by.splits;
  return by.matrix ? on_matrix(memory, std::move(problem), bounds, choices)
                   : on_vectors(memory, std::move(problem), bounds);
}

Program attend(GlobalMemory& memory, const AttentionProblem<Host>& problem, const Choices& choices) {
  const AttentionCall call = attention_call(memory, problem);
  AttentionTemplate by;
  const auto bytes = static_cast<double>(bounds_of(call).bytes);
  if (!problem.chunk_invariant && choices.estimates != nullptr && bytes >= estimated_from) {
    // What is asked only for an estimate takes no workspace of the caller's.
    PlanningMemory apart(memory.device(), memory.cores());
    by = quickest(apart, problem, choices);
  }
  if (Program program = attend_by(memory, call, choices, by); program.body) return program;
  by.matrix = false;
  return attend_by(memory, call, choices, by);
}

}  // namespace inlay::npu
