#include "executor/model/input_cut.hpp"

#include <cstring>
#include <utility>
#include <variant>

namespace inlay::exec {

namespace {

// Steps of some inputs each, as they lie in every panel.
struct Steps {
  index first, count;
};
Steps steps_of(const InputRange& own, index inputs_a_step) {
  const index first = own.first / inputs_a_step;
  return {first, (own.first + own.count + inputs_a_step - 1) / inputs_a_step - first};
}

// | panel: steps of `bytes` each | panel: .. |
void copy_steps(const void* from, index all, void* to, const Steps& own, index panels, std::size_t bytes) {
  const auto of = [&](index steps) { return static_cast<std::size_t>(steps) * bytes; };
  for (index panel = 0; panel < panels; ++panel)
    std::memcpy(static_cast<std::byte*>(to) + of(panel * own.count),
                static_cast<const std::byte*>(from) + of(panel * all + own.first), of(own.count));
}

Expected<OwnedTensor<3>> steps_of(const OwnedTensor<3>& whole, const Steps& own) {
  const ConstView<3> all = whole;
  auto part = OwnedTensor<3>::make(all.dtype, {all.extents[0], own.count, all.extents[2]});
  if (part)
    copy_steps(all.data, all.extents[1], part->view().data, own, all.extents[0],
               static_cast<std::size_t>(byte_size(all.dtype, all.extents[2])));
  return part;
}

Expected<LinearWeight> cut(const LinearWeight::Float& whole, index channels, const InputRange& own,
                           const std::string&) {
  auto packed = steps_of(whole.packed, steps_of(own, linear_interleave(whole.packed.view().dtype)));
  if (!packed) return failure(std::move(packed.error()));
  return LinearWeight(channels, LinearWeight::Float{std::move(*packed)});
}

Expected<LinearWeight> cut(const LinearWeight::Int8& whole, index channels, const InputRange& own, const std::string&) {
  using linear_int8::group, linear_int8::line, linear_int8::panel;
  auto packed = steps_of(whole.packed, steps_of(own, group));
  if (!packed) return failure(std::move(packed.error()));
  auto sums = OwnedTensor<1>::make(DType::i32, {channels});
  if (!sums) return failure(std::move(sums.error()));
  auto scales = OwnedTensor<1>::make(DType::f32, {channels});
  if (!scales) return failure(std::move(scales.error()));
  std::memcpy(scales->view().data, ConstView<1>(whole.scales).data, scales->bytes());
  const ConstView<3> lines = *packed;
  for (index o = 0; o < channels; ++o) {
    const std::int8_t* at = lines.as<std::int8_t>() + o / panel * lines.strides[0] + o % panel * group;
    std::int32_t sum = 0;
    for (index step = 0; step < lines.extents[1]; ++step)
      for (index i = 0; i < group; ++i) sum += at[step * line + i];  // inputs beyond the last are 0
    sums->view().as<std::int32_t>()[o] = sum;
  }
  return LinearWeight(channels, LinearWeight::Int8{std::move(*packed), std::move(*sums), std::move(*scales)});
}

// Scales or offsets as f32, which holds them exactly, in place of whole numbers and their units.
AlignedBytes in_f32(const PackedW4& whole, float (PackedW4::*of)(index channel, index group) const) {
  return inlay::detail::pack_per_group(whole, DType::f32, serial(),
                                       [&](index o, index g) { return (whole.*of)(o, g); });
}

Expected<LinearWeight> cut(const PackedW4& whole, index channels, const InputRange& own, const std::string& name) {
  const auto refused = [&](const std::string& what) {
    return failure(unsupported("the tensor " + name + " " + what + "; the cut must be columns"));
  };
  if (!whole.perm.empty())
    return refused("has its inputs in an order of its own (act-order), which is not cut by rows");
  const index group = whole.group == 0 ? own.all : whole.group, end = own.first + own.count;
  const auto cut_at = [&](index inputs) {  // first or end, if they are not cut there
    for (const index at : {own.first, end})
      if (at % inputs != 0 && at != own.all) return at;
    return index{-1};
  };
  if (const index at = whole.group == 0 ? -1 : cut_at(group); at >= 0)
    return refused("has groups of " + std::to_string(group) + " inputs, and a rank's would begin or end at " +
                   std::to_string(at) + " of " + std::to_string(own.all));
  PackedW4 part = whole.without_panels();
  part.k = part.slots = own.count;
  const index panels = w4_panels(whole.n);
  const auto take = [&](const AlignedBytes& from, AlignedBytes& to, index all, const Steps& steps) {
    if (from.size() == 0) return;
    const std::size_t bytes = from.size() / static_cast<std::size_t>(panels * all);
    to = AlignedBytes(bytes * static_cast<std::size_t>(panels * steps.count));
    copy_steps(from.data(), all, to.data(), steps, panels, bytes);
  };
  const Steps groups = whole.group == 0 ? Steps{0, 1} : steps_of(own, group), blocks = steps_of(own, w4_super_block);
  take(whole.codes, part.codes, w4_steps(whole.slots, whole.bits), steps_of(own, w4_step_slots(whole.bits)));
  take(whole.zeros, part.zeros, whole.groups(), groups);
  if (whole.super_scales.size() != 0 && cut_at(w4_super_block) >= 0) {
    part.scale_type = DType::f32;
    take(in_f32(whole, &PackedW4::scale), part.scales, whole.groups(), groups);
    if (whole.offsets.size() != 0) take(in_f32(whole, &PackedW4::offset), part.offsets, whole.groups(), groups);
  } else {
    take(whole.scales, part.scales, whole.groups(), groups);
    take(whole.offsets, part.offsets, whole.groups(), groups);
    take(whole.super_scales, part.super_scales, w4_super_blocks(whole.slots), blocks);
    take(whole.super_offsets, part.super_offsets, w4_super_blocks(whole.slots), blocks);
  }
  return LinearWeight(channels, std::move(part));
}

}  // namespace

Expected<LinearWeight> inputs_of(const LinearWeight& whole, const InputRange& own, const std::string& name) {
  return std::visit([&](const auto& all) { return cut(all, whole.channels(), own, name); }, whole.form());
}

}  // namespace inlay::exec
