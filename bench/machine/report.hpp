// Timing of a worked tile program on the devices of devices/: cycles of the model, not seconds.
#pragma once

#include <string_view>

namespace inlay::npu::bench {

// main() of bench_machine_<program>: one line for each case of measure/machine_cases.hpp, or with
// INLAY_BENCH_SHORT=1 for one.
//   --device NAME    only this one
//   --dtype NAME     only this one
//   --cores N        at most so many of the device
//   --summary        bounds, stalls and critical path of each
//   --trace FILE     the last case that was run, for ui.perfetto.dev
int report(std::string_view program, int argc, char** argv);

}  // namespace inlay::npu::bench
