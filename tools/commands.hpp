// The subcommands of `inlay`. Each adds its options to the application and leaves its work in a
// callback that returns the exit code: 0 done, 1 a check failed, 2 wrong input.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace inlay::tools {

using Command = std::function<int()>;

void add_run(CLI::App& app, Command& chosen);
void add_eval(CLI::App& app, Command& chosen);
void add_logits(CLI::App& app, Command& chosen);
void add_inspect(CLI::App& app, Command& chosen);
void add_devices(CLI::App& app, Command& chosen);
void add_plan(CLI::App& app, Command& chosen);
void add_profile(CLI::App& app, Command& chosen);
void add_calibrate(CLI::App& app, Command& chosen);
void add_simulate(CLI::App& app, Command& chosen);
void add_convert(CLI::App& app, Command& chosen);
void add_verify(CLI::App& app, Command& chosen);
void add_bench(CLI::App& app, Command& chosen);
void add_bench_contention(CLI::App& group, Command& chosen);  // group: `inlay bench`
void add_bench_serve(CLI::App& group, Command& chosen);
void add_npu(CLI::App& app, Command& chosen);    // with the NPU only
void add_serve(CLI::App& app, Command& chosen);  // with cpp-httplib only
void add_tune(CLI::App& app, Command& chosen);   // with OpenCL only

}  // namespace inlay::tools
