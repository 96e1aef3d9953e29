#include <inlay/exec/plan/plan_cache.hpp>

#include <algorithm>
#include <string>

namespace inlay::exec {

PlanKey PlanKey::of(const BatchViews<Host>& batch, index logit_rows, index first_logit_row) {
  return {.tokens = batch.size(),
          .generated = batch.generated.size(),
          .prompts = batch.prompts.size(),
          .generated_width = batch.generated.block_table.extents[1],
          .prompt_width = batch.prompts.block_table.extents[1],
          .logit_rows = logit_rows,
          .first_logit_row = first_logit_row,
          .names_logit_rows = batch.logit_rows.present()};
}

Status Plan::replay(std::int64_t generation, StepObserver* observer, index piece) const {
  if (generation != generation_)
    return invalid("the plan is of generation " + std::to_string(generation_) + "; it must be of generation " +
                   std::to_string(generation) + ", since when its addresses are others'");
  return replay_(piece, observer);
}

bool PlanCache::takes(const BatchViews<Host>& batch) const {
  return plans_ == Plans::full || plans_ == Plans::piecewise || (plans_ == Plans::decode && batch.prompts.size() == 0);
}

const Plan* PlanCache::find(const PlanKey& key, std::int64_t generation) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.first == key; });
  if (found == entries_.end()) return nullptr;
  if (found->second.generation() != generation) {
    entries_.erase(found);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found);
  ++counts_.replayed;
  return &found->second;
}

const Plan& PlanCache::keep(const PlanKey& key, Plan plan) {
  if (entries_.size() == most) entries_.pop_back();
  entries_.emplace_front(key, std::move(plan));
  ++counts_.captured;
  counts_.pieces += entries_.front().second.pieces();
  return entries_.front().second;
}

}  // namespace inlay::exec
