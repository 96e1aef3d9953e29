// Attention as tile programs see it, whichever operator it came from: views by axes, the sequences of the batch with
// what the host's lists say of them, and the rules of a score (core/attention.hpp).
//
//   q, out   [outer, row, head, dim]        query i of a sequence is row q_row + i of q_outer
//   K, V     [outer, row, head, group of dims, dim of the group]     key j is row `row + j` of `outer`, or with a
//            block table row j % block_size of the block that it names; a plain row is one group of all its dims
#pragma once

#include <vector>

#include <inlay/core/attention.hpp>

#include "tile_machine/device/roofline_work.hpp"
#include "tile_machine/run/machine.hpp"

namespace inlay::npu {

struct Cached {
  std::vector<NdTensor> views;  // one, or one for each sequence
  NdTensor scale, offset;       // of int8: (x + offset) * scale, [outer, row, head, dim], extents of 1 are broadcast
  index dim = 0;

  DType dtype() const { return views.front().first.dtype; }
};

struct Sequence {
  index queries = 0, keys = 0;
  index position = 0;                    // of query 0 among the keys
  index q_outer = 0, q_row = 0;          // of query 0
  index view = 0, outer = 0, row = 0;    // of key 0
  index scale_outer = 0, scale_row = 0;  // of key 0 in scale and offset
  index column = 0;                      // of key 0 in bias and mask
  index packed = 0;                      // the byte at which its bits begin
};

// Where rows (query, head) go, and what the last step applies to them.
struct Outputs {
  NdTensor out, lse;               // [outer, row, head, dim], [outer, row, head]
  NdTensor sinks;                  // [head]
  NdTensor out_scale, out_offset;  // of int8: [head|1, dim|1]
  float factor = 1;                // of all values
};

struct AttentionProblem {
  NdTensor q;
  Cached k, v;
  Outputs to;
  NdTensor table;        // [sequence, block]
  index block_size = 0;  // 0: there is no table
  NdTensor bias, mask;   // [sequence|1, head|1, query|1, key]
  NdTensor packed;       // [bytes]
  NdTensor slopes;       // [head]
  float scale = 1;       // of scores
  float key_factor = 1;  // of all keys
  float softcap = 0;     // 0: none
  BiasOrder order = BiasOrder::scale_bias_softcap;
  index window_left = -1, window_right = -1;
  bool by_chunks = false;  // a row has the same bits beside any others, and over longer keys that it does not see
  std::vector<Sequence> sequences;
  index kv_heads = 1;
  index splits = 1;  // of the keys of a sequence, each `split` long
  index split = 0;
  bool hides = true;  // somebody may not see a key that others of its unit see

  index heads() const { return q.extent(2); }
  index group() const { return heads() / kv_heads; }
  bool quantized() const { return k.scale.present() || v.scale.present(); }
  KeyRange visible(const Sequence& s, index query) const {
    return visible_keys(s.position + query, s.keys, window_left, window_right);
  }
};

// An axis of extent 1 serves `extent` elements.
NdTensor spread(const NdTensor& tensor, int axis, index extent);

// A new axis of extent 1 before `axis`.
NdTensor with_axis(const NdTensor& tensor, int axis);

// What one worker does at a time: rows (query, head of the group) of a head of the cache, over some of its keys.
struct QueryTile {
  index sequence, kv_head;
  index head, heads;     // of q
  index query, queries;  // of the sequence
  index begin, end;      // keys that at least one of the rows sees
  index split;
  index rows() const { return queries * heads; }
};
// `rows` at most in each, in the order of the sequences.
std::vector<QueryTile> units_of(const AttentionProblem& problem, index rows);

// Keys of a unit that are worked on at once.
struct KeyTile {
  index first, count;
  bool last;
};
// Cut at multiples of `tokens` where bits must not depend on the other rows, else counted from the first key.
std::vector<KeyTile> key_tiles(const AttentionProblem& problem, const QueryTile& unit, index tokens);

// What must be read and written once, and both products.
RooflineWork bounds_of(const AttentionProblem& problem);

}  // namespace inlay::npu
