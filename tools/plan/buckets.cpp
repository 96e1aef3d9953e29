#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <inlay/exec/buckets.hpp>

#include "tools/plan/plan.hpp"
#include "tools/plan/planned_model.hpp"
#include "tools/session.hpp"

namespace inlay::tools {
namespace {

void print(const char* what, std::span<const index> buckets, std::span<const exec::LengthCount> lengths) {
  const exec::BucketUse use = exec::use_of(buckets, lengths);
  std::printf("%-15s %4zu sizes, %ld padded tokens (%.1f%% of what runs), %.1f%% of steps eager\n ", what,
              buckets.size(), static_cast<long>(use.padding), 100 * use.padded_share(), 100 * use.eager_share());
  for (const index size : buckets) std::printf(" %ld", static_cast<long>(size));
  std::printf("\n");
}

}  // namespace

int plan_buckets(const PlanOptions& options) {
  if (options.lengths.empty()) return wrong("--buckets needs --lengths FILE");
  const auto text = read_option("--lengths", options.lengths);
  if (!text) return wrong(text.error());
  const auto lengths = exec::parse_lengths(*text);
  if (!lengths) return wrong(lengths.error());
  const auto config = planned_config(options.model);
  if (!config) return wrong(config.error());
  const exec::AscendPlanLimits limits{
      .layers = config->layers, .domains = options.domains, .unfolded = options.unfolded};
  const index most = exec::ascend_max_buckets(limits), count = options.count > 0 ? options.count : most;
  std::printf("%ld layers in %ld pieces, %ld communication domains: Ascend's streams allow plans of %ld sizes\n",
              static_cast<long>(limits.layers), static_cast<long>(exec::pieces_of(limits.layers)),
              static_cast<long>(limits.domains), static_cast<long>(most));
  print("Ascend's", exec::sampled_buckets(exec::default_buckets(options.largest), count), *lengths);
  print("padding least", exec::best_buckets(*lengths, count, options.largest), *lengths);
  return 0;
}

}  // namespace inlay::tools
