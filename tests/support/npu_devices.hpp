// The NPU backend on every description that the library brings, on two of its cores at most. Cases take turns with
// the descriptions: the next run of a program starts where the last one stopped. INLAY_SWEEP=whole takes all of them
// for every case, INLAY_SWEEP=cpu none, and INLAY_NPU_MODE=checked proves each run's synchronisation.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/npu.hpp>

#include "tests/support/sanitizers.hpp"

namespace inlay::test {

inline bool is_set(const char* variable, std::string_view value) {
  const char* set = std::getenv(variable);
  return set != nullptr && set == value;
}

inline std::vector<Npu>& npus() {
  static std::vector<Npu> list = [] {
    std::vector<Npu> made;
    for (const std::string_view device : npu_devices()) {
      NpuOptions options{.device = std::string(device)};
      if (is_set("INLAY_NPU_MODE", "checked")) options.mode = NpuMode::checked;
      for (const std::uint32_t cores : {2u, 1u}) {
        options.cores = cores;
        auto npu = Npu::make(options);
        if (!npu) continue;
        made.push_back(std::move(*npu));
        break;
      }
    }
    EXPECT_EQ(made.size(), npu_devices().size());
    return made;
  }();
  return list;
}

inline std::string name(const Npu& npu) {
  const bool checked = npu.options().mode == NpuMode::checked;
  return "npu " + npu.device_name() + (checked ? ", checked" : "");
}

// The one whose turn it is, or all.
#ifdef INLAY_WITHOUT_NPU
template <class Visit> void on_npus_of_this_case(Visit&&) {}
#else
template <class Visit> void on_npus_of_this_case(Visit&& visit) {
  static std::size_t turn = 0;
  if (thread_sanitizer || is_set("INLAY_SWEEP", "cpu")) return;  // there are no threads in it
  if (!is_set("INLAY_SWEEP", "whole")) return (void)visit(npus()[turn++ % npus().size()]);
  for (Npu& npu : npus())
    if (!visit(npu)) return;
}
#endif

}  // namespace inlay::test
