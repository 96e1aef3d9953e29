#include <inlay/exec/schedule/cut_rows.hpp>

#include <string>
#include <utility>

namespace inlay::exec {
namespace {

Status refused(std::size_t cut, const std::string& what) { return invalid("cuts[" + std::to_string(cut) + "]" + what); }

Status check(const StepGraph& graph, std::span<const RowCut> cuts) {
  index before = -1;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const RowCut& cut = cuts[i];
    if (cut.step <= before || cut.step >= graph.size())
      return refused(i, ".step is " + std::to_string(cut.step) + "; it must be in " + std::to_string(before + 1) +
                            ".." + std::to_string(graph.size() - 1));
    const GraphStep& step = graph.steps()[static_cast<std::size_t>(cut.step)];
    if (!step.has_channels())
      return refused(i, ".step is " + std::to_string(cut.step) + ", " + std::string(step.name) +
                            "; it must be a linear of one weight for all rows");
    if (cut.at <= 0 || cut.at >= step.width || cut.at % channel_panel != 0)
      return refused(i, ".at is " + std::to_string(cut.at) + "; it must be a multiple of " +
                            std::to_string(channel_panel) + " in 1.." + std::to_string(step.width - 1));
    before = cut.step;
  }
  return {};
}

}  // namespace

Status cut_rows(StepGraph& graph, std::vector<std::size_t>& placement, std::span<const RowCut> cuts) {
  if (std::ssize(placement) != graph.size())
    return invalid("placement has " + std::to_string(placement.size()) + " entries; it must have " +
                   std::to_string(graph.size()) + ", one for each step");
  if (Status status = check(graph, cuts); !status.ok()) return status;
  StepGraph rewritten;
  std::vector<std::size_t> placed;
  auto cut = cuts.begin();
  for (index i = 0; i < graph.size(); ++i) {
    const GraphStep& step = std::as_const(graph).steps()[static_cast<std::size_t>(i)];
    placed.push_back(placement[static_cast<std::size_t>(i)]);
    if (cut == cuts.end() || cut->step != i) {
      rewritten.add(step);
      continue;
    }
    rewritten.add(step.channels(0, cut->at));
    rewritten.add(step.channels(cut->at, step.width - cut->at));
    placed.push_back(cut->device);
    ++cut;
  }
  graph = std::move(rewritten);
  placement = std::move(placed);
  return {};
}

}  // namespace inlay::exec
