// --ranks: a command on rank 0, while the others compute along: threads of this program, or the processes that mpirun
// has started.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

#include "tools/session.hpp"

namespace inlay::tools {

// Of those that compute one model: how many, and what each has of it.
void add_ranks(CLI::App& command, std::string& ranks, std::string& cut);

// The exit code: the command's, which rank 0 runs with the comm of these options. `follow` is what the others do.
int with_ranks(const ModelOptions& options, const std::function<int(const ModelOptions&)>& command,
               const std::function<Status(const ModelOptions&)>& follow);

}  // namespace inlay::tools
