// inlay devices: backends, instruction sets and threads of this machine.
#include <cstdio>

#include <inlay/cpu.hpp>
#include <inlay/npu.hpp>

#include "tools/commands.hpp"

#ifdef INLAY_HAS_CL
#include <inlay/cl.hpp>
#endif

namespace inlay::tools {

namespace {

#ifdef INLAY_HAS_CL
void print_opencl() {
  const auto devices = cl_devices();
  if (!devices) {
    std::printf("cl         %s\n", std::string(devices.error().message()).c_str());
    return;
  }
  const auto chosen = Cl::make();
  constexpr double mib = 1024 * 1024;
  for (const ClDevice& d : *devices) {
    const bool is_chosen = chosen && chosen->device().name == d.name && chosen->device().platform == d.platform;
    std::printf("cl         %s%s, %s (%s), driver %s\n", d.name.c_str(), is_chosen ? "*" : "", d.platform.c_str(),
                d.vendor.c_str(), d.driver.c_str());
    std::printf(
        "           %s, %s shape, %zu units, groups of %zu, %.0f KiB local, %.0f MiB in all, %.0f MiB a buffer%s\n",
        d.language.c_str(), d.is_cpu ? "cpu" : "gpu", d.compute_units, d.max_work_group,
        static_cast<double>(d.local_bytes) / 1024, static_cast<double>(d.global_bytes) / mib,
        static_cast<double>(d.max_allocation) / mib, d.shares_memory ? ", the host's memory" : "");
  }
  if (chosen) std::printf("           tuning: %s\n", chosen->tuning().c_str());
  if (!chosen) std::printf("           none is usable: %s\n", std::string(chosen.error().message()).c_str());
}

#endif

// Descriptions, not devices of this machine.
void print_npus() {
  const auto chosen = Npu::make();
  std::printf("npu        modelled (chosen: *):");
  for (const std::string_view name : npu_devices())
    std::printf(" %s%s", std::string(name).c_str(), chosen && chosen->device_name() == name ? "*" : "");
  std::printf("\n");
  if (!chosen) std::printf("           none is usable: %s\n", std::string(chosen.error().message()).c_str());
}

}  // namespace

void add_devices(CLI::App& app, Command& chosen) {
  app.add_subcommand("devices", "Backends, instruction sets and threads of this machine")->callback([&chosen] {
    chosen = [] {
      const Cpu cpu;
      std::printf("reference  scalar, in double, 1 thread\n");
      std::printf("cpu        %d threads; ISA levels (chosen: *):", cpu.parallel().width);
      for (Isa isa : available_isas())
        std::printf(" %s%s", std::string(name(isa)).c_str(), isa == cpu.isa() ? "*" : "");
      std::printf("\n");
#ifdef INLAY_HAS_CL
      print_opencl();
#endif
      print_npus();
      return 0;
    };
  });
}

}  // namespace inlay::tools
