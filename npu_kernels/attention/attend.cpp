#include "npu_kernels/attention/attend.hpp"

#include <algorithm>
#include <memory>

#include "npu_kernels/attention/attend_matrix.hpp"
#include "npu_kernels/attention/attend_vectors.hpp"
#include "npu_kernels/attention/finite_sums.hpp"
#include "npu_kernels/attention/matrix_tiles.hpp"
#include "npu_kernels/attention/query_halves.hpp"
#include "npu_kernels/attention/score_rules.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

// Rows of a unit that see different keys, or keys that are loaded for the sake of where a tile starts.
bool hides(const AttentionProblem& p, const std::vector<WorkUnit>& units) {
  if (p.bias.present() || p.mask.present() || p.packed.present() || (p.by_chunks && p.window_left >= 0)) return true;
  for (const WorkUnit& unit : units) {
    const Sequence& s = p.sequences[static_cast<std::size_t>(unit.sequence)];
    const KeyRange first = p.visible(s, unit.query), last = p.visible(s, unit.query + unit.queries - 1);
    if (first.begin != last.begin || first.end != last.end) return true;
  }
  return false;
}

// What is made for the vector units alone, or for the matrix unit beside them.
Program on_vectors(GlobalMemory& memory, AttentionProblem wanted, const Problem& bounds) {
  const VectorTiles tiles = vector_tiles(memory.device(), wanted);
  auto units = std::make_shared<const std::vector<WorkUnit>>(units_of(wanted, tiles.rows));
  wanted.hides = hides(wanted, *units);
  const auto count = static_cast<index>(units->size());
  const PartsWorkspace space = parts_workspace(memory, wanted, count, tiles.rows);
  const auto problem = std::make_shared<const AttentionProblem>(std::move(wanted));
  return {.body = [=](Core& core) { attend_on_vectors(core, *problem, *units, space, tiles); },
          .problem = bounds,
          .launch = {.cores = cores_for(count, 2, memory.cores())}};
}

struct PlannedUnits {
  std::vector<WorkUnit> units;
  bool hides = false;
  MatrixPlan plan;  // no tokens: nothing fits
};

// Units of `most` rows at most, and the tiles for them.
PlannedUnits plan_units(const Device& device, AttentionProblem& problem, index most, const MatrixPlan& numbers) {
  index rows = 1;
  for (const Sequence& s : problem.sequences) rows = std::max(rows, std::min(most, s.queries * problem.group()));
  PlannedUnits planned{units_of(problem, problem.by_chunks ? most : rows), false, numbers};
  planned.hides = problem.hides = hides(problem, planned.units);
  planned.plan.most_rows = most;
  planned.plan.packed = !drains_to_vector(device) && problem.by_chunks;
  planned.plan.tiles = matrix_tiles(device, problem, planned.units, planned.plan);
  return planned;
}

// .. by as many rows as serve best: the more of them, the seldomer K and V are loaded, the longer the tiles, the
// seldomer sums are rescaled. Of a prompt neither depends on its length, as its bits do on the tiles.
PlannedUnits plan_units(const Device& device, AttentionProblem& problem, const MatrixPlan& numbers) {
  PlannedUnits best;
  if (!problem.by_chunks) {
    constexpr index long_enough = 128;
    for (const index most : {index{128}, index{64}, index{32}}) {
      best = plan_units(device, problem, most, numbers);
      if (best.plan.tiles.tokens >= long_enough) break;
    }
    return best;
  }
  double least = 0;
  for (const index most : {index{256}, index{192}, index{128}, index{64}, index{32}}) {
    PlannedUnits planned = plan_units(device, problem, most, numbers);
    const index tokens = planned.plan.tiles.tokens;
    if (tokens == 0) continue;
    const double loads = 2.0 * static_cast<double>(problem.k.dim + problem.v.dim) / static_cast<double>(most);
    const double bytes = loads + 8.0 * static_cast<double>(problem.v.dim) / static_cast<double>(tokens);
    if (least == 0 || bytes < least) best = std::move(planned), least = bytes;
  }
  return best;
}

MatrixPlan plan_numbers(const Device& device, const AttentionProblem& problem, const Choices& choices) {
  const bool exact = choices.activations == NpuActivations::exact, f16_q = problem.q.first.dtype == DType::f16;
  MatrixPlan plan;
  plan.q_pieces = exact && !f16_q ? 2 : 1;
  plan.weight_pieces = exact ? 2 : 1;
  plan.q_as_it_is = loads_as_it_is(device, problem);
  plan.makes_blocks = vector_makes_blocks(device, problem);
  plan.turns_values = vector_turns_values(device, problem);
  const float scale = problem.scale * problem.key_factor;
  const bool plain = !problem.bias.present() && !problem.slopes.present() && problem.softcap == 0 && scale > 0;
  plan.narrow = !exact && problem.by_chunks && plain && device.drain(DType::f32, DType::f16) != nullptr;
  if (plan.narrow && !drains_to_vector(device)) plan.product_type = DType::f16;
  const DrainForm* form = device.drain(DType::f32, plan.narrow ? DType::f16 : DType::f32);
  if (form != nullptr && form->scales != DrainScales::none) plan.drain_scale = scale;
  plan.score_scale = scale / plan.drain_scale;
  if (plan.narrow && f16_q) plan.weight_scale = plan.score_scale;
  return plan;
}

// A body-less program where its tiles do not fit.
Program on_matrix(GlobalMemory& memory, AttentionProblem wanted, const Problem& bounds, const Choices& choices) {
  if (!fits_matrix(memory.device(), wanted)) return {};
  PlannedUnits planned = plan_units(memory.device(), wanted, plan_numbers(memory.device(), wanted, choices));
  MatrixPlan plan = std::move(planned.plan);
  if (plan.tiles.tokens == 0) return {};
  wanted.hides = planned.hides;
  const auto units = std::make_shared<const std::vector<WorkUnit>>(std::move(planned.units));
  const auto count = static_cast<index>(units->size());
  const PartsWorkspace space = parts_workspace(memory, wanted, count, plan.tiles.rows);
  add_workspace(memory, wanted, plan);
  if (!plan.turns_values && blocks_pay(memory.device(), wanted, *units)) plan.cache = cache_blocks(memory, wanted);
  const Launch launch{.cores = cores_for(count, 1, memory.cores())};
  plan.shares = shares_of(*units, launch.cores);
  const auto bounded = [&](std::function<void(Core&)> body) { return Program{std::move(body), bounds, launch}; };
  if (!wanted.hides && !plan.narrow) {
    const auto problem = std::make_shared<const AttentionProblem>(std::move(wanted));
    return bounded([=](Core& core) { attend_on_matrix(core, *problem, *units, space, plan); });
  }
  plan.not_numbers = not_numbers_flags(memory);
  if (!wanted.by_chunks) {
    const Program otherwise = on_vectors(memory, wanted, bounds);
    const auto problem = std::make_shared<const AttentionProblem>(std::move(wanted));
    return bounded([=](Core& core) {
      attend_on_matrix(core, *problem, *units, space, plan);
      if (!sums_are_numbers(core, plan.not_numbers)) otherwise.body(core);
    });
  }
  const VectorTiles tiles = vector_tiles(memory.device(), wanted);
  const auto alone = std::make_shared<const QueriesAlone>(
      queries_alone(memory, wanted, plan, std::min(plan.most_rows, tiles.rows), launch.cores));
  // A query that is alone sees all that it is multiplied with, or rules hide some of it.
  const bool hidden = plan.narrow || !one_rule(wanted);
  const auto problem = std::make_shared<const AttentionProblem>(std::move(wanted));
  return bounded([=](Core& core) {
    const bool numbers = attend_on_matrix(core, *problem, *units, space, plan, alone.get());
    if (!numbers && hidden) attend_on_vectors(core, *problem, not_numbers(core, *alone), {}, tiles);
  });
}

// Compulsory bytes below which a price is not worth its time: the program is the first that fits.
constexpr double priced_from = 2e6;

// Splits that give each core one unit or two, as long as they are worth their merge.
std::vector<index> splits_of(const AttentionProblem& p, const Device& device, std::uint32_t cores) {
  if (p.by_chunks) return {1};
  constexpr index shortest = 256;
  index longest = 1, units = 0;
  for (const Sequence& s : p.sequences) longest = std::max(longest, s.keys), units += s.queries > 0 ? p.kv_heads : 0;
  const index vectors = device.vector_units();
  std::vector<index> splits{1};
  for (const index wanted : {ceil_div(cores, units), ceil_div(2 * cores, units), ceil_div(vectors * cores, units)})
    if (const index most = std::min(wanted, longest / shortest);
        most > 1 && std::find(splits.begin(), splits.end(), most) == splits.end())
      splits.push_back(most);
  return splits;
}

// The quickest by the timing model, whose prices are kept.
AttentionTemplate quickest(GlobalMemory& memory, const BindProblem& bind, const AttentionProblem& problem,
                           const std::string& key, const Choices& choices) {
  const std::vector<AttentionTemplate> all = templates_of(problem, memory.device(), memory.cores());
  AttentionTemplate best = all.front();
  double least = 0;
  for (const AttentionTemplate& by : all) {
    const Program plan = attend_by(memory, problem, choices, by);
    if (!plan.body) continue;
    const auto build = [&](GlobalMemory& other) { return attend_by(other, bind(other), choices, by).body; };
    const PricedProgram priced{.name = key,
                               .sizes = {by.matrix, by.splits, static_cast<index>(choices.activations)},
                               .types = {},
                               .problem = plan.problem,
                               .build = build,
                               .launch = plan.launch};
    const auto price = choices.prices->of(memory.device(), priced);
    if (price && (least == 0 || price->cycles < least)) best = by, least = price->cycles;
  }
  return best;
}

}  // namespace

std::vector<AttentionTemplate> templates_of(const AttentionProblem& problem, const Device& device,
                                            std::uint32_t cores) {
  std::vector<AttentionTemplate> all;
  for (const index splits : splits_of(problem, device, cores))
    for (const bool matrix : {true, false}) all.push_back({matrix, splits});
  return all;
}

Program attend_by(GlobalMemory& memory, AttentionProblem problem, const Choices& choices, const AttentionTemplate& by) {
  const Problem bounds = bounds_of(problem);
  index longest = 1;
  for (const Sequence& s : problem.sequences) longest = std::max(longest, s.keys);
  constexpr index granule = 32;  // tokens: a split starts where a transfer is not cut
  problem.split = round_up(ceil_div(longest, by.splits), granule);
  problem.splits = by.splits;
  return by.matrix ? on_matrix(memory, std::move(problem), bounds, choices)
                   : on_vectors(memory, std::move(problem), bounds);
}

Program attend(GlobalMemory& memory, const BindProblem& bind, const std::string& key, const Choices& choices) {
  const AttentionProblem problem = bind(memory);
  AttentionTemplate by;
  const auto bytes = static_cast<double>(bounds_of(problem).bytes);
  if (!problem.by_chunks && choices.prices != nullptr && bytes >= priced_from) {
    // What is asked only for a price takes no workspace of the caller's.
    PlanningMemory apart(memory.device(), memory.cores());
    by = quickest(apart, bind, bind(apart), key, choices);
  }
  if (Program program = attend_by(memory, problem, choices, by); program.body) return program;
  by.matrix = false;
  return attend_by(memory, problem, choices, by);
}

}  // namespace inlay::npu
