#include <inlay/exec/schedule/cut_linears.hpp>

#include <string>
#include <utility>

namespace inlay::exec {
namespace {

std::string number(index value) { return std::to_string(value); }

// `first` .. of `count`, of `all` there are.
bool is_within(index first, index count, index all) { return 0 <= first && 0 < count && count <= all - first; }

Status check(const LinearCut& cut, const GraphStep& step, const std::string& name) {
  index elements = 0;
  for (std::size_t i = 0; i < cut.parts.size(); ++i) {
    const LinearPart& part = cut.parts[i].part;
    const std::string place = name + ".parts[" + std::to_string(i) + "]";
    if (!is_within(part.token, part.tokens, step.rows))
      return invalid(place + " has tokens " + number(part.token) + " and " + number(part.tokens) +
                     " more; they must be of the " + number(step.rows) + " of the step");
    if (!is_within(part.channel, part.channels, step.width) || part.channel % channel_panel != 0)
      return invalid(place + " has channels " + number(part.channel) + " and " + number(part.channels) +
                     " more; they must be of the " + number(step.width) + " of the step and begin at a multiple of " +
                     number(channel_panel));
    for (std::size_t before = 0; before < i; ++before)
      if (part.overlaps(cut.parts[before].part))
        return invalid(place + " has elements of parts[" + std::to_string(before) + "]; it must have its own");
    elements += part.elements();
  }
  if (elements != step.rows * step.width)
    return invalid(name + " has parts of " + number(elements) + " elements; they must have all " +
                   number(step.rows * step.width));
  return {};
}

Status check(const StepGraph& graph, std::span<const LinearCut> cuts) {
  index before = -1;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const LinearCut& cut = cuts[i];
    const std::string name = "cuts[" + std::to_string(i) + "]";
    if (cut.step <= before || cut.step >= graph.size())
      return invalid(name + ".step is " + number(cut.step) + "; it must be in " + number(before + 1) + ".." +
                     number(graph.size() - 1));
    const GraphStep& step = graph.steps()[static_cast<std::size_t>(cut.step)];
    if (!step.has_parts())
      return invalid(name + ".step is " + number(cut.step) + ", " + std::string(step.name) +
                     "; it must be a linear of one weight for all tokens");
    if (Status status = check(cut, step, name); !status.ok()) return status;
    before = cut.step;
  }
  return {};
}

}  // namespace

Status cut_linears(StepGraph& graph, std::vector<std::size_t>& placement, std::span<const LinearCut> cuts) {
  if (std::ssize(placement) != graph.size())
    return invalid("placement has " + std::to_string(placement.size()) + " entries; it must have " +
                   number(graph.size()) + ", one for each step");
  if (Status status = check(graph, cuts); !status.ok()) return status;
  StepGraph rewritten;
  std::vector<std::size_t> placed;
  auto cut = cuts.begin();
  for (index i = 0; i < graph.size(); ++i) {
    const GraphStep& step = std::as_const(graph).steps()[static_cast<std::size_t>(i)];
    if (cut == cuts.end() || cut->step != i) {
      rewritten.add(step);
      placed.push_back(placement[static_cast<std::size_t>(i)]);
      continue;
    }
    for (const PlacedPart& each : cut->parts) {
      rewritten.add(step.part(each.part));
      placed.push_back(each.device);
    }
    ++cut;
  }
  graph = std::move(rewritten);
  placement = std::move(placed);
  return {};
}

}  // namespace inlay::exec
