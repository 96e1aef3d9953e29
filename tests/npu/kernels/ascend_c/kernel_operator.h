// What a kernel in Ascend C includes, on a host: its verbs record themselves (inlay/npu_log.h) and compute nothing. As
// much of it as the kernel beside this file asks for, written from the public documentation; queues become flags as
// docs/npu.md's table says. Everything of a program runs as vector core 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <inlay/npu_log.h>

#define __aicore__
#define __gm__

extern "C" inlay_npu_log npu_log;  // record.c

namespace AscendC {

// The kernel's line, taken where a verb is called.
struct Here {
  const char* file;
  std::uint32_t line;
  static Here current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
  inlay_npu_here of(const char* verb) const { return inlay_npu_at(file, line, verb); }
};

template <class T> struct Tensor {
  std::uint32_t buffer = 0;
  std::uint64_t offset = 0;  // bytes
  Tensor operator[](std::uint32_t element) const { return {buffer, offset + element * sizeof(T)}; }
  inlay_npu_bytes bytes(std::uint32_t count) const { return inlay_npu_in(buffer, offset, count * sizeof(T)); }
};
template <class T> struct LocalTensor : Tensor<T> {
  LocalTensor(Tensor<T> tensor = {}, std::uint32_t in_slot = 0) : Tensor<T>(tensor), slot(in_slot) {}
  std::uint32_t slot;
};
template <class T> struct GlobalTensor : Tensor<T> {
  GlobalTensor(Tensor<T> tensor = {}) : Tensor<T>(tensor) {}
  void SetGlobalBuffer(const char* name, std::uint64_t address, std::uint64_t count, Here here = Here::current()) {
    this->buffer = inlay_npu_buffer(&npu_log, here.of("SetGlobalBuffer"), name, "global", address, count * sizeof(T));
  }
};

template <class T>
void DataCopy(LocalTensor<T> to, GlobalTensor<T> from, std::uint32_t count, Here here = Here::current()) {
  inlay_npu_copy(&npu_log, here.of("DataCopy"), "global", "vector", nullptr, to.bytes(count), from.bytes(count));
}
template <class T>
void DataCopy(GlobalTensor<T> to, LocalTensor<T> from, std::uint32_t count, Here here = Here::current()) {
  inlay_npu_copy(&npu_log, here.of("DataCopy"), "vector", "global", nullptr, to.bytes(count), from.bytes(count));
}
inline void Add(LocalTensor<float> to, LocalTensor<float> a, LocalTensor<float> b, std::uint32_t count,
                Here here = Here::current()) {
  const inlay_npu_bytes sources[] = {a.bytes(count), b.bytes(count)};
  inlay_npu_vector(&npu_log, here.of("Add"), "add", "f32", "f32", count, 1, 0, to.bytes(count), sources, 2);
}

enum class TPosition { VECIN, VECOUT };

// A flag each way for each slot: EnQue sets the one that DeQue waits for, FreeTensor the one that AllocTensor waits for
// when the slot comes again. ids: of the flags, one for each slot of all queues between the same two pipes.
struct QueueFlags {
  const char *producer = "", *consumer = "";
  std::uint32_t first_id = 0;
  std::vector<std::uint32_t> buffers;
  std::vector<bool> freed;  // by slot: a flag stands that no AllocTensor has taken
  std::uint64_t allocated = 0, enqueued = 0, dequeued = 0;

  std::uint32_t slot(std::uint64_t count) const { return static_cast<std::uint32_t>(count % buffers.size()); }
  void take_back(std::uint32_t slot, inlay_npu_here here) {
    if (freed[slot]) inlay_npu_wait(&npu_log, here, consumer, producer, first_id + slot);
    freed[slot] = false;
  }
};

template <TPosition position, int depth> class TQue {
 public:
  template <class T> LocalTensor<T> AllocTensor(Here here = Here::current()) {
    const std::uint32_t slot = flags->slot(flags->allocated++);
    flags->take_back(slot, here.of("AllocTensor"));
    return {{flags->buffers[slot], 0}, slot};
  }
  template <class T> void EnQue(LocalTensor<T> tensor, Here here = Here::current()) {
    ++flags->enqueued;
    inlay_npu_set(&npu_log, here.of("EnQue"), flags->producer, flags->consumer, flags->first_id + tensor.slot);
  }
  template <class T> LocalTensor<T> DeQue(Here here = Here::current()) {
    const std::uint32_t slot = flags->slot(flags->dequeued++);
    inlay_npu_wait(&npu_log, here.of("DeQue"), flags->producer, flags->consumer, flags->first_id + slot);
    return {{flags->buffers[slot], 0}, slot};
  }
  template <class T> void FreeTensor(LocalTensor<T> tensor, Here here = Here::current()) {
    inlay_npu_set(&npu_log, here.of("FreeTensor"), flags->consumer, flags->producer, flags->first_id + tensor.slot);
    flags->freed[tensor.slot] = true;
  }
  QueueFlags* flags = nullptr;  // the pipe's
};

class TPipe {
 public:
  ~TPipe() {  // what was freed last is waited for before the kernel ends
    for (const auto& queue : queues_)
      for (std::uint32_t slot = 0; slot < queue->buffers.size(); ++slot)
        queue->take_back(slot, inlay_npu_at(nullptr, 0, "~TPipe"));
  }
  template <TPosition position, int depth>
  void InitBuffer(TQue<position, depth>& queue, std::uint32_t slots, std::uint32_t bytes, const char* name,
                  Here here = Here::current()) {
    constexpr bool in = position == TPosition::VECIN;
    queues_.push_back(std::make_unique<QueueFlags>());
    QueueFlags& flags = *queues_.back();
    flags.producer = in ? "load_vector" : "vector";
    flags.consumer = in ? "vector" : "store";
    flags.first_id = ids_[in ? 0 : 1];
    ids_[in ? 0 : 1] += slots;
    for (std::uint32_t slot = 0; slot < slots; ++slot, address_ += bytes)
      flags.buffers.push_back(inlay_npu_allocate(&npu_log, here.of("InitBuffer"), (name + std::to_string(slot)).c_str(),
                                                 "vector", address_, bytes));
    flags.freed.resize(slots);
    queue.flags = &flags;
  }

 private:
  std::vector<std::unique_ptr<QueueFlags>> queues_;
  std::uint32_t ids_[2] = {0, 0};
  std::uint64_t address_ = 0;
};

}  // namespace AscendC
