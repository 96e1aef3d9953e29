#include "tile_machine/events/sites.hpp"

namespace inlay::npu {

std::string line_of(const SourceLocation& site) {
  const std::string_view path = site.file_name();
  const std::size_t slash = path.find_last_of('/');
  std::string result(slash == std::string_view::npos ? path : path.substr(slash + 1));
  result += ':';
  result += std::to_string(site.line());
  return result;
}

std::uint32_t Sites::number(const SourceLocation& site) {
  const auto [known, fresh] = quick_.try_emplace({site.file_name(), site.line(), site.column()}, 0);
  if (fresh)
    known->second =
        exact_.try_emplace({site.file_name(), site.line(), site.column()}, static_cast<std::uint32_t>(exact_.size()))
            .first->second;
  return known->second;
}

std::vector<std::uint32_t> sites_of(const EventLog& log) {
  Sites sites;
  std::vector<std::uint32_t> numbers;
  numbers.reserve(log.entries.size());
  for (const Entry& entry : log.entries) numbers.push_back(sites.number(entry.site));
  return numbers;
}

}  // namespace inlay::npu
