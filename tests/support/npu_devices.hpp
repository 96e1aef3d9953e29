// The NPU backend on every description that the library brings, on two of its cores at most, by turns (turns.hpp).
// INLAY_NPU_MODE=checked proves each run's synchronisation.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include <inlay/npu.hpp>

#include "tests/support/turns.hpp"

namespace inlay::test {

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

inline Turns npu_turns;

}  // namespace inlay::test
