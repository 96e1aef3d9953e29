// What a kernel in Ascend C includes, on a host: as much of it as inlay npu emit writes, from the public documentation
// of CANN 8.5 (docs/npu_emit.md). Verbs are carried out at once, in the order of the program; whether their syncs would
// do is for the checker, to which each verb tells what it touches (stub_core.h).
#pragma once

#include <cmath>
#include <type_traits>
#include <utility>

#include "stub_core.h"
#include "stub_half.h"

#define __global__ __attribute__((visibility("default")))
#define __aicore__
#define __gm__
#define GM_ADDR std::uint8_t*
#define KERNEL_TASK_TYPE_DEFAULT(type) \
  static_assert(type == KERNEL_TYPE_AIV_ONLY || type == KERNEL_TYPE_MIX_AIC_1_2, "other cores are not here")
#define ASCEND_IS_AIC (stub::core().cube)
#define ASCEND_IS_AIV (!stub::core().cube)

using std::uint32_t;
using std::uint64_t;
using std::uint8_t;

enum { KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_MIX_AIC_1_2 };
enum pipe_t { PIPE_V, PIPE_MTE2, PIPE_MTE3, PIPE_M, PIPE_MTE1, PIPE_FIX, PIPE_ALL };

namespace AscendC {

enum class TPosition { VECCALC, A1, A2, B2, CO1 };  // as stub::Space
enum class HardEvent { MTE2_V, V_MTE2, V_MTE3, MTE3_V, V_S, MTE2_MTE1, MTE1_MTE2, MTE1_M, M_MTE1, M_FIX, FIX_M };
enum class RoundMode { CAST_NONE, CAST_RINT };
enum class CMPMODE { LT, LE, GT, GE, EQ, NE };
enum class SELMODE { VSEL_TENSOR_SCALAR_MODE };
enum class ReduceOrder { ORDER_ONLY_VALUE };

#define STUB_LINE uint32_t line = __builtin_LINE()

template <class T> constexpr const char* type_name() {
  return std::is_same_v<T, float>        ? "f32"
         : std::is_same_v<T, half>       ? "f16"
         : std::is_same_v<T, bfloat16_t> ? "bf16"
                                         : "u8";
}

template <class T> struct LocalTensor {
  uint64_t address = 0;
  stub::Space space = stub::vector;

  LocalTensor operator[](uint32_t element) const { return {address + element * sizeof(T), space}; }
  template <class U> LocalTensor<U> ReinterpretCast() const { return {address, space}; }
  T* data(uint64_t count, uint32_t line) const {
    return reinterpret_cast<T*>(stub::bytes(space, address, count * sizeof(T), line));
  }
  inlay_npu_bytes span(uint64_t count) const { return stub::span(space, address, count * sizeof(T)); }
  T GetValue(uint32_t element, STUB_LINE) const {
    inlay_npu_scalar(&stub::launch().log, stub::at(line, "GetValue"), 0,
                     stub::span(space, address + element * sizeof(T), sizeof(T)));
    return data(element + 1, line)[element];
  }
};

template <class T> struct GlobalTensor {
  T* first = nullptr;
  uint64_t place = 0;  // in the log
  GlobalTensor operator[](uint64_t element) const { return {first + element, place + element * sizeof(T)}; }
  void SetGlobalBuffer(T* address) { *this = {address, uint64_t{stub::core().globals++} << 32}; }
  inlay_npu_bytes bytes(uint64_t count) const { return inlay_npu_address("global", place, count); }
};

template <TPosition position> struct TBuf {
  uint64_t begin = 0;
  template <class T> LocalTensor<T> GetWithOffset(uint32_t count, uint32_t offset, STUB_LINE) const {
    stub::bytes(static_cast<stub::Space>(position), begin + offset, count * sizeof(T), line);
    return {begin + offset, static_cast<stub::Space>(position)};
  }
};
struct TPipe {
  template <TPosition position> void InitBuffer(TBuf<position>& buffer, uint32_t bytes, STUB_LINE) {
    stub::bytes(static_cast<stub::Space>(position), 0, bytes, line);
    buffer.begin = 0;
  }
};

inline uint32_t GetBlockIdx() { return stub::core().block; }
inline void Trap(STUB_LINE) { stub::complain(line, "Trap"); }

constexpr const char* queue_names[][2] = {{"load_vector", "vector"}, {"vector", "load_vector"}, {"vector", "store"},
                                          {"store", "vector"},       {"vector", "scalar"},      {"load", "feed"},
                                          {"feed", "load"},          {"feed", "matrix"},        {"matrix", "feed"},
                                          {"matrix", "drain"},       {"drain", "matrix"}};
template <HardEvent event> void SetFlag(int id, STUB_LINE) {
  const auto& queues = queue_names[static_cast<int>(event)];
  stub::set(queues[0], queues[1], id, line);
}
template <HardEvent event> void WaitFlag(int id, STUB_LINE) {
  const auto& queues = queue_names[static_cast<int>(event)];
  stub::wait(queues[0], queues[1], id, line);
}
template <pipe_t pipe> void PipeBarrier(STUB_LINE) {
  if (pipe == PIPE_ALL) return inlay_npu_barrier_all(&stub::launch().log, stub::at(line, "PipeBarrier"));
  const char* const names[] = {"vector", stub::core().cube ? "load" : "load_vector", "store", "matrix", "feed",
                               "drain"};
  inlay_npu_barrier(&stub::launch().log, stub::at(line, "PipeBarrier"), names[pipe]);
}
template <int mode, pipe_t pipe> void CrossCoreSetFlag(int id, STUB_LINE) {
  static_assert(mode == 2, "between the cube core and the vector cores of a core");
  const char* const names[] = {"vector", stub::core().cube ? "load" : "load_vector", "store", "matrix", "feed",
                               "drain"};
  stub::cross_set(names[pipe], id, line);
}
inline void CrossCoreWaitFlag(int id, STUB_LINE) { stub::cross_wait(id, line); }
template <bool vectors_alone = true> void SyncAll(STUB_LINE) { stub::sync_all(line); }

// ---- copies: rows with gaps, in bytes of global memory and in blocks of 32 bytes here

struct DataCopyExtParams {
  uint32_t rows, bytes, from_gap, to_gap;
  DataCopyExtParams(uint32_t blockCount, uint32_t blockLen, uint32_t srcStride, uint32_t dstStride, uint32_t)
      : rows(blockCount), bytes(blockLen), from_gap(srcStride), to_gap(dstStride) {}
};
template <class T> struct DataCopyPadExtParams {
  DataCopyPadExtParams(bool, uint8_t, uint8_t, int) {}
};

inline inlay_npu_bytes rows_of(inlay_npu_bytes first, uint32_t rows, uint64_t stride) {
  return rows == 1 ? first : inlay_npu_strided(first, rows, stride);
}
template <class T>
void DataCopyPad(LocalTensor<T> to, GlobalTensor<T> from, DataCopyExtParams form, DataCopyPadExtParams<T>, STUB_LINE) {
  stub::aligned(to.address, 32, line);
  const uint64_t whole = (form.bytes + 31) / 32 * 32, to_stride = whole + form.to_gap * 32,
                 from_stride = form.bytes + form.from_gap;
  const auto* source = reinterpret_cast<const uint8_t*>(from.first);
  for (uint32_t r = 0; r < form.rows; ++r) {
    uint8_t* row = stub::bytes(to.space, to.address + r * to_stride, whole, line);
    std::memset(row, 0xff, whole);  // what fills the last block up is not to be relied on
    std::memcpy(row, source + r * from_stride, form.bytes);
  }
  inlay_npu_copy(&stub::launch().log, stub::at(line, "DataCopyPad"), "global", "vector", nullptr,
                 rows_of(stub::span(to.space, to.address, form.bytes), form.rows, to_stride),
                 rows_of(from.bytes(form.bytes), form.rows, from_stride));
}
template <class T> void DataCopyPad(GlobalTensor<T> to, LocalTensor<T> from, DataCopyExtParams form, STUB_LINE) {
  stub::aligned(from.address, 32, line);
  const uint64_t from_stride = (form.bytes + 31) / 32 * 32 + form.from_gap * 32, to_stride = form.bytes + form.to_gap;
  auto* target = reinterpret_cast<uint8_t*>(to.first);
  for (uint32_t r = 0; r < form.rows; ++r)
    std::memcpy(target + r * to_stride, stub::bytes(from.space, from.address + r * from_stride, form.bytes, line),
                form.bytes);
  inlay_npu_copy(&stub::launch().log, stub::at(line, "DataCopyPad"), "vector", "global", nullptr,
                 rows_of(to.bytes(form.bytes), form.rows, to_stride),
                 rows_of(stub::span(from.space, from.address, form.bytes), form.rows, from_stride));
}

}  // namespace AscendC

#include "stub_cube.h"
#include "stub_vectors.h"
