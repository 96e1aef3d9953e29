// --backend cpu+cl, cpu+npu: what `make(run)` makes of two devices at once; of one, of an Eager.
#pragma once

#include <string>
#include <utility>

#include <inlay/exec/device/side_by_side.hpp>
#include <inlay/exec/eager.hpp>
#ifdef INLAY_HAS_CL
#include <inlay/exec/device/cl_over_host.hpp>
#endif

#include "tools/session.hpp"

namespace inlay::tools {

// `chunks`: of a prompt, under way at once on two devices.
template <class Made, class Make>
Expected<Made> on_devices(const ModelOptions& options, const std::string& backend, [[maybe_unused]] index chunks,
                          Make&& make) {
  if (backend.find('+') == backend.npos) {
    auto runner = make_runner(options, backend);
    if (!runner) return failure(std::move(runner.error()));
    return make(std::move(*runner));
  }
  auto cpu = make_cpu(options.isa, options.threads, options.pool);
  if (!cpu) return failure(std::move(cpu.error()));
#ifdef INLAY_HAS_CL
  if (backend == "cpu+cl") {
    auto cl = Cl::make({.device = options.device});
    if (!cl) return failure(std::move(cl.error()));
    return make(exec::SideBySide<exec::ClOverHost>{
        .cpu = std::move(*cpu), .second = exec::ClOverHost(std::move(*cl)), .place = options.place, .chunks = chunks});
  }
#endif
#ifdef INLAY_HAS_NPU
  if (backend == "cpu+npu") {
    const NpuActivations activations = options.rounding.f16_on_npu() ? NpuActivations::f16 : NpuActivations::exact;
    auto npu = Npu::make({.device = options.device, .activations = activations});
    if (!npu) return failure(std::move(npu.error()));
    return make(exec::SideBySide<Npu>{
        .cpu = std::move(*cpu), .second = std::move(*npu), .place = options.place, .chunks = chunks});
  }
#endif
  return failure(unsupported("--backend is " + backend + ", which this build was made without: see inlay devices"));
}

}  // namespace inlay::tools
