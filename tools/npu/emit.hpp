#pragma once

#include "tools/commands.hpp"

namespace inlay::tools {

// inlay npu emit: an operator's tile program as Ascend C.
void add_npu_emit(CLI::App& group, Command& chosen);

}  // namespace inlay::tools
