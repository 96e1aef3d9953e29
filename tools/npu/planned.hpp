// An operator as the Npu that options name would run it: what `inlay npu` and its fits read times from.
#pragma once

#include <string>

#include <inlay/npu.hpp>

#include "npu_kernels/backend/plan.hpp"
#include "tile_machine/device/device.hpp"
#include "tile_machine/run/verb_log.hpp"

namespace inlay::tools {

struct Planned {
  npu::Device device;  // with the cores that it may use
  npu::Plan plan;
};

// Errors: no operator of this name (with those that there are), a wrong shape, what Npu::make and the backend refuse.
Expected<Planned> plan_of(const NpuOptions& options, const std::string& op, const std::string& shape,
                          npu::VerbLog* verbs = nullptr);

}  // namespace inlay::tools
