// The first few of many, without sorting the rest: a binary heap that gives its elements one by one.
// Building it is linear, every element taken costs a logarithm.
#pragma once

#include <cstdint>

#include <inlay/core/dtype.hpp>

#include "cpu_kernels/simd/inline.hpp"

namespace inlay::cpu {

// before(a, b): a comes out ahead of b; a strict total order over the elements.
template <class Before> INLAY_INLINE void sift_down(std::int32_t* heap, index size, index at, Before&& before) {
  const std::int32_t element = heap[at];
  for (index child = 2 * at + 1; child < size; child = 2 * at + 1) {
    if (child + 1 < size && before(heap[child + 1], heap[child])) ++child;
    if (!before(heap[child], element)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = element;
}

template <class Before> INLAY_INLINE void make_heap(std::int32_t* heap, index size, Before&& before) {
  for (index at = size / 2; at-- > 0;) sift_down(heap, size, at, before);
}

// Takes the first element; it then lies at heap[size - 1].
template <class Before> INLAY_INLINE std::int32_t pop_heap(std::int32_t* heap, index size, Before&& before) {
  const std::int32_t first = heap[0];
  heap[0] = heap[size - 1];
  if (size > 1) sift_down(heap, size - 1, 0, before);
  heap[size - 1] = first;
  return first;
}

}  // namespace inlay::cpu
