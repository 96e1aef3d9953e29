#include "npu_kernels/machine/sites.hpp"

#include <map>
#include <string_view>
#include <tuple>

namespace inlay::npu {

std::vector<std::uint32_t> sites_of(const Tape& tape) {
  // The name's address is quick to compare but not unique: one header may have a name in each object file.
  using Quick = std::tuple<const char*, std::uint_least32_t, std::uint_least32_t>;
  using Exact = std::tuple<std::string_view, std::uint_least32_t, std::uint_least32_t>;
  std::map<Quick, std::uint32_t> quick;
  std::map<Exact, std::uint32_t> exact;
  std::vector<std::uint32_t> sites;
  sites.reserve(tape.entries.size());
  for (const Entry& entry : tape.entries) {
    const auto& site = entry.site;
    const auto [known, fresh] = quick.try_emplace({site.file_name(), site.line(), site.column()}, 0);
    if (fresh)
      known->second =
          exact.try_emplace({site.file_name(), site.line(), site.column()}, static_cast<std::uint32_t>(exact.size()))
              .first->second;
    sites.push_back(known->second);
  }
  return sites;
}

}  // namespace inlay::npu
