#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include <inlay/cl_errors.hpp>
#include <inlay/exec/device/cl_over_host.hpp>

namespace inlay::exec {
namespace {

constexpr auto line = static_cast<std::ptrdiff_t>(workspace_alignment);

std::byte* host(std::ptrdiff_t at) { return reinterpret_cast<std::byte*>(at); }

}  // namespace

ClOverHost::ClOverHost(Cl cl, bool copies) : cl_(std::move(cl)), copies_(copies || !cl_.device().is_cpu) {}

ClOverHost::~ClOverHost() {
  for (const auto& [begin, region] : regions_) release(region);
}

ClOverHost::Regions::const_iterator ClOverHost::region_of(std::ptrdiff_t at) const {
  const auto behind = regions_.upper_bound(at);
  if (behind == regions_.begin() || std::prev(behind)->second.end <= at) return regions_.end();
  return std::prev(behind);
}

Status ClOverHost::check(const Accesses& accesses) const {
  for (const Access& access : accesses) {
    const auto region = region_of(access.begin);
    if (region == regions_.end() || region->second.end < access.end())
      return invalid(std::string(access.field) + " lies in memory that cl does not know; it must have been shared");
    if (access.writes && region->second.contents == Contents::stay)
      return invalid(std::string(access.field) + " is written, and lies in memory that was said to stay as it is");
  }
  return {};
}

Status ClOverHost::share(ByteRange memory, Contents contents) {
  if (memory.begin >= memory.end) return {};
  if (const auto known = region_of(memory.begin);
      known != regions_.end() && known->second.end >= memory.end &&
      (contents == Contents::stay || known->second.contents == Contents::change))
    return {};
  Regions::iterator joined = regions_.lower_bound(memory.begin);
  if (joined != regions_.begin() && std::prev(joined)->second.end > memory.begin) --joined;
  while (joined != regions_.end() && joined->first < memory.end) {
    memory.begin = std::min(memory.begin, joined->first);
    memory.end = std::max(memory.end, joined->second.end);
    if (joined->second.contents == Contents::change) contents = Contents::change;
    release(joined->second);
    joined = regions_.erase(joined);
  }
  auto made = make(memory, contents);
  if (!made) return std::move(made.error());
  regions_.emplace(memory.begin, *made);
  return {};
}

void ClOverHost::forget(ByteRange memory) {
  for (auto region = regions_.lower_bound(memory.begin); region != regions_.end() && region->first < memory.end;) {
    release(region->second);
    region = regions_.erase(region);
  }
}

Expected<ClOverHost::Region> ClOverHost::make(ByteRange memory, Contents contents) {
  const auto bytes = static_cast<std::size_t>(memory.end - memory.begin);
  if (!copies_) {
    cl_int error = CL_SUCCESS;
    cl_mem buffer =
        clCreateBuffer(cl_.context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, host(memory.begin), &error);
    if (error != CL_SUCCESS)
      return failure(cl::error_status(error, "sharing " + std::to_string(bytes) + " bytes with " + cl_.device().name));
    return Region{memory.end, contents, {buffer, 0}};
  }
  // An address keeps its remainder by a line.
  auto buffer = cl_.allocate(bytes + static_cast<std::size_t>(line));
  if (!buffer) return failure(std::move(buffer.error()));
  const Region region{memory.end, contents, SpacePointer<Cl>::advance(*buffer, memory.begin & (line - 1))};
  if (contents == Contents::stay)
    if (Status status = cl_.upload(region.first, {host(memory.begin), bytes}); !status.ok()) {
      release(region);
      return failure(std::move(status));
    }
  return region;
}

void ClOverHost::release(const Region& region) {
  if (copies_)
    cl_.release({region.first.memory, 0});
  else
    clReleaseMemObject(region.first.memory);
}

// What a step reads: all that it does not write, and of what it writes that which may stay as it was.
Status ClOverHost::bring(const Accesses& accesses) {
  for (const Access& access : accesses) {
    if (region_of(access.begin)->second.contents == Contents::stay) continue;
    if (!copies_) {
      // The host has written it where it lies: nothing is fetched from the device.
      if (Status status = map(access, CL_MAP_WRITE_INVALIDATE_REGION, CL_FALSE); !status.ok()) return status;
    } else if (access.reads || !access.dense) {
      if (Status status = copy(access, true); !status.ok()) return status;
    }
  }
  return {};
}

Status ClOverHost::fetch(const Accesses& accesses) {
  for (const Access& access : accesses) {
    if (!access.writes) continue;
    Status status = copies_ ? copy(access, false) : map(access, CL_MAP_READ, CL_TRUE);
    if (!status.ok()) return status;
  }
  return {};
}

Status ClOverHost::map(const Access& access, cl_map_flags flags, cl_bool waits) {
  const ClAddress at = address_of(access.begin);
  cl_int error = CL_SUCCESS;
  void* const mapped =
      clEnqueueMapBuffer(cl_.queue(), at.memory, waits, flags, static_cast<std::size_t>(at.offset),
                         static_cast<std::size_t>(access.end() - access.begin), 0, nullptr, nullptr, &error);
  if (error == CL_SUCCESS) error = clEnqueueUnmapMemObject(cl_.queue(), at.memory, mapped, 0, nullptr, nullptr);
  return error == CL_SUCCESS ? Status() : cl::error_status(error, "mapping " + std::string(access.field));
}

// Behind a copy that is under way comes cl_.finish(), before the host looks at anything.
Status ClOverHost::copy(const Access& access, bool to_device) {
  const ClAddress at = address_of(access.begin);
  const auto offset = static_cast<std::size_t>(at.offset), period = static_cast<std::size_t>(access.period),
             span = static_cast<std::size_t>(access.span), rows = static_cast<std::size_t>(access.rows);
  std::byte* const there = host(access.begin);
  cl_int error = CL_SUCCESS;
  if (rows == 1 || span == period) {
    const std::size_t bytes = period * (rows - 1) + span;
    error = to_device
                ? clEnqueueWriteBuffer(cl_.queue(), at.memory, CL_FALSE, offset, bytes, there, 0, nullptr, nullptr)
                : clEnqueueReadBuffer(cl_.queue(), at.memory, CL_FALSE, offset, bytes, there, 0, nullptr, nullptr);
  } else {
    const std::array<std::size_t, 3> from{offset % period, offset / period, 0}, origin{}, size{span, rows, 1};
    error = to_device ? clEnqueueWriteBufferRect(cl_.queue(), at.memory, CL_FALSE, from.data(), origin.data(),
                                                 size.data(), period, 0, period, 0, there, 0, nullptr, nullptr)
                      : clEnqueueReadBufferRect(cl_.queue(), at.memory, CL_FALSE, from.data(), origin.data(),
                                                size.data(), period, 0, period, 0, there, 0, nullptr, nullptr);
  }
  return error == CL_SUCCESS ? Status() : cl::error_status(error, "copying " + std::string(access.field));
}

}  // namespace inlay::exec
