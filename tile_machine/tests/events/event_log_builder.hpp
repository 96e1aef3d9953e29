// Hand-made logs: one line of a test is one entry.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "tile_machine/events/event_log.hpp"

namespace inlay::npu::test {

// A core with one queue for each pipe, no two entries of which see each other without sync; memories
// 0 global, 1 shared by all roles.
inline Device plain_device(std::uint32_t cores = 1) {
  Device device;
  device.name = "plain";
  device.cores = cores;
  device.memories = {{"DRAM", 1 << 20, 1, 1}, {"SRAM", 1 << 16, 1, 1}};
  device.memory_of = {0, 1, 1, 1, 1, 1};
  for (int pipe = 0; pipe < pipes; ++pipe) {
    device.queues.push_back({std::string(name(static_cast<Pipe>(pipe))), 1, 32, false});
    device.queue_of[static_cast<std::size_t>(pipe)] = static_cast<std::uint8_t>(pipe);
  }
  device.sync.flags = 8;
  device.sync.depth = 1;
  return device;
}

struct Access {
  bool write;
  std::uint64_t begin, bytes;
  std::uint32_t runs = 1;
  std::uint64_t stride = 0;
  std::uint32_t buffer = 0xffffffffu;
  std::uint8_t memory = 1;
  bool atomic = false;
};

inline Access reads(std::uint64_t begin, std::uint64_t bytes, std::uint32_t runs = 1, std::uint64_t stride = 0) {
  return {false, begin, bytes, runs, stride};
}
inline Access writes(std::uint64_t begin, std::uint64_t bytes, std::uint32_t runs = 1, std::uint64_t stride = 0) {
  return {true, begin, bytes, runs, stride};
}
inline Access global(Access access) {
  access.memory = 0;
  return access;
}
inline Access of(std::uint32_t buffer, Access access) {
  access.buffer = buffer;
  return access;
}

class EventLogBuilder {
 public:
  using Site = SourceLocation;

  explicit EventLogBuilder(std::uint16_t cores = 1) { log.cores = cores; }

  EventLogBuilder& core(std::uint16_t core, std::uint8_t stream = 0) {
    core_ = core;
    stream_ = stream;
    return *this;
  }
  std::uint32_t work(Pipe pipe, std::initializer_list<Access> accesses, Site site = Site::current()) {
    return work(pipe, std::vector<Access>(accesses), site);
  }
  std::uint32_t work(Pipe pipe, const std::vector<Access>& accesses, Site site = Site::current()) {
    Entry entry = blank(Event::work, pipe, site);
    entry.verb = "work";
    entry.footprints = static_cast<std::uint32_t>(log.footprints.size());
    entry.footprint_count = static_cast<std::uint32_t>(accesses.size());
    for (const Access& a : accesses)
      log.footprints.push_back({a.memory, a.write, a.atomic, a.buffer, a.begin, a.runs, a.bytes, a.stride});
    return push(entry);
  }
  std::uint32_t set(Pipe from, Pipe to, std::uint16_t flag = 0, Site site = Site::current()) {
    return flagged(Event::set, from, from, to, flag, site);
  }
  std::uint32_t wait(Pipe from, Pipe to, std::uint16_t flag = 0, Site site = Site::current()) {
    return flagged(Event::wait, to, from, to, flag, site);
  }
  std::uint32_t barrier(Pipe pipe, Site site = Site::current()) { return push(blank(Event::barrier, pipe, site)); }
  std::uint32_t barrier_all(Site site = Site::current()) { return push(blank(Event::barrier_all, Pipe::scalar, site)); }
  std::uint32_t sync_all(Site site = Site::current()) { return push(blank(Event::sync_all, Pipe::scalar, site)); }
  std::uint32_t cross(Event event, Pipe pipe, std::uint16_t flag, std::uint16_t peer, Site site = Site::current()) {
    Entry entry = blank(event, pipe, site);
    entry.flag = flag;
    entry.peer = peer;
    return push(entry);
  }
  // Between two streams of the core: stream_set's pipe is `from`, stream_wait's `to`, or the scalar one.
  std::uint32_t across(Event event, Pipe pipe, std::uint16_t flag, std::uint8_t peer, Site site = Site::current()) {
    Entry entry = blank(event, pipe, site);
    entry.from = entry.to = pipe;
    entry.flag = flag;
    entry.peer_stream = peer;
    return push(entry);
  }
  // Returns the buffer.
  std::uint32_t allocate(std::uint64_t begin, std::uint64_t bytes, std::uint8_t memory = 1,
                         Site site = Site::current()) {
    log.buffers.push_back({memory, core_, begin, bytes, "buffer", site, stream_});
    Entry entry = blank(Event::allocate, Pipe::scalar, site);
    entry.buffer = static_cast<std::uint32_t>(log.buffers.size() - 1);
    push(entry);
    return entry.buffer;
  }
  std::uint32_t release(std::uint32_t buffer, Site site = Site::current()) {
    Entry entry = blank(Event::release, Pipe::scalar, site);
    entry.buffer = buffer;
    return push(entry);
  }

  EventLog log;

 private:
  Entry blank(Event event, Pipe pipe, Site site) const {
    Entry entry;
    entry.event = event;
    entry.core = core_;
    entry.stream = stream_;
    entry.pipe = pipe;
    entry.site = site;
    return entry;
  }
  std::uint32_t flagged(Event event, Pipe pipe, Pipe from, Pipe to, std::uint16_t flag, Site site) {
    Entry entry = blank(event, pipe, site);
    entry.from = from;
    entry.to = to;
    entry.flag = flag;
    return push(entry);
  }
  std::uint32_t push(const Entry& entry) {
    log.entries.push_back(entry);
    return static_cast<std::uint32_t>(log.entries.size() - 1);
  }

  std::uint16_t core_ = 0;
  std::uint8_t stream_ = 0;
};

}  // namespace inlay::npu::test
