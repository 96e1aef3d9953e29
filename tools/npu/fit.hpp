// inlay npu fit: a description with figures from logs of a device (docs/npu_fit.md).
#pragma once

#include <CLI/CLI.hpp>

#include "tools/commands.hpp"

namespace inlay::tools {

void add_npu_fit(CLI::App& npu, Command& chosen);  // npu: `inlay npu`

}  // namespace inlay::tools
