// Small uploads on their way to the device: each is copied here and not waited for, a model's step brings six lists.
//
// Where the device has memory of its own the copies lie in memory that its driver has pinned, asked for when the first
// upload comes: out of ordinary memory a driver copies once more, and may wait with that (docs/opencl.md, Memory).
#pragma once

#include <CL/cl.h>

#include <cstddef>
#include <span>
#include <vector>

namespace inlay::cl {

class Staging {
 public:
  // A step brings some kilobytes, a long prompt more. What is larger than 1 MiB is better left to drivers, which pin it
  // (AMD's) or copy a piece while they send another (NVIDIA's).
  static constexpr std::size_t ordinary_bytes = 16384, pinned_bytes = std::size_t{1} << 20;

  Staging(cl_context context, cl_command_queue queue, bool pinned) : context_(context), queue_(queue), pins_(pinned) {}
  Staging(const Staging&) = delete;
  ~Staging();

  // A copy that stays as it is until begin(); null where there is no room for it.
  const std::byte* keep(std::span<const std::byte> from);
  // The queue was waited for: nothing is on its way.
  void begin() { used_ = 0; }
  // The queue could not be waited for: a lost device's driver may still read what it was given, which stays.
  void leave();

 private:
  void pin();

  cl_context context_;
  cl_command_queue queue_;
  bool pins_;
  cl_mem buffer_ = nullptr;          // mapped for as long as it is
  std::vector<std::byte> ordinary_;  // where nothing is pinned, or the driver refuses to
  std::span<std::byte> memory_;
  std::size_t used_ = 0;
};

}  // namespace inlay::cl
