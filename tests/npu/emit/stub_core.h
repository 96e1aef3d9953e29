// One vector core on a host: its memory, its flags, and the log of what it was given (inlay/npu_log.h), by which the
// checker judges the kernel's own syncs. Wrong calls are told when the kernel has ended.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <inlay/npu_log.h>

namespace stub {

constexpr std::uint64_t memory_bytes = 196608;

struct Flag {
  const char *from, *to;
  int id;
  bool operator<(const Flag& other) const {
    const int a = std::strcmp(from, other.from), b = std::strcmp(to, other.to);
    return a != 0 ? a < 0 : b != 0 ? b < 0 : id < other.id;
  }
};

struct Core {
  std::uint32_t block = 0;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(memory_bytes, 0xff);
  std::map<Flag, int> flags;
  std::uint32_t globals = 0;  // tensors of global memory that it has named: each has 4 GiB of addresses in the log
  std::string wrong;
  inlay_npu_log log{};
};
// Each library that is loaded has its own.
static inline Core& core() {
  static Core one;
  return one;
}

inline void complain(std::uint32_t line, const std::string& what) {
  Core& here = core();
  if (here.wrong.size() < 2000)
    here.wrong += "block " + std::to_string(here.block) + ", line " + std::to_string(line) + ": " + what + "\n";
}

inline inlay_npu_here at(std::uint32_t line, const char* verb) { return inlay_npu_at("kernel.cpp", line, verb); }

inline void set(const char* from, const char* to, int id, std::uint32_t line) {
  if (id < 0 || id > 7) complain(line, "flag " + std::to_string(id) + " is none of 0 to 7");
  if (++core().flags[{from, to, id}] > 1) complain(line, std::string("SetFlag ") + from + "_" + to + " stands already");
  inlay_npu_set(&core().log, at(line, "SetFlag"), from, to, static_cast<std::uint32_t>(id));
}
inline void wait(const char* from, const char* to, int id, std::uint32_t line) {
  if (--core().flags[{from, to, id}] < 0)
    complain(line, std::string("WaitFlag ") + from + "_" + to + " before its set");
  inlay_npu_wait(&core().log, at(line, "WaitFlag"), from, to, static_cast<std::uint32_t>(id));
}

// Bytes of the memory; of an access beyond its end the first ones.
inline std::uint8_t* bytes(std::uint64_t address, std::uint64_t count, std::uint32_t line) {
  if (address + count <= memory_bytes) return core().memory.data() + address;
  complain(line, "byte " + std::to_string(address + count) + " is behind the end of the memory");
  return core().memory.data();
}
inline void aligned(std::uint64_t address, std::uint64_t to, std::uint32_t line) {
  if (address % to != 0) complain(line, "byte " + std::to_string(address) + " is no multiple of " + std::to_string(to));
}
inline inlay_npu_bytes span(std::uint64_t address, std::uint64_t count) {
  return inlay_npu_address("vector", address, count);
}

}  // namespace stub

// The sync of this number is left out, where a test has numbered them.
extern "C" {
__attribute__((visibility("default"), used)) int stub_left_out = -1;
}

// What a launch consists of: a core begins, the kernel runs, the core ends.
extern "C" __attribute__((visibility("default"), used)) void stub_open(const char* file, std::uint32_t cores) {
  static const char* const streams[] = {"AIV", "AIV"};
  if (inlay_npu_open(&stub::core().log, file, "kernel", cores, streams, 2) != 0) stub::complain(0, "no log");
}
extern "C" __attribute__((visibility("default"), used)) void stub_begin(std::uint32_t block) {
  stub::Core& core = stub::core();
  core.block = block;
  core.memory.assign(stub::memory_bytes, 0xff);
  core.flags.clear();
  core.globals = 0;
  inlay_npu_on(&core.log, block / 2, block % 2);
}
extern "C" __attribute__((visibility("default"), used)) void stub_end() {
  for (const auto& [flag, count] : stub::core().flags)
    if (count > 0) stub::complain(0, std::string("SetFlag ") + flag.from + "_" + flag.to + " is left");
}
extern "C" __attribute__((visibility("default"), used)) const char* stub_close() {
  if (inlay_npu_close(&stub::core().log) != 0) stub::complain(0, "the log cannot be written");
  return stub::core().wrong.c_str();
}
