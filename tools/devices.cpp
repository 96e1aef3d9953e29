// inlay devices: backends, instruction sets and threads of this machine.
#include <cstdio>

#include <inlay/cpu.hpp>
#ifdef INLAY_HAS_NPU
#include <inlay/npu.hpp>
#endif

#include "tools/commands.hpp"

#ifdef INLAY_HAS_CL
#include "tools/cl_devices.hpp"
#endif

namespace inlay::tools {

#ifdef INLAY_HAS_NPU
namespace {

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
#endif

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
#ifdef INLAY_HAS_NPU
      print_npus();
#endif
      return 0;
    };
  });
}

}  // namespace inlay::tools
