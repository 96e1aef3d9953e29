// A paged KV cache is written: k_cache[slot[t], h, :] = key[t, h, :], and blocks are copied (ops/kv_cache.hpp).
//
// Of tokens that name one slot the last one stays, whatever runs at once, and a target that two pairs name is told. A
// few tokens look through those behind them. For more, each slot has an owner in scratch, the last entry that names it:
//
//   forget   owner[list[i]] = -1          for the slots that are named; the others are never read
//   claim    owner[list[i]] = max i
//
//   S, T        types of the source and of the cache; RAW_BITS instead where they are equal: bits are copied
//   QUANTIZED   T is i8: one scale a token and head
//   UNIT        bytes that copy_blocks moves at a time
#define WIDTH 8  // 16 bytes of f16, and the pieces of vLLM's keys
#include "cl_kernels/kv_cache.clh"
#include "cl_kernels/support/fault.clh"
#include "cl_kernels/support/quotient.clh"
#include "cl_kernels/support/rows.clh"

kernel void forget(global const long* list, global int* owner, const OwnerArguments args) {
  const long i = get_global_id(0);
  if (i >= args.count) return;
  const long named = list[args.list_begin + i * args.list_stride];
  if (named >= 0 && named < args.limit) owner[args.owner_begin + named] = -1;
}

kernel void claim(global const long* list, global int* owner, const OwnerArguments args) {
  const long i = get_global_id(0);
  if (i >= args.count) return;
  const long named = list[args.list_begin + i * args.list_stride];
  if (named >= 0 && named < args.limit) atomic_max(owner + args.owner_begin + named, (int)i);
}

#ifdef RAW_BITS
#define raw_16 ushort
#define raw_32 float  // moved, never computed with
#define SOURCE JOIN(raw_, RAW_BITS)
#define CACHE SOURCE
#define MOVE_8(from, i, to, at) VSTORE(VLOAD(8, SOURCE, from, i), 8, SOURCE, to, at)
#define MOVE_1(from, i, to, at) (to)[at] = (from)[i]
#else
#ifndef S
#define S f32
#define T f16
#endif
#define SOURCE TYPE(S)
#define CACHE TYPE(T)
#ifdef QUANTIZED
// A scale of 0 or NaN stores zeros. The quotient is f32's; 1.5 * 2^23 more leaves its integer, to nearest even, in the
// last bits. A scale that is subnormal may be rounded down by so much that a quotient passes 127.
#define STEPS_OF(N, v) clamp(scale > 0 ? QUOTIENT(N)(v, scale) : 0, (float##N)(-128.0f), (float##N)(127.0f))
#define CODE(N, v) (as_int##N(STEPS_OF(N, v) + 12582912.0f) - 0x4b400000)
#define MOVE_8(from, i, to, at) VSTORE(convert_char8(CODE(8, LOAD(S, 8)(from, i))), 8, char, to, at)
#define MOVE_1(from, i, to, at) (to)[at] = (char)CODE(1, LOAD(S, 1)(from, i))
#define as_int1 as_int
#else
#define MOVE_8(from, i, to, at) STORE(T, 8)(LOAD(S, 8)(from, i), to, at)
#define MOVE_1(from, i, to, at) STORE(T, 1)(LOAD(S, 1)(from, i), to, at)
#endif
#endif
#define MOVE(N) JOIN(MOVE_, N)

enum { ALL_STAY, LOOK_BEHIND, ASK_OWNER };  // how a token learns whether it is the last of its slot

// group (first token / together, head, 0: keys, 1: values). In the per-item shape a group has all heads, so that a
// head's part of a block stays in cache while its tokens are written (vLLM's values put 16 of them into one line).
kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void reshape_and_cache(
    global const SOURCE* key, global const SOURCE* value, global CACHE* k_cache, global CACHE* v_cache,
    global float* k_scale, global float* v_scale, global const long* slots, global const int* owner,
    global int* faults, const ReshapeAndCacheArguments args) {
  BUTTERFLY_ROOM;
  const bool values = get_group_id(2) == 1;
  global const SOURCE* source = values ? value + args.value_begin : key + args.key_begin;
  const long token_stride = values ? args.value_token : args.key_token,
             head_stride = values ? args.value_head : args.key_head;
  global CACHE* cache = values ? v_cache + args.v_cache_begin : k_cache + args.k_cache_begin;
  const long block_stride = values ? args.value_block : args.key_block,
             cache_head = values ? args.value_cache_head : args.key_cache_head;
  const long group_stride = values ? args.value_group : args.key_group,
             slot_stride = values ? args.value_slot : args.key_slot;
  const long dim = values ? args.value_dim : args.key_dim, x = values ? args.value_x : args.key_x;
#ifdef QUANTIZED
  global float* scales = values ? v_scale + args.v_scale_begin : k_scale + args.k_scale_begin;
  const long scales_block = values ? args.value_scales_block : args.key_scales_block;
  const long scales_head = values ? args.value_scales_head : args.key_scales_head;
#endif
  slots += args.slots_begin;
  owner += args.owner_begin;

  const long first = get_group_id(0) * (long)args.together;
  const int count = (int)min((long)args.together, args.tokens - first);
  uint stays = 0;  // a bit for each of the group's tokens
  for (int k = 0; k < count; ++k) {
    const long t = first + k, slot = slots[t];
    const bool known = slot >= 0 && slot / args.block_size < args.blocks;
    if (slot >= 0 && !known && LANE == 0 && get_group_id(1) == 0 && !values) report_fault(faults, args.fault, t, slot);
    int again = 0;
    if (args.last_of_slot == LOOK_BEHIND)
      for (long u = t + 1 + LANE; u < args.tokens; u += LANES) again |= slots[u] == slot;
    if (args.last_of_slot == ASK_OWNER && known) again = owner[slot] != t;
    const float anywhere = butterfly_max(again, butterfly_room);
    if (known && anywhere == 0) stays |= 1u << k;
  }

  for (long h = get_group_id(1); h < args.heads; h += get_num_groups(1))
    for (int k = 0; k < count; ++k) {
      const long t = first + k, slot = slots[t], block = slot / args.block_size,
                 in_block = slot - block * args.block_size;
      const bool writes = stays >> k & 1;
      global const SOURCE* from = source + t * token_stride + h * head_stride;
      global CACHE* to = cache + block * block_stride + h * cache_head + in_block * slot_stride;
#ifdef QUANTIZED
      float8 largest8 = 0, not_finite8 = 0;  // 0 * v is 0 for finite values only
      float largest1 = 0, not_finite1 = 0;
#define RANGE(N)                                          \
  const VECTOR(N) v = LOAD(S, N)(from, i);                \
  VAR(largest, N) = fmax(VAR(largest, N), fabs(v));       \
  VAR(not_finite, N) += v * 0;
      FOR_ROW(i, dim, RANGE)
      float scale = QUOTIENT(1)(butterfly_max(fmax(LARGEST_OF(8)(largest8), largest1), butterfly_room), 127.0f);
      scale += butterfly_sum(SUM_OF(8)(not_finite8) + not_finite1, butterfly_room);
      if (writes && LANE == 0) scales[block * scales_block + h * scales_head + in_block] = scale;
#endif
      if (!writes) continue;
      // Dim i lies in group i / x: side by side where pieces of eight do not cross groups.
      if (x == dim) {
#define ALONE(N) MOVE(N)(from, i, to, i);
        FOR_ROW(i, dim, ALONE)
      } else if (x % 8 == 0) {
#define WHOLE(N) MOVE(N)(from, i, to, i / x * group_stride + i % x);
        FOR_ROW(i, dim, WHOLE)
      } else {
#define DEAL_1 MOVE_1(from, i, to, i / x * group_stride + i % x);
#define DEAL_8                                                                   \
  long in_group = i % x, at = i / x * group_stride + in_group;                   \
  for (int e = 0; e < 8; ++e) {                                                  \
    MOVE_1(from, i + e, to, at);                                                 \
    ++at;                                                                        \
    if (++in_group == x) at += group_stride - x, in_group = 0;                   \
  }
#define DEAL(N) JOIN(DEAL_, N)
        FOR_ROW(i, dim, DEAL)
      }
    }
}

#ifndef UNIT
#define UNIT 16
#endif
#define unit_16 uint4
#define unit_4 uint
#define unit_2 ushort
#define unit_1 uchar
#define BYTES JOIN(unit_, UNIT)

// One tensor, pair by pair: a block is `pieces` runs of `run` units, at the strides of up to four loops
// (core/paged_kv.hpp). Work-items go through runs in x, through pieces in y.
kernel void copy_blocks(
    global BYTES* cache, global const long* pairs, global const int* owner, global int* faults,
    const CopyBlocksArguments args) {
  const long pair = get_group_id(2);
  const long source = pairs[args.pairs_begin + pair * args.pair_stride],
             target = pairs[args.pairs_begin + pair * args.pair_stride + 1];
  owner += args.owner_begin;
  int wrong = -1;
  long value = source;
  if (source < 0 || source >= args.blocks) {
    wrong = args.bad_source;
  } else if (target < 0 || target >= args.blocks) {
    wrong = args.bad_target, value = target;
  } else if (owner[target] != pair) {
    wrong = args.twice, value = target;
  } else if (owner[source] != -1) {
    wrong = args.target_too;
  }
  if (wrong >= 0) {
    if (get_global_id(0) == 0 && get_global_id(1) == 0) report_fault(faults, wrong, pair, value);
    return;
  }
  global const BYTES* from = cache + args.cache_begin + source * args.block_stride;
  global BYTES* to = cache + args.cache_begin + target * args.block_stride;
  for (long piece = get_global_id(1); piece < args.pieces; piece += get_global_size(1)) {
    const long b = piece / args.count3, c = b / args.count2, d = c / args.count1;
    const long at = d * args.stride0 + (c - d * args.count1) * args.stride1 + (b - c * args.count2) * args.stride2 +
                    (piece - b * args.count3) * args.stride3;
    for (long i = get_global_id(0); i < args.run; i += get_global_size(0)) to[at + i] = from[at + i];
  }
}
