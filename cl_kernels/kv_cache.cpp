#include <inlay/ops/kv_cache.hpp>

#include <algorithm>
#include <numeric>

#include "cl_kernels/runtime/errors.hpp"
#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

namespace {

// Up to so many tokens a token looks through those behind it; for more, slots have owners.
constexpr index tokens_to_look_through = 256;

// owner[named] becomes the last i that names it; forget comes first, for all that is asked for afterwards.
template <class V> Status claim(Cl& cl, const V& list, index stride, index count, index limit, const Part& owner) {
  const index lanes = cl.runtime().lanes(64);
  return launch(cl, Variant("kv_cache"), "claim", {.groups = {groups_of(count, lanes)}, .lanes = {lanes}}, list, stride,
                count, limit, owner);
}
template <class V> Status forget(Cl& cl, const V& list, index stride, index count, index limit, const Part& owner) {
  const index lanes = cl.runtime().lanes(64);
  return launch(cl, Variant("kv_cache"), "forget", {.groups = {groups_of(count, lanes)}, .lanes = {lanes}}, list,
                stride, count, limit, owner);
}

}  // namespace

template <> std::size_t scratch_bytes(Cl&, const ReshapeAndCache<Cl>& op) {
  return op.key.extents[0] <= tokens_to_look_through ? 0 : WorkspaceCutter::padded<cl_int>(slot_count(op.key_cache));
}

template <> Status compute(Cl& cl, const ReshapeAndCache<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const index tokens = op.key.extents[0], heads = op.key.extents[1], limit = slot_count(op.key_cache);
  if (tokens == 0) return {};
  const bool cpu_shape = cl.runtime().cpu_shape(), quantized = op.key_cache.dtype == DType::i8;
  enum { all_stay, look_behind, ask_owner };  // kv_cache.cl
  int last_of_slot = tokens == 1 ? all_stay : look_behind;
  Part owner{{}, sizeof(cl_int)};
  if (tokens > tokens_to_look_through) {
    last_of_slot = ask_owner;
    owner = PartCutter(workspace).take<cl_int>(limit);
    if (Status status = forget(cl, op.slot_mapping, 1, tokens, limit, owner); !status.ok()) return status;
    if (Status status = claim(cl, op.slot_mapping, 1, tokens, limit, owner); !status.ok()) return status;
  }
  const Place place = cl.runtime().place([limit](std::int64_t at, std::int64_t value) {
    return offence<ReshapeAndCache<Cl>>(invalid("slot_mapping[" + std::to_string(at) + "] is " + std::to_string(value) +
                                                "; it must be below " + std::to_string(limit) +
                                                ", the slots of key_cache, or negative to skip the token"));
  });
  // A cache whose groups are no multiple of eight is written element by element.
  const auto aligned_cache = [&](const PagedView<Cl>& cache) {
    return cache.extents[4] % 8 != 0 || aligned(cl, cache);
  };
  const int lanes = cl.runtime().lanes(Tunable::kv_cache_lanes);
  Variant variant("kv_cache");
  variant.number("LANES", lanes)
      .flag("ALIGNED", aligned(cl, op.key, op.value) && aligned_cache(op.key_cache) && aligned_cache(op.value_cache));
  if (op.key.dtype == op.key_cache.dtype)
    variant.number("RAW_BITS", bits(op.key.dtype));
  else
    variant.type("S", op.key.dtype).type("T", op.key_cache.dtype).flag("QUANTIZED", quantized);
  const index most_together = cl.runtime().tuned(Tunable::kv_cache_tokens);
  const index together = std::clamp<index>(tokens / cl.runtime().busy_groups(), 1, most_together);
  const auto& keys = op.key_cache.strides;
  const auto& values = op.value_cache.strides;
  return launch(
      cl, variant, "reshape_and_cache",
      {.groups = {groups_of(tokens, together), cpu_shape ? 1 : heads, op.value.present() ? 2 : 1}, .lanes = {lanes}},
      op.key, op.key.strides[0], op.key.strides[1], op.key.extents[2], op.value, op.value.strides[0],
      op.value.strides[1], op.value.extents[2], op.key_cache, keys[0], keys[1], keys[2], keys[3],
      op.key_cache.extents[4], op.value_cache, values[0], values[1], values[2], values[3], op.value_cache.extents[4],
      op.key_scales, op.key_scales.strides[0], op.key_scales.strides[1], op.value_scales, op.value_scales.strides[0],
      op.value_scales.strides[1], op.slot_mapping, owner, last_of_slot, tokens, heads, block_count(op.key_cache),
      block_size_of(op.key_cache), static_cast<int>(together), place);
}

template <> std::size_t scratch_bytes(Cl&, const CopyBlocks<Cl>& op) {
  return WorkspaceCutter::padded<cl_int>(block_count(op.key_cache));
}

template <> Status compute(Cl& cl, const CopyBlocks<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  // So many pairs cannot all have targets of their own: what is wrong is met among the first.
  const index blocks = block_count(op.key_cache), count = std::min(op.pairs.extents[0], blocks + 1);
  const index step = op.pairs.strides[0];
  if (count == 0) return {};
  ConstView<2, Cl> targets = op.pairs;
  targets.data.offset += static_cast<std::ptrdiff_t>(sizeof(std::int64_t));
  const Part owner = PartCutter(workspace).take<cl_int>(blocks);
  if (Status status = forget(cl, op.pairs, step, count, blocks, owner); !status.ok()) return status;
  if (Status status = forget(cl, targets, step, count, blocks, owner); !status.ok()) return status;
  if (Status status = claim(cl, targets, step, count, blocks, owner); !status.ok()) return status;

  const auto place = [&](auto&& words) {
    return cl.runtime().place([blocks, words](std::int64_t at, std::int64_t value) {
      return offence<CopyBlocks<Cl>>(
          invalid("pairs" + words("[" + std::to_string(at) + "]", std::to_string(value), std::to_string(blocks - 1))));
    });
  };
  using Text = const std::string&;
  const Place bad_source = place(
      [](Text at, Text block, Text last) { return at + " has the source " + block + "; it must be in 0.." + last; });
  const Place bad_target = place(
      [](Text at, Text block, Text last) { return at + " has the target " + block + "; it must be in 0.." + last; });
  const Place twice =
      place([](Text, Text block, Text) { return " has the target " + block + " twice; a block must be written once"; });
  const Place target_too = place([](Text at, Text block, Text) {
    return at + " has the source " + block + ", which is a target too; the copies must not depend on their order";
  });

  const auto copy = [&](const PagedView<Cl>& cache) -> Status {
    if (cache.empty()) return {};
    const BlockRuns runs = block_runs(cache, cache);
    const index size = bits(cache.dtype) / 8;
    // The longest unit that divides all lengths, and the address.
    index common = std::gcd(runs.run * size, cache.strides[0] * size);
    common = std::gcd(common, std::gcd<index, index>(cache.data.offset, past_line(cl, cache)));
    for (int i = 0; i < 4; ++i) common = std::gcd(common, runs.from[i] * size);
    const index unit = common % 16 == 0 ? 16 : common % 4 == 0 ? 4 : common % 2 == 0 ? 2 : 1;
    const auto units = [&](index elements) { return elements * size / unit; };
    const index pieces = runs.count[0] * runs.count[1] * runs.count[2] * runs.count[3];
    const bool cpu_shape = cl.runtime().cpu_shape();
    const int lanes = cl.runtime().lanes(Tunable::kv_cache_copy_lanes);
    const index in_run = cpu_shape ? 1 : units(runs.run) > 16 ? lanes : std::min(lanes, 16), in_pieces = lanes / in_run;
    return launch(cl, Variant("kv_cache").number("UNIT", unit), "copy_blocks",
                  {.groups = {1, cpu_shape ? 1 : std::clamp<index>(pieces / in_pieces, 1, 32), count},
                   .lanes = {in_run, cpu_shape ? 1 : in_pieces}},
                  Part{cache.data, static_cast<int>(unit)}, units(cache.strides[0]), units(runs.run), pieces,
                  units(runs.from[0]), runs.count[1], units(runs.from[1]), runs.count[2], units(runs.from[2]),
                  runs.count[3], units(runs.from[3]), op.pairs, step, owner, blocks, bad_source, bad_target.number,
                  twice.number, target_too.number);
  };
  for (const PagedView<Cl>& cache : {op.key_cache, op.value_cache}) {
    if (Status status = copy(cache); !status.ok()) return status;
  }
  for (const View<3, Cl>& scales : {op.key_scales, op.value_scales})
    if (scales.present())
      if (Status status = copy(scales_cache(scales)); !status.ok()) return status;
  return {};
}

namespace {

// Run by run, by the queue's own copies; they are done when it returns, so that host memory may be used again.
template <class Op, class Copy> Status swap(Cl& cl, const Op& op, Copy&& copy) {
  if (op.source.empty()) return {};
  const BlockRuns runs = block_runs(op.source, op.target);
  const index size = bits(op.source.dtype) / 8;
  const auto bytes = static_cast<std::size_t>(runs.run * size);
  cl_int error = CL_SUCCESS;
  for (index i = 0; i < op.pairs.extents[0]; ++i) {
    const std::int64_t* const pair = op.pairs.template as<std::int64_t>() + i * op.pairs.strides[0];
    const index from = pair[0] * op.source.strides[0], to = pair[1] * op.target.strides[0];
    for (index a = 0; a < runs.count[0]; ++a)
      for (index b = 0; b < runs.count[1]; ++b)
        for (index c = 0; c < runs.count[2]; ++c)
          for (index d = 0; d < runs.count[3] && error == CL_SUCCESS; ++d)
            error = copy((from + a * runs.from[0] + b * runs.from[1] + c * runs.from[2] + d * runs.from[3]) * size,
                         (to + a * runs.to[0] + b * runs.to[1] + c * runs.to[2] + d * runs.to[3]) * size, bytes);
  }
  const cl_int finished = clFinish(cl.queue());
  if (error == CL_SUCCESS) error = finished;
  return error == CL_SUCCESS ? Status() : error_status(error, "swap_blocks on " + cl.device().name);
}

std::size_t byte_at(ConstClAddress address, index offset) { return static_cast<std::size_t>(address.offset + offset); }

}  // namespace

template <> std::size_t scratch_bytes(Cl&, const SwapBlocks<Host, Cl>&) { return 0; }
template <> std::size_t scratch_bytes(Cl&, const SwapBlocks<Cl, Host>&) { return 0; }
template <> std::size_t scratch_bytes(Cl&, const SwapBlocks<Cl, Cl>&) { return 0; }

template <> Status compute(Cl& cl, const SwapBlocks<Host, Cl>& op, const SpaceWorkspace<Cl>&) {
  return swap(cl, op, [&](index from, index to, std::size_t bytes) {
    return clEnqueueWriteBuffer(cl.queue(), op.target.data.memory, CL_FALSE, byte_at(op.target.data, to), bytes,
                                static_cast<const char*>(op.source.data) + from, 0, nullptr, nullptr);
  });
}
template <> Status compute(Cl& cl, const SwapBlocks<Cl, Host>& op, const SpaceWorkspace<Cl>&) {
  return swap(cl, op, [&](index from, index to, std::size_t bytes) {
    return clEnqueueReadBuffer(cl.queue(), op.source.data.memory, CL_FALSE, byte_at(op.source.data, from), bytes,
                               static_cast<char*>(op.target.data) + to, 0, nullptr, nullptr);
  });
}
template <> Status compute(Cl& cl, const SwapBlocks<Cl, Cl>& op, const SpaceWorkspace<Cl>&) {
  return swap(cl, op, [&](index from, index to, std::size_t bytes) {
    return clEnqueueCopyBuffer(cl.queue(), op.source.data.memory, op.target.data.memory, byte_at(op.source.data, from),
                               byte_at(op.target.data, to), bytes, 0, nullptr, nullptr);
  });
}

}  // namespace inlay::cl
