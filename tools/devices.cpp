// inlay devices: backends, instruction sets and threads of this machine.
#include <cstdio>

#include <inlay/cpu.hpp>

#include "tools/commands.hpp"

namespace inlay::tools {

void add_devices(CLI::App& app, Command& chosen) {
  app.add_subcommand("devices", "Backends, instruction sets and threads of this machine")->callback([&chosen] {
    chosen = [] {
      const Cpu cpu;
      std::printf("reference  scalar, in double, 1 thread\n");
      std::printf("cpu        %d threads; ISA levels (chosen: *):", cpu.parallel().width);
      for (Isa isa : available_isas())
        std::printf(" %s%s", std::string(name(isa)).c_str(), isa == cpu.isa() ? "*" : "");
      std::printf("\n");
      return 0;
    };
  });
}

}  // namespace inlay::tools
