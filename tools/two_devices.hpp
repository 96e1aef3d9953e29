// --backend cpu+cl, cpu+npu: what `make(run)` makes of two devices at once; of one, of an Eager.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <inlay/exec/device/side_by_side.hpp>
#include <inlay/exec/eager.hpp>
#ifdef INLAY_HAS_CL
#include <inlay/exec/device/cl_over_host.hpp>
#endif

#include "tools/session.hpp"

namespace inlay::tools {

// --place, --split, --devices, --outliers, --fast-sync and --watchdog
void add_place(CLI::App& command, ModelOptions& options);
// What the file of --devices describes, or nothing where none is named.
Expected<std::optional<exec::DeviceList>> read_devices(const ModelOptions& options);
// Those options are of two devices alone.
Status check_of_two(const ModelOptions& options);

template <class Second>
exec::SideBySide<Second> side_by_side(const ModelOptions& options, Cpu cpu, Second second,
                                      std::optional<exec::DeviceList> devices, index chunks) {
  return {.cpu = std::move(cpu),
          .second = std::move(second),
          .place = options.place,
          .split = options.split,
          .devices = std::move(devices),
          .outliers_apart = options.outliers == "cpu",
          .chunks = chunks,
          .waiting = options.fast_sync ? exec::Waiting::fast : exec::Waiting::woken,
          .watchdog_seconds = options.watchdog > 0 ? options.watchdog : INFINITY};
}

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
  auto devices = read_devices(options);
  if (!devices) return failure(std::move(devices.error()));
#ifdef INLAY_HAS_CL
  if (backend == "cpu+cl") {
    auto cl = Cl::make({.device = options.device});
    if (!cl) return failure(std::move(cl.error()));
    return make(side_by_side(options, std::move(*cpu), exec::ClOverHost(std::move(*cl)), std::move(*devices), chunks));
  }
#endif
#ifdef INLAY_HAS_NPU
  if (backend == "cpu+npu") {
    const NpuActivations activations = options.rounding.f16_on_npu() ? NpuActivations::f16 : NpuActivations::exact;
    auto npu = Npu::make({.device = options.device, .activations = activations});
    if (!npu) return failure(std::move(npu.error()));
    return make(side_by_side(options, std::move(*cpu), std::move(*npu), std::move(*devices), chunks));
  }
#endif
  return failure(unsupported("--backend is " + backend + ", which this build was made without: see inlay devices"));
}

}  // namespace inlay::tools
