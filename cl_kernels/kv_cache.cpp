#include <inlay/cl_errors.hpp>
#include <inlay/ops/kv_cache.hpp>

#include <algorithm>
#include <numeric>

#include "cl_kernels/kv_cache.clh"
#include "cl_kernels/kv_cache_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

namespace {

// Up to so many tokens a token looks through those behind it; for more, slots have owners.
constexpr index tokens_to_look_through = 256;

// `claim`: owner[named] becomes the last i that names it; `forget` comes first, for all that is asked for afterwards.
template <class V>
Status name_owners(Cl& cl, const char* kernel, const V& list, index stride, index count, index limit,
                   const BufferArg& owner) {
  const index lanes = cl.runtime().lanes(64);
  return launch(cl, ProgramKey("kv_cache"), kernel, {.groups = {groups_of(count, lanes)}, .lanes = {lanes}},
                OwnerArguments{.list_stride = stride, .count = count, .limit = limit},
                {{"list", list}, {"owner", owner}});
}

// Of a view whose elements are moved as bits.
template <ViewLike V> BufferArg bits_of(const V& view) {
  return {view.data, bits(view.dtype), bits(view.dtype) == 16 ? "ushort" : "float"};
}

}  // namespace

template <> std::size_t scratch_bytes(Cl&, const ReshapeAndCache<Cl>& op) {
  return op.k.extents[0] <= tokens_to_look_through ? 0 : WorkspaceCutter::padded<cl_int>(slot_count(op.k_cache));
}

template <> Status compute(Cl& cl, const ReshapeAndCache<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const index tokens = op.k.extents[0], heads = op.k.extents[1], limit = slot_count(op.k_cache);
  if (tokens == 0) return {};
  const bool per_item = cl.runtime().per_item(), quantized = op.k_cache.dtype == DType::i8;
  enum { all_stay, look_behind, ask_owner };  // kv_cache.cl
  int last_of_slot = tokens == 1 ? all_stay : look_behind;
  BufferArg owner{};
  if (tokens > tokens_to_look_through) {
    last_of_slot = ask_owner;
    owner = BufferCutter(workspace).take<cl_int>(limit);
    if (Status status = name_owners(cl, "forget", op.slot_mapping, 1, tokens, limit, owner); !status.ok())
      return status;
    if (Status status = name_owners(cl, "claim", op.slot_mapping, 1, tokens, limit, owner); !status.ok()) return status;
  }
  const FaultSlot fault = cl.runtime().fault_slot([limit](std::int64_t at, std::int64_t value) {
    return offence<ReshapeAndCache<Cl>>(invalid("slot_mapping[" + std::to_string(at) + "] is " + std::to_string(value) +
                                                "; it must be below " + std::to_string(limit) +
                                                ", the slots of k_cache, or negative to skip the token"));
  });
  // A cache of several groups that are no multiple of eight is written element by element.
  const auto aligned_cache = [&](const PagedView<Cl>& cache) {
    return (cache.extents[2] > 1 && cache.extents[4] % 8 != 0) || aligned(cl, cache);
  };
  const int lanes = cl.runtime().lanes(kv_cache_lanes);
  ProgramKey key("kv_cache");
  key.number("LANES", lanes)
      .flag("ALIGNED", aligned(cl, op.k, op.v) && aligned_cache(op.k_cache) && aligned_cache(op.v_cache));
  if (op.k.dtype == op.k_cache.dtype)
    key.number("RAW_BITS", bits(op.k.dtype));
  else
    key.type("S", op.k.dtype).type("T", op.k_cache.dtype).flag("QUANTIZED", quantized);
  const index max_together = cl.runtime().tuned(kv_cache_tokens);
  const index together = std::clamp<index>(tokens / cl.runtime().busy_groups(), 1, max_together);
  const auto& keys = op.k_cache.strides;
  const auto& values = op.v_cache.strides;
  const bool raw = op.k.dtype == op.k_cache.dtype;
  const auto argument = [&](const auto& view) { return raw ? bits_of(view) : buffer_of(view); };
  return launch(
      cl, key, "reshape_and_cache",
      {.groups = {groups_of(tokens, together), per_item ? 1 : heads, op.v.present() ? 2 : 1}, .lanes = {lanes}},
      ReshapeAndCacheArguments{.key_token = op.k.strides[0],
                               .key_head = op.k.strides[1],
                               .key_dim = op.k.extents[2],
                               .value_token = op.v.strides[0],
                               .value_head = op.v.strides[1],
                               .value_dim = op.v.extents[2],
                               .key_block = keys[0],
                               .key_cache_head = keys[1],
                               .key_group = keys[2],
                               .key_slot = keys[3],
                               .key_x = op.k_cache.extents[4],
                               .value_block = values[0],
                               .value_cache_head = values[1],
                               .value_group = values[2],
                               .value_slot = values[3],
                               .value_x = op.v_cache.extents[4],
                               .key_scales_block = op.k_scale.strides[0],
                               .key_scales_head = op.k_scale.strides[1],
                               .value_scales_block = op.v_scale.strides[0],
                               .value_scales_head = op.v_scale.strides[1],
                               .tokens = tokens,
                               .heads = heads,
                               .blocks = block_count(op.k_cache),
                               .block_size = block_size_of(op.k_cache),
                               .last_of_slot = last_of_slot,
                               .together = static_cast<Int>(together),
                               .fault = fault},
      {{"key", argument(op.k)},
       {"value", argument(op.v)},
       {"k_cache", argument(op.k_cache)},
       {"v_cache", argument(op.v_cache)},
       {"k_scale", op.k_scale},
       {"v_scale", op.v_scale},
       {"slots", op.slot_mapping},
       {"owner", owner},
       faults_of(cl)});
}

template <> std::size_t scratch_bytes(Cl&, const CopyBlocks<Cl>& op) {
  return WorkspaceCutter::padded<cl_int>(block_count(op.k_cache));
}

template <> Status compute(Cl& cl, const CopyBlocks<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  // So many pairs cannot all have targets of their own: what is wrong is met among the first.
  const index blocks = block_count(op.k_cache), count = std::min(op.pairs.extents[0], blocks + 1);
  const index step = op.pairs.strides[0];
  if (count == 0) return {};
  ConstView<2, Cl> targets = op.pairs;
  targets.data.offset += static_cast<std::ptrdiff_t>(sizeof(std::int64_t));
  const BufferArg owner = BufferCutter(workspace).take<cl_int>(blocks);
  if (Status status = name_owners(cl, "forget", op.pairs, step, count, blocks, owner); !status.ok()) return status;
  if (Status status = name_owners(cl, "forget", targets, step, count, blocks, owner); !status.ok()) return status;
  if (Status status = name_owners(cl, "claim", targets, step, count, blocks, owner); !status.ok()) return status;

  const auto fault = [&](auto&& words) {
    return cl.runtime().fault_slot([blocks, words](std::int64_t at, std::int64_t value) {
      return offence<CopyBlocks<Cl>>(
          invalid("pairs" + words("[" + std::to_string(at) + "]", std::to_string(value), std::to_string(blocks - 1))));
    });
  };
  using Text = const std::string&;
  const FaultSlot bad_source = fault(
      [](Text at, Text block, Text last) { return at + " has the source " + block + "; it must be in 0.." + last; });
  const FaultSlot bad_target = fault(
      [](Text at, Text block, Text last) { return at + " has the target " + block + "; it must be in 0.." + last; });
  const FaultSlot twice =
      fault([](Text, Text block, Text) { return " has the target " + block + " twice; a block must be written once"; });
  const FaultSlot target_too = fault([](Text at, Text block, Text) {
    return at + " has the source " + block + ", which is a target too; the copies must not depend on their order";
  });

  const auto copy = [&](const PagedView<Cl>& cache) -> Status {
    if (cache.empty()) return {};
    const BlockRuns runs = block_runs(cache, cache);
    const index size = bits(cache.dtype) / 8;
    // The longest unit that divides all lengths, and the address.
    index common = std::gcd(runs.run * size, cache.strides[0] * size);
    common = std::gcd(common, std::gcd<index, index>(cache.data.offset, misalignment(cl, cache)));
    for (int i = 0; i < 4; ++i) common = std::gcd(common, runs.from[i] * size);
    const index unit = common % 16 == 0 ? 16 : common % 4 == 0 ? 4 : common % 2 == 0 ? 2 : 1;
    const auto units = [&](index elements) { return elements * size / unit; };
    const index pieces = runs.count[0] * runs.count[1] * runs.count[2] * runs.count[3];
    const bool per_item = cl.runtime().per_item();
    const int lanes = cl.runtime().lanes(kv_cache_copy_lanes);
    const index in_run = per_item ? 1 : units(runs.run) > 16 ? lanes : std::min(lanes, 16), in_pieces = lanes / in_run;
    const char* const element = unit == 16 ? "uint4" : unit == 4 ? "uint" : unit == 2 ? "ushort" : "uchar";
    return launch(cl, ProgramKey("kv_cache").number("UNIT", unit), "copy_blocks",
                  {.groups = {1, per_item ? 1 : std::clamp<index>(pieces / in_pieces, 1, 32), count},
                   .lanes = {in_run, per_item ? 1 : in_pieces}},
                  CopyBlocksArguments{.block_stride = units(cache.strides[0]),
                                      .run = units(runs.run),
                                      .pieces = pieces,
                                      .stride0 = units(runs.from[0]),
                                      .count1 = runs.count[1],
                                      .stride1 = units(runs.from[1]),
                                      .count2 = runs.count[2],
                                      .stride2 = units(runs.from[2]),
                                      .count3 = runs.count[3],
                                      .stride3 = units(runs.from[3]),
                                      .pair_stride = step,
                                      .blocks = blocks,
                                      .bad_source = bad_source,
                                      .bad_target = bad_target,
                                      .twice = twice,
                                      .target_too = target_too},
                  {{"cache", BufferArg{cache.data, static_cast<int>(8 * unit), element}},
                   {"pairs", op.pairs},
                   {"owner", owner},
                   faults_of(cl)});
  };
  for (const PagedView<Cl>& cache : {op.k_cache, op.v_cache}) {
    if (Status status = copy(cache); !status.ok()) return status;
  }
  for (const View<3, Cl>& scales : {op.k_scale, op.v_scale})
    if (scales.present())
      if (Status status = copy(scales_cache(scales)); !status.ok()) return status;
  return {};
}

namespace {

// Run by run, by the queue's own copies; they are done when it returns, so that host memory may be used again.
template <class Op, class Copy> Status swap(Cl& cl, const Op& op, Copy&& copy) {
  if (Status status = cl.runtime().check_not_recording("swap_blocks"); !status.ok()) return status;
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
