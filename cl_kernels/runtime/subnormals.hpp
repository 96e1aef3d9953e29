// Codes as subnormal floats spare a conversion each (linear/w4_per_item.clh), where the device's processor does not
// call microcode for them.
#pragma once

namespace inlay::cl {

class Runtime;

// Is fma right with a subnormal factor on this device, and does it take no longer than with any other? No flag of a
// device tells the second, so it is measured: Zen 4 does not notice them, others take a hundred times as long.
bool has_fast_subnormals(Runtime& runtime);

}  // namespace inlay::cl
