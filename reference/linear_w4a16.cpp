#include <inlay/ops/linear_w4a16.hpp>

#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

#include "reference/experts.hpp"

namespace inlay::reference {

namespace {

int code(const LinearW4a16<Host>& op, index panel, index c, index slot) {
  const index of_step = w4_step_slots(op.bits), j = slot % of_step, upper_bits = op.bits == 8 ? 0 : op.bits - 4;
  const auto* step = op.codes.as<std::uint8_t>() + offset(op.codes, panel, slot / of_step, 0);
  if (op.bits == 8) return step[4 * c + j];
  const int lower = step[4 * c + j / 2] >> 4 * (j % 2) & 15;
  if (upper_bits == 0) return lower;
  const index place = w4_upper_place(op.bits, j);
  const int upper = step[4 * w4_panel + c * upper_bits + place / 8] >> place % 8 & ((1 << upper_bits) - 1);
  return upper << 4 | lower;
}

// Of channel c of a panel.
double weight(const LinearW4a16<Host>& op, index panel, index c, index slot) {
  const index g = op.group == 0 ? 0 : slot / op.group;
  const index named = code(op, panel, c, slot);
  const auto in_units = [&](const ConstView<3>& of_groups, const ConstView<3>& units) {
    return at(of_groups, panel, g, c) * (units.present() ? at(units, panel, slot / w4_super_block, c) : 1);
  };
  const double q = static_cast<double>(named), scale = in_units(op.scales, op.super_scales);
  if (op.codebook.present()) return at(op.codebook, named) * scale;
  if (op.offsets.present()) return q * scale + in_units(op.offsets, op.super_offsets);
  return (q - (op.zeros.present() ? at(op.zeros, panel, g, c) : 1 << (op.bits - 1))) * scale;
}

}  // namespace

// int8_activations is a way to compute, not another result: the textbook is the same.
template <> Status compute(const LinearW4a16<Host>& op) {
  // Over slots and not over inputs: what no slot names is never read.
  std::vector<double> row(static_cast<std::size_t>(op.slots()));
  const index channels = op.y.extents[1], panels = w4_panels(channels);
  for_each_expert(op, [&](index expert, index first, index end) {
    for (index n = 0; n < channels; ++n) {
      for (index s = 0; s < op.slots(); ++s)
        row[static_cast<std::size_t>(s)] = weight(op, expert * panels + n / w4_panel, n % w4_panel, s);
      for (index t = first; t < end; ++t) {
        double sum = op.bias.present() ? at(op.bias, expert * channels + n) : 0;
        for (index s = 0; s < op.slots(); ++s) {
          const index input = op.perm.present() ? static_cast<index>(at(op.perm, s)) : s;
          sum += (input >= 0 ? at(op.x, t, input) : 0) * row[static_cast<std::size_t>(s)];
        }
        put(op.y, t, n, sum);
      }
    }
  });
  return {};
}

}  // namespace inlay::reference
