#include "npu_kernels/linear/packed_blocks.hpp"

#include <inlay/core/workspace.hpp>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

index channels_of(const RowSource& weight) {
  return weight.packed() ? weight.panels.extent(0) * panel_rows : weight.count;
}
index inputs_of(const RowSource& weight) {
  return weight.packed() ? weight.panels.extent(1) * weight.per_word() : weight.depth;
}

}  // namespace

Packing packing_of(const RowSource& weight, const BlockForm& form, const Device& device,
                   std::function<RowSource(GlobalMemory&)> bind) {
  const index channels = channels_of(weight);
  const index elements = round_up(weight.depth, device.fractal_block(form.unit)) * channels;
  const std::size_t bytes = form.parts * WorkspaceCutter::padded<std::byte>(byte_size(form.unit, elements)) +
                            (form.scaled ? WorkspaceCutter::padded<float>(channels) : 0);
  const auto lay_out = [form, channels, bind = std::move(bind)](GlobalMemory& memory, std::byte* to) {
    RowSource source = bind(memory);
    source.count = channels;
    source.depth = inputs_of(source);
    const SplitF16 blocks = packed_blocks(memory, source, form, to, Use::out);
    return Program{.body = [=](Core& core) { make_halves(core, source, blocks); },
                   .launch = {.cores = cores_for(ceil_div(channels, panel_rows), 1, memory.cores())}};
  };
  return {.bytes = bytes, .lay_out = lay_out};
}

SplitF16 packed_blocks(GlobalMemory& memory, const RowSource& weight, const BlockForm& form, std::byte* at, Use use) {
  const index block = memory.device().fractal_block(form.unit), channels = channels_of(weight);
  const index blocks = ceil_div(weight.depth, block);
  WorkspaceCutter cutter({at, 0});
  SplitF16 result;
  for (std::size_t i = 0; i < form.parts; ++i) {
    auto* const part = cutter.take<std::byte>(byte_size(form.unit, blocks * channels * block));
    const View<3> view(part, form.unit, {blocks, channels, block});
    result.parts.push_back({.rows = weight.count,
                            .depth = weight.depth,
                            .dtype = form.unit,
                            .lines = {},
                            .blocks = memory.bind(i == 0 ? "packed w" : "packed w, low", view, use)});
  }
  if (form.scaled)
    result.power =
        memory.bind("packed w, powers", View<2>(cutter.take<float>(channels), DType::f32, {1, channels}), use).matrix();
  return result;
}

}  // namespace inlay::npu
