// A call of the attention kernel: the problem that an operator's contract became (core/attention_problem.hpp), and for
// each sequence of the batch where its keys lie in host memory. Plain data; the kernels know no operator.
#pragma once

#include <inlay/core/attention_problem.hpp>

#include "cpu_kernels/attention/sizes.hpp"
#include "cpu_kernels/simd/inline.hpp"
#include "cpu_kernels/simd/unroll.hpp"
#include "cpu_kernels/support/min.hpp"

namespace inlay::cpu {

INLAY_INLINE index padded(index dim) { return (dim + lane_pad - 1) / lane_pad * lane_pad; }

// A matrix in scratch: row r begins at `at + r * stride`.
template <class T> struct Strided {
  T* at;
  index stride;

  INLAY_INLINE Strided from(index r, index column = 0) const { return {at + r * stride + column, stride}; }
};

enum class Which { keys, values };

// The problem of a call, and how the CPU takes it.
struct AttentionCall : AttentionProblem<Host> {
  index split = 0;  // keys after which a partial result is merged into the whole
  bool x4 = false;  // keys are taken four side by side (attention/dot_x4.hpp)

  // Rows (query, head of the group) of a kv head, where sequences have equally many.
  INLAY_INLINE index rows_of_head() const { return q.extents[1] * group(); }
  INLAY_INLINE const AttentionKv<Host>& cached(Which which) const { return which == Which::keys ? k : v; }
};

// K or V of one sequence.
struct KvRows {
  const void* data = nullptr;  // element 0 of its view
  index row_stride = 0, head_stride = 0;
};

// A sequence with what host memory holds of it.
struct HostSequence : AttentionSequence {
  KvRows k, v;
  const std::int32_t* blocks = nullptr;
  const unsigned char* packed_mask = nullptr;

  INLAY_INLINE const KvRows& rows(Which which) const { return which == Which::keys ? k : v; }
};

template <class Level> HostSequence host_sequence(const AttentionProblem<Host>& p, index b) {
  const auto rows = [&](const AttentionKv<Host>& tensor) INLAY_INLINE_LAMBDA {
    if (tensor.list.empty()) return KvRows{tensor.cache.data, tensor.cache.strides[3], tensor.cache.strides[1]};
    const ConstView<3>& own = tensor.list[static_cast<std::size_t>(b)];
    return KvRows{own.data, own.strides[0], own.strides[1]};
  };
  HostSequence s{attention_sequence(p, b), rows(p.k), rows(p.v)};
  if (p.block_table.present()) s.blocks = p.block_table.as<std::int32_t>() + b * p.block_table.strides[0];
  if (p.packed_mask.present()) s.packed_mask = p.packed_mask.as<unsigned char>() + s.packed;
  return s;
}

// The first element of a kv head, in bytes.
INLAY_INLINE const std::byte* head_of(const AttentionCall& p, const HostSequence& sequence, Which which,
                                      index kv_head) {
  const KvRows& rows = sequence.rows(which);
  return static_cast<const std::byte*>(rows.data) + kv_head * rows.head_stride * bits(p.cached(which).dtype()) / 8;
}

// The first element of row [i0, i1, i2] where extents of 1 are broadcast, and the step to the next.
struct BroadcastRow {
  index first, step;
};
INLAY_INLINE BroadcastRow broadcast_row(const ConstView<4>& view, index i0, index i1, index i2) {
  const index at[3] = {i0, i1, i2};
  index first = 0;
  for (int d = 0; d < 3; ++d) first += view.extents[d] == 1 ? 0 : at[d] * view.strides[d];
  return {first, view.extents[3] == 1 ? 0 : index{1}};
}

// Keys of a sequence whose rows lie side by side: rows row .. row + count of `outer` are keys at .. at + count,
// counted from the first one asked for.
struct KeyRun {
  index outer, row, at, count;
  index scale_outer;
};

// Calls each(KeyRun) for the keys begin .. end.
template <class Each>
INLAY_INLINE void each_run(const AttentionCall& p, const HostSequence& sequence, index begin, index end, Each&& each) {
  if (sequence.blocks == nullptr) {
    if (begin < end) each(KeyRun{sequence.outer, sequence.row + begin, 0, end - begin, sequence.scale_outer});
    return;
  }
  index entry = begin / p.block_size(), row = begin % p.block_size();
  for (index at = begin; at < end; ++entry, row = 0) {
    const index block = sequence.blocks[entry], left = end - at;
    const index count = min(p.block_size() - row, left);
    each(KeyRun{block, row, at - begin, count, block});
    at += count;
  }
}

}  // namespace inlay::cpu
