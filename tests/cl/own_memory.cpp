// A device with memory of its own, which no machine of ours has: this program stands between Inlay and the loader and
// says so of the one that is there. Small uploads then come out of memory that the driver has pinned.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/add.hpp>

#include "cl_kernels/runtime/staging.hpp"
#include "measure/behind.hpp"
#include "tests/support/requirements.hpp"

namespace {

struct Write {
  const std::byte* from;
  std::size_t bytes;
  bool waits;
};

struct Seen {
  bool own_memory = true, creates = true, maps = true;  // what the device is, and what its driver does

  std::map<cl_mem, cl_mem_flags> alive = {};  // buffers by how they were made
  std::map<cl_mem, std::pair<std::byte*, std::size_t>> mapped = {};
  std::vector<Write> writes = {};

  cl_mem pinned() const { return mapped.empty() ? nullptr : mapped.begin()->first; }
  bool from_pinned(const Write& write) const {
    const auto& [begin, bytes] = mapped.begin()->second;
    return begin <= write.from && write.from + write.bytes <= begin + bytes;
  }
} seen;

}  // namespace

extern "C" cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void* value, size_t* size) {
  BEHIND(clGetDeviceInfo);
  const cl_int error = behind(device, what, bytes, value, size);
  if (seen.own_memory && value != nullptr && what == CL_DEVICE_HOST_UNIFIED_MEMORY)
    *static_cast<cl_bool*>(value) = CL_FALSE;
  if (seen.own_memory && value != nullptr && what == CL_DEVICE_TYPE)
    *static_cast<cl_device_type*>(value) = CL_DEVICE_TYPE_GPU;
  return error;
}
extern "C" cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* host, cl_int* error) {
  BEHIND(clCreateBuffer);
  if (!seen.creates && (flags & CL_MEM_ALLOC_HOST_PTR) != 0) {
    *error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  cl_mem const made = behind(context, flags, bytes, host, error);
  if (made != nullptr) seen.alive[made] = flags;
  return made;
}
extern "C" cl_int clReleaseMemObject(cl_mem buffer) {
  BEHIND(clReleaseMemObject);
  EXPECT_FALSE(seen.mapped.contains(buffer)) << "released as it is mapped";
  seen.alive.erase(buffer);
  return behind(buffer);
}
extern "C" void* clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool waits, cl_map_flags flags, size_t at,
                                    size_t bytes, cl_uint events, const cl_event* list, cl_event* event,
                                    cl_int* error) {
  BEHIND(clEnqueueMapBuffer);
  if (!seen.maps) {
    *error = CL_MAP_FAILURE;
    return nullptr;
  }
  void* const made = behind(queue, buffer, waits, flags, at, bytes, events, list, event, error);
  if (made != nullptr) seen.mapped[buffer] = {static_cast<std::byte*>(made), bytes};
  return made;
}
extern "C" cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void* at, cl_uint events,
                                          const cl_event* list, cl_event* event) {
  BEHIND(clEnqueueUnmapMemObject);
  EXPECT_EQ(seen.mapped[buffer].first, at);
  seen.mapped.erase(buffer);
  return behind(queue, buffer, at, events, list, event);
}
extern "C" cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool waits, size_t at, size_t bytes,
                                       const void* from, cl_uint events, const cl_event* list, cl_event* event) {
  BEHIND(clEnqueueWriteBuffer);
  seen.writes.push_back({static_cast<const std::byte*>(from), bytes, waits == CL_TRUE});
  return behind(queue, buffer, waits, at, bytes, from, events, list, event);
}

namespace inlay::test {
namespace {

constexpr std::size_t bound = cl::Staging::pinned_bytes;

class ClOwnMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    seen = {};
    const auto cl = Cl::make();
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
    seen = {};
  }
  void TearDown() override {
    EXPECT_TRUE(seen.mapped.empty());
    EXPECT_TRUE(seen.alive.empty());
    seen = {};
  }

  // Uploads of one source, which changes as each returns, side by side into a buffer; then what the buffer holds.
  static void upload_and_look(Cl& cl, std::size_t bytes, std::size_t count) {
    const auto buffer = cl.allocate(bytes * count);
    ASSERT_TRUE(buffer.has_value()) << buffer.error().message();
    std::vector<std::byte> source(bytes), all(bytes * count);
    for (std::size_t i = 0; i < count; ++i) {
      std::fill(source.begin(), source.end(), static_cast<std::byte>(i + 1));
      const Status status = cl.upload({buffer->memory, static_cast<std::ptrdiff_t>(i * bytes)}, source);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    std::fill(source.begin(), source.end(), std::byte{0xee});
    ASSERT_TRUE(cl.download(all, *buffer).ok());
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<std::byte>(i / bytes + 1)) << i;
    cl.release(*buffer);
  }
};

// Nothing of the queue runs until all sources have changed.
TEST_F(ClOwnMemory, small_uploads_wait_in_pinned_memory) {
  auto cl = Cl::make();
  ASSERT_TRUE(cl.has_value()) << cl.error().message();
  std::vector<std::byte> source(100), got(300);
  const auto buffer = cl->allocate(got.size());
  ASSERT_TRUE(buffer.has_value());
  ASSERT_TRUE(cl->upload(*buffer, source).ok());  // the first one pins
  ASSERT_NE(seen.pinned(), nullptr);
  cl_event held = clCreateUserEvent(cl->context(), nullptr);
  ASSERT_EQ(clEnqueueBarrierWithWaitList(cl->queue(), 1, &held, nullptr), CL_SUCCESS);
  seen.writes.clear();
  for (int i = 0; i < 3; ++i) {
    std::fill(source.begin(), source.end(), static_cast<std::byte>(i + 1));
    ASSERT_TRUE(cl->upload({buffer->memory, 100 * i}, source).ok());
  }
  std::fill(source.begin(), source.end(), std::byte{0xee});
  ASSERT_EQ(clSetUserEventStatus(held, CL_COMPLETE), CL_SUCCESS);
  clReleaseEvent(held);
  ASSERT_EQ(seen.writes.size(), 3u);
  for (const Write& write : seen.writes) {
    EXPECT_TRUE(seen.from_pinned(write));
    EXPECT_FALSE(write.waits);
  }
  ASSERT_TRUE(cl->download(got, *buffer).ok());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<std::byte>(i / 100 + 1)) << i;
  cl->release(*buffer);
}

// As much as there is room for, and again once the queue was waited for. What finds none goes as it lies and waits.
TEST_F(ClOwnMemory, what_is_pinned_is_bounded_and_used_again) {
  auto cl = Cl::make();
  ASSERT_TRUE(cl.has_value()) << cl.error().message();
  constexpr std::size_t in_all = 11;
  upload_and_look(*cl, bound / 3, in_all);
  ASSERT_EQ(seen.writes.size(), in_all);
  for (std::size_t i = 0; i < in_all; ++i) {
    EXPECT_EQ(seen.writes[i].waits, i % 4 == 3) << i;
    EXPECT_EQ(seen.from_pinned(seen.writes[i]), i % 4 != 3) << i;
  }
  seen.writes.clear();
  upload_and_look(*cl, bound, 1);  // the download before has made room
  upload_and_look(*cl, bound + 1, 1);
  ASSERT_EQ(seen.writes.size(), 2u);
  EXPECT_FALSE(seen.writes[0].waits);
  EXPECT_TRUE(seen.writes[1].waits);
  EXPECT_EQ(seen.mapped.size(), 1u);
  EXPECT_EQ(seen.mapped[seen.pinned()].second, bound);
}

// Buffers of the pool lie in the device's memory, and weights are copied there. An engine that brings its own buffers
// has nothing pinned behind its back.
TEST_F(ClOwnMemory, without_uploads_nothing_is_pinned) {
  auto cl = Cl::make();
  ASSERT_TRUE(cl.has_value()) << cl.error().message();
  const auto x = cl->allocate(64);
  ASSERT_TRUE(x.has_value());
  const View<2, Cl> row(*x, DType::f32, {1, 16}, {16, 1});
  ASSERT_TRUE(run(*cl, Add<Cl>{.a = row, .b = row, .y = row}).ok());
  ASSERT_TRUE(cl->finish().ok());
  EXPECT_EQ(cl->options().shape, ClShape::per_group);
  EXPECT_TRUE(seen.mapped.empty());
  EXPECT_FALSE(seen.alive.empty());
  for (const auto& [buffer, flags] : seen.alive) EXPECT_EQ(flags & CL_MEM_ALLOC_HOST_PTR, 0u);
  const std::vector<std::byte> weight(1 << 16);
  const auto mapped = cl->map(weight);
  ASSERT_TRUE(mapped.has_value());
  EXPECT_FALSE(mapped->has_value());
  cl->release(*x);
}

TEST_F(ClOwnMemory, a_driver_that_pins_nothing_is_done_without) {
  for (bool maps : {false, true}) {
    seen.maps = maps, seen.creates = !maps;
    auto cl = Cl::make();
    ASSERT_TRUE(cl.has_value()) << cl.error().message();
    upload_and_look(*cl, 1000, 40);
    EXPECT_TRUE(seen.mapped.empty());
    for (const auto& [buffer, flags] : seen.alive) EXPECT_EQ(flags & CL_MEM_ALLOC_HOST_PTR, 0u);
  }
}

TEST_F(ClOwnMemory, where_memory_is_shared_nothing_is_pinned) {
  seen.own_memory = false;
  auto cl = Cl::make();
  ASSERT_TRUE(cl.has_value()) << cl.error().message();
  if (!cl->device().shares_memory) GTEST_SKIP() << "not tested: ClOwnMemory.where_memory_is_shared (cl): it is not";
  upload_and_look(*cl, 1000, 40);
  EXPECT_TRUE(seen.mapped.empty());
}

}  // namespace
}  // namespace inlay::test
