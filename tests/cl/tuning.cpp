// Parameters of the OpenCL kernels: their list, and the file that changes their values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <inlay/cl_tuning.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "cl_kernels/softmax_tunables.hpp"
#include "tests/support/cl_devices.hpp"
#include "tests/support/files.hpp"

namespace inlay::test {
namespace {

using exec::test::read_text, exec::test::TemporaryDirectory, exec::test::write_text;

constexpr ClShape shapes[] = {ClShape::per_item, ClShape::per_group};

void replace(std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

TEST(ClParameters, are_short_lists_of_distinct_names) {
  std::set<std::string> names;
  for (const ClParameter& p : cl_parameters()) {
    const std::string name = std::string(p.op) + "." + std::string(p.name);
    SCOPED_TRACE(name);
    EXPECT_TRUE(names.insert(name).second);
    EXPECT_FALSE(p.what.empty());
    bool has_choice = false;
    for (ClShape shape : shapes) {
      const auto values = p.of(shape).list();
      EXPECT_TRUE(std::ranges::is_sorted(values));
      has_choice = has_choice || values.size() > 1;
      for (int value : values) EXPECT_TRUE(cl::check_value(p, shape, value).ok());
      EXPECT_TRUE(cl::check_value(p, shape, p.of(shape).usual).ok());
    }
    EXPECT_TRUE(has_choice);
  }
}

class ClTuning : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto cl = Cl::make({.tuning = "none"});
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
  }
  static Cl make(ClShape shape, const std::string& file = "none") {
    auto cl = Cl::make({.shape = shape, .tuning = file});
    if (!cl) ADD_FAILURE() << cl.error().message();
    return std::move(*cl);
  }
  // A file with one section, that of the device.
  static std::string section(const Cl& cl, const std::string& operators, const std::string& driver = {}) {
    return R"({"platform": ")" + cl.device().platform + R"(", "device": ")" + cl.device().name + R"(", "driver": ")" +
           (driver.empty() ? cl.device().driver : driver) + R"(", "shape": ")" + std::string(name(cl.options().shape)) +
           R"(", "operators": )" + operators + "}";
  }
  static std::string file_of(const std::string& sections) { return R"({"format": 1, "devices": [)" + sections + "]}"; }
  std::string write(const std::string& text) const {
    write_text(file_, text);
    return file_;
  }
  void expect_refused(const std::string& text, std::initializer_list<const char*> words) const {
    SCOPED_TRACE(text.substr(0, 200));
    const auto refused = Cl::make({.shape = ClShape::per_group, .tuning = write(text)});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::corrupt_data);
    EXPECT_EQ(refused.error().message().find(file_), 0u) << refused.error().message();
    for (const char* word : words)
      EXPECT_NE(refused.error().message().find(word), std::string::npos) << refused.error().message() << word;
    EXPECT_FALSE(check_cl_tuning(file_).ok());
  }

  TemporaryDirectory folder_;
  const std::string file_ = folder_ / "tuning.json";
};

TEST_F(ClTuning, a_value_is_set_by_name_and_a_wrong_one_is_refused) {
  Cl cl = make(ClShape::per_group);
  EXPECT_EQ(cl.tuned("softmax", "lanes"), 128);
  EXPECT_TRUE(cl.tune("softmax", "lanes", 64).ok());
  EXPECT_EQ(cl.tuned("softmax", "lanes"), 64);
  EXPECT_EQ(cl.runtime().tuned(cl::softmax_lanes), 64);
  const auto expect = [&](const Status& status, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  };
  expect(cl.tune("softmax", "lanes", 100), {"softmax.lanes", "100", "per_group", "64, 128 or 256"});
  expect(cl.tune("softmax", "depth", 1), {"depth", "softmax", "lanes, short_lanes, piece, width"});
  expect(cl.tune("matmul", "lanes", 1), {"matmul", "rms_norm", "swiglu"});
  EXPECT_EQ(make(ClShape::per_item).tuned("softmax", "lanes"), 1);
  EXPECT_EQ(cl.tuned("softmax", "lanes"), 64);
}

// What shows a value calls itself for each level: 400,000 of them ended the process.
TEST_F(ClTuning, nesting_is_bounded) {
  const std::string open(400000, '['), close(400000, ']');
  expect_refused(file_of(open + close), {"nested", "8"});
  expect_refused(R"({"format": )" + open + close + "}", {"nested", "8"});
}

TEST_F(ClTuning, what_was_written_is_read) {
  Cl cl = make(ClShape::per_group);
  const std::vector<ClTuned> found = {
      {"softmax", "lanes", 64, 128, {{"softmax f32 [2, 3, 4]", 1.23456e-6, 2e-6}}},
      {"add", "lanes", 128, 128, {}},
      {"swiglu", "piece", 4096, 2048, {}},
  };
  ASSERT_TRUE(write_cl_tuning(file_, cl, "2026-11-22", found).ok());
  for (const char* word : {"softmax f32 [2, 3, 4]", "2026-11-22", "1.23e-06"})
    EXPECT_NE(read_text(file_).find(word), std::string::npos) << read_text(file_);
  EXPECT_EQ(read_text(file_).find("add"), std::string::npos) << "its usual value is the best";
  Cl tuned = make(ClShape::per_group, file_);
  EXPECT_EQ(tuned.tuned("softmax", "lanes"), 64);
  EXPECT_EQ(tuned.tuned("swiglu", "piece"), 4096);
  EXPECT_EQ(tuned.tuned("add", "lanes"), 128);
  EXPECT_EQ(tuned.tuning(), "2 of " + file_ + ", the others as compiled in");
  // The other shape has none yet, and gets its own section beside this one.
  EXPECT_EQ(make(ClShape::per_item, file_).tuning(),
            "as compiled in: " + file_ + " has none for this device and shape");
  const Cl other = make(ClShape::per_item);
  ASSERT_TRUE(
      write_cl_tuning(file_, other, "2026-11-23", std::vector<ClTuned>{{"gelu", "piece", 4096, 16384, {}}}).ok());
  EXPECT_EQ(make(ClShape::per_item, file_).tuned("gelu", "piece"), 4096);
  // Measured again, with another outcome; what was not measured stays.
  ASSERT_TRUE(write_cl_tuning(file_, cl, "2026-11-24", std::vector<ClTuned>{{"softmax", "lanes", 128, 128, {}}}).ok());
  tuned = make(ClShape::per_group, file_);
  EXPECT_EQ(tuned.tuned("softmax", "lanes"), 128);
  EXPECT_EQ(tuned.tuned("swiglu", "piece"), 4096);
  EXPECT_EQ(read_text(file_).find("softmax"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.string()), {}), 1) << "something was left behind";
  EXPECT_FALSE(write_cl_tuning(folder_ / "nowhere/file.json", cl, "", {}).ok());
}

TEST_F(ClTuning, values_of_another_driver_are_not_used) {
  const Cl cl = make(ClShape::per_group);
  write(file_of(section(cl, R"({"softmax": {"lanes": 64}})", "0.1")));
  const Cl tuned = make(ClShape::per_group, file_);
  EXPECT_EQ(tuned.tuned("softmax", "lanes"), 128);
  for (const std::string& word : {file_, std::string("driver 0.1"), cl.device().driver})
    EXPECT_NE(tuned.tuning().find(word), std::string::npos) << tuned.tuning();
  // The driver's own values take the place of the old ones.
  ASSERT_TRUE(write_cl_tuning(file_, cl, "", std::vector<ClTuned>{{"add", "lanes", 64, 128, {}}}).ok());
  EXPECT_EQ(make(ClShape::per_group, file_).tuned("add", "lanes"), 64);
  EXPECT_EQ(read_text(file_).find("0.1"), std::string::npos);
}

TEST_F(ClTuning, the_environment_names_a_file) {
  write(file_of(section(make(ClShape::per_group), R"({"softmax": {"lanes": {"value": 64}}})")));
  setenv("INLAY_CL_TUNING", file_.c_str(), 1);
  EXPECT_EQ(make(ClShape::per_group, "").tuned("softmax", "lanes"), 64);
  EXPECT_EQ(make(ClShape::per_group, "none").tuned("softmax", "lanes"), 128);
  unsetenv("INLAY_CL_TUNING");
  EXPECT_EQ(make(ClShape::per_group, "").tuned("softmax", "lanes"), 128);
}

TEST_F(ClTuning, a_wrong_file_is_refused_with_file_key_and_value) {
  const auto missing = Cl::make({.tuning = folder_ / "missing.json"});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code(), StatusCode::not_found);
  EXPECT_NE(missing.error().message().find("missing.json"), std::string::npos);
  const Cl cl = make(ClShape::per_group);
  const auto with = [&](const std::string& operators) { return file_of(section(cl, operators)); };
  EXPECT_TRUE(Cl::make({.shape = ClShape::per_group, .tuning = write(with(R"({"add": {"lanes": 64}})"))}).has_value());
  for (const char* no_json : {"", "{", "[1, 2", "{\"format\": 1,}", "\xff\xfe"}) expect_refused(no_json, {"JSON"});
  expect_refused("[]", {"object"});
  expect_refused("{\"format\": 1}", {"devices"});
  expect_refused("{\"format\": 2, \"devices\": []}", {"format", "2", "1"});
  expect_refused("{\"format\": 1, \"devices\": {}}", {"devices", "array"});
  expect_refused("{\"format\": 1, \"devices\": [], \"more\": 1}", {"more", "format, devices"});
  expect_refused("{\"format\": 1, \"format\": 1, \"devices\": []}", {"format", "twice"});
  expect_refused(file_of("7"), {"devices[0]", "7", "object"});
  expect_refused(file_of("{\"platform\": \"x\"}"), {"devices[0]", "no device"});
  std::string text = with("{}");
  replace(text, "\"per_group\"", "\"npu\"");
  expect_refused(text, {"devices[0].shape", "npu", "per_item", "per_group"});
  text = with("{}");
  replace(text, "\"" + cl.device().driver + "\"", "31");
  expect_refused(text, {"devices[0].driver", "31", "string"});
  expect_refused(file_of(section(cl, "{}") + ", " + section(cl, "{}")), {"devices[1]", "same device"});
  expect_refused(with("[]"), {"devices[0].operators", "object"});
  expect_refused(with(R"({"matmul": {"lanes": 64}})"), {"devices[0].operators.matmul.lanes", "'matmul'", "rms_norm"});
  expect_refused(with(R"({"add": 64})"), {"devices[0].operators.add", "64", "object"});
  expect_refused(with(R"({"add": {"depth": 64}})"), {"operators.add.depth", "'depth'", "lanes, width"});
  expect_refused(with(R"({"a\u0001\n": {"lanes": 64}})"), {R"(operators.a\x01\x0a.lanes)", R"('a\x01\x0a')"});
  for (const char* value : {"100", "-64", "64.5", "\"64\"", "null", "1e300", "[64]", "18446744073709551615"})
    expect_refused(with(R"({"add": {"lanes": )" + std::string(value) + "}}"),
                   {"operators.add.lanes is ", "32, 64, 128 or 256"});
  expect_refused(with(R"({"add": {"lanes": {"value": 100}}})"), {"operators.add.lanes.value is 100"});
  expect_refused(with(R"({"add": {"lanes": {"usual": 128}}})"), {"operators.add.lanes", "no value"});
  expect_refused(with(R"({"add": {"lanes": {"value": 64, "speed": 1}}})"), {"operators.add.lanes", "speed"});
  // Sections of other devices too: a file is right or wrong wherever it is read.
  text = with(R"({"add": {"lanes": 100}})");
  replace(text, cl.device().name, "another");
  expect_refused(text, {"operators.add.lanes", "100"});
  expect_refused(std::string(std::size_t{1} << 21, ' '), {"bytes"});
  expect_refused(std::string(100000, '['), {"JSON"});
  // What is wrong is not written over.
  EXPECT_FALSE(write_cl_tuning(file_, cl, "", {}).ok());
  EXPECT_EQ(read_text(file_), std::string(100000, '['));
}

}  // namespace
}  // namespace inlay::test
