// A memory space and a backend that no build has, to prove that operators, checks and tests need no host memory: its
// pointers are opaque, its buffers lie between watched bytes, and its "kernels" are the reference, which reads them
// through rebind. It behaves as a device does: what contents lead out of a view is found when it computes, and told
// by finish().
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/staging.hpp>

namespace inlay::test {

struct TestSpace {};

// Buffer 0 is null. Neither converts to an address.
struct TestPointer {
  int buffer = 0;
  std::ptrdiff_t offset = 0;
  bool operator==(const TestPointer&) const = default;
};
struct ConstTestPointer {
  int buffer = 0;
  std::ptrdiff_t offset = 0;
  ConstTestPointer() = default;
  ConstTestPointer(int b, std::ptrdiff_t o) : buffer(b), offset(o) {}
  ConstTestPointer(TestPointer p) : buffer(p.buffer), offset(p.offset) {}
  bool operator==(const ConstTestPointer&) const = default;
};

}  // namespace inlay::test

namespace inlay {

template <> struct SpacePointer<test::TestSpace> {
  using Mutable = test::TestPointer;
  using Const = test::ConstTestPointer;
  static const void* allocation(Const p) { return reinterpret_cast<const void*>(std::intptr_t{p.buffer}); }
  static std::ptrdiff_t byte_offset(Const p) { return p.offset; }
  template <class P> static P advance(P p, std::ptrdiff_t n) {
    p.offset += n;
    return p;
  }
};
static_assert(MemorySpace<test::TestSpace>);

}  // namespace inlay

namespace inlay::test {

class TestDevice {
 public:
  using Space = TestSpace;
  static constexpr std::string_view name = "test device";

  TestDevice() = default;
  TestDevice(const TestDevice&) = delete;
  ~TestDevice() { EXPECT_EQ(buffers_.size(), 0u) << "memory of the device was never given back"; }

  Expected<TestPointer> allocate(std::size_t bytes) {
    Buffer& buffer = buffers_[++last_];
    buffer.size = bytes;
    buffer.memory.reset(static_cast<std::byte*>(::operator new(bytes + 2 * guard_bytes, alignment)));
    std::fill_n(buffer.memory.get(), bytes + 2 * guard_bytes, guard);
    return TestPointer{last_, 0};
  }
  void release(TestPointer p) {
    const Buffer& buffer = buffers_.at(p.buffer);
    const std::byte* begin = buffer.memory.get();
    EXPECT_EQ(std::count(begin, begin + guard_bytes, guard), guard_bytes) << "written before a buffer";
    const std::byte* end = begin + guard_bytes + buffer.size;
    EXPECT_EQ(std::count(end, end + guard_bytes, guard), guard_bytes) << "written behind a buffer";
    buffers_.erase(p.buffer);
  }
  Status upload(TestPointer to, std::span<const std::byte> from) {
    std::copy(from.begin(), from.end(), place(to, from.size()));
    return {};
  }
  Status download(std::span<std::byte> to, ConstTestPointer from) {
    std::copy_n(place(from, to.size()), to.size(), to.data());
    return {};
  }
  Status finish() { return std::exchange(offence_, Status()); }

  // The device's own way to its memory.
  template <class V> void* resolve(const V& view) { return place(view.data, 0); }
  std::byte* place(ConstTestPointer p, std::size_t bytes) {
    Buffer& buffer = buffers_.at(p.buffer);
    EXPECT_TRUE(p.offset >= 0 && static_cast<std::size_t>(p.offset) + bytes <= buffer.size) << "outside a buffer";
    return buffer.memory.get() + guard_bytes + p.offset;
  }
  void report(Status offence) {
    if (offence_.ok()) offence_ = std::move(offence);
  }

 private:
  static constexpr std::ptrdiff_t guard_bytes = 256;
  static constexpr std::byte guard{0x5a};
  static constexpr std::align_val_t alignment{workspace_alignment};

  struct Free {
    void operator()(std::byte* p) const { ::operator delete(p, alignment); }
  };
  struct Buffer {
    std::size_t size = 0;
    std::unique_ptr<std::byte, Free> memory = {};
  };
  std::map<int, Buffer> buffers_;
  int last_ = 0;
  Status offence_;
};
static_assert(OwnsMemory<TestDevice>);

// The operator as the device's memory holds it.
template <class Op> Rebound<InSpace<Op, Host>> resolved(TestDevice& device, const Op& op) {
  return rebind<Host>(op, [&](const auto&, const auto& view) {
    using V = std::remove_cvref_t<decltype(view)>;
    using Resolved = std::conditional_t<std::is_same_v<V, View<V::rank, TestSpace>>, View<V::rank>, ConstView<V::rank>>;
    return Resolved(device.resolve(view), view.dtype, view.extents, view.strides);
  });
}

template <class Op> Status supports(const TestDevice&, const Op&) { return {}; }

// Scratch that no kernel needs, to see that it lies in the device's memory.
inline constexpr std::size_t test_scratch = 96;
template <class Op> std::size_t scratch_bytes(const TestDevice&, const Op&) { return test_scratch; }

template <class Op> Status compute(TestDevice& device, const Op& op, const SpaceWorkspace<TestSpace>& workspace) {
  std::fill_n(device.place(workspace.data(), test_scratch), test_scratch, std::byte{0xff});
  const auto host = resolved(device, op);
  // A kernel of a device meets a bad index on its way. This one looks first, and writes no row at all.
  if (Status status = check(host.op); !status.ok()) {
    device.report(offence<Op>(status));
    return {};
  }
  if (Status status = reference::compute(host.op); !status.ok()) return status;
  if constexpr (requires { outcome(host.op); }) device.report(outcome(host.op));
  return {};
}

}  // namespace inlay::test
