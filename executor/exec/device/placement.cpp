#include <inlay/exec/device/placement.hpp>

#include <charconv>

namespace inlay::exec {
namespace {

Status refused(std::string_view word, std::string must) {
  return invalid("place has '" + std::string(word) + "'; it must " + std::move(must));
}

// A whole number of the text, and what stands behind it.
bool take_number(std::string_view& text, index& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

Expected<Placement::Rule> Placement::rule(std::string_view word, std::string_view second, index layers) {
  const std::size_t equals = word.find('=');
  if (equals == word.npos) return failure(refused(word, "be WHAT=DEVICE"));
  const std::string_view device = word.substr(equals + 1);
  std::string_view what = word.substr(0, equals);
  if (device != second && device != "cpu")
    return failure(refused(word, "name cpu or " + std::string(second) + " as the device"));
  Rule made{.what = Rule::What::all, .second = device == second};
  if (what == "all") return made;
  if (what == "linears") {
    made.what = Rule::What::linears;
  } else if (what == "attention") {
    made.what = Rule::What::attention;
  } else if (what.starts_with("layers:")) {
    made.what = Rule::What::layers;
    what.remove_prefix(7);
    bool right = take_number(what, made.first);
    made.last = made.first;
    if (right && what.starts_with('-')) {
      what.remove_prefix(1);
      right = take_number(what, made.last);
    }
    if (!right || !what.empty() || made.first > made.last || made.last >= layers)
      return failure(refused(word, "be layers:FIRST-LAST=DEVICE, in 0.." + std::to_string(layers - 1)));
  } else {
    return failure(refused(word, "name all, linears, attention or layers:FIRST-LAST"));
  }
  return made;
}

Expected<Placement> Placement::parse(std::string_view words, std::string_view second, index layers) {
  Placement placement;
  for (;;) {
    const std::size_t comma = words.find(',');
    auto made = rule(words.substr(0, comma), second, layers);
    if (!made) return failure(std::move(made.error()));
    placement.rules_.push_back(*made);
    if (comma == words.npos) return placement;
    words.remove_prefix(comma + 1);
  }
}

bool Placement::is_second(const GraphStep& step) const {
  bool second = false;
  for (const Rule& rule : rules_) {
    bool named = true;
    switch (rule.what) {
      case Rule::What::all: break;
      case Rule::What::linears: named = step.name.starts_with("linear"); break;
      case Rule::What::attention: named = step.name.ends_with("attention"); break;
      case Rule::What::layers: named = rule.first <= step.layer && step.layer <= rule.last; break;
    }
    if (named) second = rule.second;
  }
  return second;
}

}  // namespace inlay::exec
