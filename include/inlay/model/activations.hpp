// What the linears of a model multiply with.
#pragma once

namespace inlay::exec {

// What linears multiply with.
//   exact  x as it is
//   int8   codes of 4 to 8 bits: x rounded to 8 bits with a scale for each group of inputs (integer dot products:
//          W4Compute of linear_w4a16). The reference backend rounds nothing: its linear_w4a16 is exact.
//   bf16   floats: x and the weight rounded to bf16 (LinearCompute of linear)
// Other weights run as under exact. int8 with a scale for each channel (W8A8) always rounds x.
enum class Activations : unsigned char { exact, int8, bf16 };

}  // namespace inlay::exec
