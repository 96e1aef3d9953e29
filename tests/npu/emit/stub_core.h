// Cores on a host: their memories, their flags, and the log of what they were given (inlay/npu_log.h), by which the
// checker judges the kernel's own syncs. Wrong calls are told when the kernel has ended.
//
// Each core, cube or vector, is a thread. One runs at a time, until it waits for a flag of another one or for all.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <inlay/npu_log.h>

namespace stub {

enum Space { vector, staging, left, right, accumulator };
constexpr const char* space_names[] = {"vector", "staging", "left", "right", "accumulator"};
constexpr std::uint64_t space_bytes[] = {196608, 524288, 65536, 65536, 131072};

using Flag = std::tuple<std::string, std::string, int>;

struct Core {
  std::uint32_t block = 0, core = 0, stream = 0;
  bool cube = false;
  std::vector<std::uint8_t> memories[5];
  std::map<Flag, int> flags;
  std::uint32_t globals = 0;  // tensors of global memory that it has named: each has 4 GiB of addresses in the log
};

// Each library that is loaded has its own.
struct Launch {
  std::string wrong;
  inlay_npu_log log{};
  std::mutex running;  // of the core whose turn it is
  std::condition_variable changed;
  std::list<std::function<bool()>> waiting;
  std::size_t cores = 0;  // that have not ended
  bool stuck = false;
  // Sets of CrossCoreSetFlag that stand: of (core, its stream, the setter's, id).
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, int>, int> crossed;
  std::size_t met = 0, meetings = 0, all = 0;
};
static inline Launch& launch() {
  static Launch one;
  return one;
}
static inline Core*& current() {
  static thread_local Core* one = nullptr;
  return one;
}
static inline Core& core() { return *current(); }

inline void complain(std::uint32_t line, const std::string& what) {
  std::string& wrong = launch().wrong;
  if (wrong.size() < 2000)
    wrong += (core().cube ? "cube core " : "block ") + std::to_string(core().block) + ", line " + std::to_string(line) +
             ": " + what + "\n";
}

inline inlay_npu_here at(std::uint32_t line, const char* verb) { return inlay_npu_at("kernel.cpp", line, verb); }

inline void set(const char* from, const char* to, int id, std::uint32_t line) {
  if (id < 0 || id > 7) complain(line, "flag " + std::to_string(id) + " is none of 0 to 7");
  if (++core().flags[{from, to, id}] > 1) complain(line, std::string("SetFlag ") + from + "_" + to + " stands already");
  inlay_npu_set(&launch().log, at(line, "SetFlag"), from, to, static_cast<std::uint32_t>(id));
}
inline void wait(const char* from, const char* to, int id, std::uint32_t line) {
  if (--core().flags[{from, to, id}] < 0)
    complain(line, std::string("WaitFlag ") + from + "_" + to + " before its set");
  inlay_npu_wait(&launch().log, at(line, "WaitFlag"), from, to, static_cast<std::uint32_t>(id));
}

// Others run until this is so, or until nobody can go on.
inline void until(std::uint32_t line, std::function<bool()> so) {
  Launch& all = launch();
  std::unique_lock<std::mutex> turn(all.running, std::adopt_lock);
  const auto mine = all.waiting.insert(all.waiting.end(), std::move(so));
  while (!(*mine)() && !all.stuck) {
    bool somebody = all.waiting.size() < all.cores;
    for (const auto& each : all.waiting) somebody = somebody || each();
    if (!somebody) {
      all.stuck = true;
      complain(line, "nobody can go on");
      all.changed.notify_all();
      break;
    }
    all.changed.wait(turn);
  }
  all.waiting.erase(mine);
  turn.release();
  inlay_npu_on(&all.log, core().core, core().stream);
}

// Between the cube core, stream 0, and the two vector cores, 1 and 2.
inline void cross_set(const char* pipe, int id, std::uint32_t line) {
  if (id < 0 || id > 10) complain(line, "flag " + std::to_string(id) + " is none of 0 to 10");
  const std::uint32_t mine = core().stream;
  for (std::uint32_t to = mine == 0 ? 1 : 0; to <= (mine == 0 ? 2u : 0u); ++to) {
    if (++launch().crossed[{core().core, to, mine, id}] > 15) complain(line, "more than 15 sets stand");
    inlay_npu_stream_set(&launch().log, at(line, "CrossCoreSetFlag"), pipe, "scalar", static_cast<std::uint32_t>(id),
                         to);
  }
  launch().changed.notify_all();
}
inline void cross_wait(int id, std::uint32_t line) {
  const std::uint32_t mine = core().stream, of = core().core;
  const std::uint32_t first = mine == 0 ? 1 : 0, last = mine == 0 ? 2 : 0;
  const auto sets = [=](std::uint32_t from) -> int& { return launch().crossed[{of, mine, from, id}]; };
  until(line, [=] { return sets(first) > 0 && sets(last) > 0; });
  for (std::uint32_t from = first; from <= last; ++from) {
    --sets(from);
    inlay_npu_stream_wait(&launch().log, at(line, "CrossCoreWaitFlag"), "scalar", "scalar",
                          static_cast<std::uint32_t>(id), from);
  }
}
inline void sync_all(std::uint32_t line) {
  Launch& all = launch();
  inlay_npu_sync_all(&all.log, at(line, "SyncAll"));
  const std::size_t meeting = all.meetings;
  if (++all.met == all.all) {
    all.met = 0;
    ++all.meetings;
    all.changed.notify_all();
    return;
  }
  until(line, [&all, meeting] { return all.meetings > meeting; });
}

// Bytes of a memory; of an access beyond its end the first ones.
inline std::uint8_t* bytes(Space space, std::uint64_t address, std::uint64_t count, std::uint32_t line) {
  std::vector<std::uint8_t>& memory = core().memories[space];
  if (memory.empty()) memory.assign(space_bytes[space], 0xff);
  if (core().cube == (space == vector)) complain(line, std::string(space_names[space]) + " is another core's");
  if (address + count <= memory.size()) return memory.data() + address;
  complain(line, "byte " + std::to_string(address + count) + " is behind the end of " + space_names[space]);
  return memory.data();
}
inline void aligned(std::uint64_t address, std::uint64_t to, std::uint32_t line) {
  if (address % to != 0) complain(line, "byte " + std::to_string(address) + " is no multiple of " + std::to_string(to));
}
inline inlay_npu_bytes span(Space space, std::uint64_t address, std::uint64_t count) {
  return inlay_npu_address(space_names[space], address, count);
}

using Kernel = void(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);

inline void run_core(Core& mine, Kernel* kernel, void* const* operands) {
  Launch& all = launch();
  all.running.lock();
  current() = &mine;
  inlay_npu_on(&all.log, mine.core, mine.stream);
  kernel(operands[0], operands[1], operands[2], operands[3], operands[4], operands[5], operands[6], operands[7],
         operands[8], operands[9]);
  for (const auto& [flag, count] : mine.flags)
    if (count > 0) complain(0, "SetFlag " + std::get<0>(flag) + "_" + std::get<1>(flag) + " is left");
  --all.cores;
  all.changed.notify_all();
  all.running.unlock();
}

}  // namespace stub

extern "C" {
// The sync of this number is left out, where a test has numbered them.
__attribute__((visibility("default"), used)) int stub_left_out = -1;
// The exponential of the machine.
__attribute__((visibility("default"), used)) float (*stub_exp)(float) = nullptr;
}

// Launches the kernel on so many cores, with cube cores (mixed) or without. Returns what was wrong.
extern "C" __attribute__((visibility("default"), used)) const char* stub_run(const char* file, std::uint32_t cores,
                                                                             int mixed, stub::Kernel* kernel,
                                                                             void* const* operands) {
  static const char* const streams[] = {"AIC", "AIV", "AIV"};
  stub::Launch& all = stub::launch();
  if (inlay_npu_open(&all.log, file, "kernel", cores, streams + (mixed ? 0 : 1), mixed ? 3 : 2) != 0)
    all.wrong += "no log\n";
  all.crossed.clear();
  all.wrong.clear();
  all.met = 0;
  all.stuck = false;
  std::vector<stub::Core> each(cores * (mixed ? 3u : 2u));
  all.cores = all.all = each.size();
  for (std::uint32_t i = 0; i < each.size(); ++i) {
    const std::uint32_t of_a_core = mixed ? 3 : 2, stream = i % of_a_core;
    each[i].core = i / of_a_core;
    each[i].stream = stream;
    each[i].cube = mixed && stream == 0;
    each[i].block = each[i].cube ? each[i].core : each[i].core * 2 + stream - (mixed ? 1 : 0);
  }
  std::vector<std::thread> threads;
  for (stub::Core& core : each) threads.emplace_back([&core, kernel, operands] { run_core(core, kernel, operands); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& [flag, count] : all.crossed)
    if (count > 0) all.wrong += "CrossCoreSetFlag " + std::to_string(std::get<3>(flag)) + " is left\n";
  if (inlay_npu_close(&all.log) != 0) all.wrong += "the log cannot be written\n";
  return all.wrong.c_str();
}
