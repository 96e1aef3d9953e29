// inlay npu check: the log that somebody's kernel left (include/inlay/npu_log.h), checked and timed on a described
// device.
#pragma once

#include "tools/commands.hpp"

namespace inlay::tools {

void add_npu_check(CLI::App& group, Command& chosen);  // group: `inlay npu`

}  // namespace inlay::tools
