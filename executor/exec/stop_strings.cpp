#include <inlay/exec/stop_strings.hpp>

#include <algorithm>
#include <utility>

namespace inlay::exec {

Expected<StopStrings> StopStrings::make(std::vector<std::string> strings) {
  for (const std::string& each : strings)
    if (each.empty()) return failure(invalid("a stop string is ''; it must have a character"));
  std::stable_sort(strings.begin(), strings.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  return StopStrings(std::move(strings));
}

std::string StopStrings::push(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (stopped_) break;
    held_ += c;
    for (const std::string& each : strings_)
      if (held_.ends_with(each)) {
        out.append(held_, 0, held_.size() - each.size());
        held_.clear();
        stopped_ = true;
        return out;
      }
    // The longest end of the text that some string begins with stays.
    std::size_t kept = 0;
    for (const std::string& each : strings_)
      for (std::size_t length = std::min(each.size() - 1, held_.size()); length > kept; --length)
        if (held_.ends_with(std::string_view(each).substr(0, length))) kept = length;
    out.append(held_, 0, held_.size() - kept);
    held_.erase(0, held_.size() - kept);
  }
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace inlay::exec
