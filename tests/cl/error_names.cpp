// Every error of OpenCL 3.0 has its name in a Status; what CL/cl.h does not know is told by its number.
#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include <inlay/cl_errors.hpp>

namespace inlay::test {
namespace {

constexpr std::string_view nameless = "an error that OpenCL does not name";

TEST(ClErrorNames, all_of_them) {
  std::set<std::string_view> names;
  for (cl_int error = 0; error >= -72; --error) {
    if (error < -19 && error > -30) {  // between the errors of devices and those of callers
      EXPECT_EQ(cl::error_name(error), nameless) << error;
      continue;
    }
    const std::string_view name = cl::error_name(error);
    EXPECT_TRUE(name.starts_with("CL_")) << error << " is " << name;
    EXPECT_TRUE(names.insert(name).second) << error << " is another's " << name;
  }
}

TEST(ClErrorNames, some_of_them) {
  EXPECT_EQ(cl::error_name(0), "CL_SUCCESS");
  EXPECT_EQ(cl::error_name(-13), "CL_MISALIGNED_SUB_BUFFER_OFFSET");
  EXPECT_EQ(cl::error_name(-14), "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST");
  EXPECT_EQ(cl::error_name(-64), "CL_INVALID_PROPERTY");
  EXPECT_EQ(cl::error_name(-72), "CL_MAX_SIZE_RESTRICTION_EXCEEDED");
  EXPECT_EQ(cl::error_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
  for (cl_int error : {1, -73, -9999}) EXPECT_EQ(cl::error_name(error), nameless);
  EXPECT_EQ(cl::error_status(-9999, "copying").message(), "copying: an error that OpenCL does not name (-9999)");
}

}  // namespace
}  // namespace inlay::test
