// `inlay` on OpenCL: what it says of devices, and a model's rates.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <inlay/cl.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "tests/exec/support/command_line.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::test {
namespace {

class CommandLineCl : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    const auto cl = Cl::make();
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
    platform_ = cl->device().platform;
  }
  void needs_pocl() {
    if (platform_ != "Portable Computing Language")
      GTEST_SKIP() << "not tested: CommandLineCl (PoCL): it is told what devices to have";
  }

  // What `inlay devices` prints with an environment: each line that begins with `begin`.
  std::vector<std::string> lines(const std::string& environment, const std::string& begin) {
    const std::string command =
        "env " + environment + " " + inlay_program + " devices >" + file("out") + " 2>" + file("err");
    EXPECT_EQ(std::system(command.c_str()), 0) << read(file("err"));
    std::istringstream text(read(file("out")));
    std::vector<std::string> found;
    for (std::string line; std::getline(text, line);)
      if (line.starts_with(begin)) found.push_back(line);
    return found;
  }

  std::string platform_;
};

TEST_F(CommandLineCl, devices_says_what_was_confirmed) {
  const auto list = lines("X=1", "           confirmed: ");
  const auto devices = cl_devices();
  ASSERT_TRUE(devices.has_value());
  ASSERT_EQ(list.size(), devices->size());
  const auto cl = Cl::make();
  ASSERT_TRUE(cl.has_value());
  cl::Runtime& runtime = cl->runtime();
  const auto says = [&](const std::string& words) {
    return std::any_of(list.begin(), list.end(), [&](const auto& line) { return line.find(words) != line.npos; });
  };
  EXPECT_TRUE(says("confirmed: " + cl->options().language + ", ")) << list[0];
  const std::string dot = runtime.dot().name;
  const std::string bits = " of " + std::to_string(32 * runtime.dot().value) + " bits";
  if (runtime.per_item()) {
    EXPECT_TRUE(says(", one lane a row, ")) << list[0];
    EXPECT_TRUE(says("dot products by " +
                     (dot == "DOT_VNNI"   ? "vpdpbusd" + bits
                      : dot == "DOT_MADD" ? "vpmaddwd" + bits
                                          : "f32") +
                     ", "))
        << list[0];
  } else {
    EXPECT_TRUE(says(", lanes meet ")) << list[0];
  }
  EXPECT_TRUE(says(runtime.has_doubles() ? ", doubles, " : ", integers for doubles, ")) << list[0];
  EXPECT_TRUE(says(", half")) << list[0];
  EXPECT_FALSE(says("half wrong")) << list[0];
  EXPECT_EQ(lines("INLAY_CL_LANGUAGE=CL1.2", "           confirmed: CL1.2, ").size(), devices->size());
}

TEST_F(CommandLineCl, of_devices_with_one_name_one_is_chosen) {
  needs_pocl();
  for (const char* environment : {"POCL_DEVICES='pthread pthread'", "POCL_DEVICES='basic pthread pthread'"}) {
    const auto list = lines(environment, "cl         ");
    ASSERT_GE(list.size(), 2u) << environment;
    const auto is_chosen = [](const std::string& line) { return line.find("*, ") != line.npos; };
    EXPECT_EQ(std::count_if(list.begin(), list.end(), is_chosen), 1) << environment;
  }
}

TEST_F(CommandLineCl, a_device_that_cannot_build_is_listed) {
  needs_pocl();
  const auto list = lines("INLAY_CL_BUILD_OPTIONS=-include=/nowhere.h", "           cannot build: ");
  ASSERT_EQ(list.size(), cl_devices()->size());
  EXPECT_NE(list[0].find("-include=/nowhere.h"), std::string::npos) << list[0];
}

TEST_F(CommandLineCl, the_cpu_and_cl_write_the_text_of_the_cpu) {
  const std::string story = "run --temperature 0 --tokens 48 --chunk 7 --prompt ";
  const std::string prompt = "\"Once upon a time there was a little dog who lived in a small house with a big garden\"";
  const Outcome alone = inlay(story + prompt);
  ASSERT_EQ(alone.code, 0) << alone.err;
  for (const char* how : {"", " --place all=cl,attention=cpu --chunks-at-once 3", " --place layers:0-1=cl"}) {
    const Outcome both = inlay(story + prompt + " --backend cpu+cl" + how);
    EXPECT_EQ(both.code, 0) << both.err;
    EXPECT_EQ(both.out, alone.out) << how;
  }
  expect_refused("run --backend cpu+cl --place linears=gpu", {"place has 'linears=gpu'", "cpu or cl"});
  expect_refused("run --place linears=cl", {"--place is linears=cl", "must be left out"});
  const std::string many =
      "run --temperature 0 --tokens 16 --batch 3 --prompts " + write("prompts", "Tom\nOne day\nThe red bird\n");
  const Outcome both = inlay(many + " --backend cpu+cl");
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, inlay(many).out);
}

TEST_F(CommandLineCl, linears_that_both_compute_write_the_text_of_the_cpu) {
  const std::string story =
      "run --temperature 0 --tokens 24 --prompt \"Lily and Tom went to the park. It was\" --chunk 4";
  const std::string expected = inlay(story).out;
  for (const std::string split : {"rows:0.3", "sequence", "multi-sequence:0.7", "hybrid"}) {
    const Outcome both = inlay(story + " --backend cpu+cl --split " + split);
    EXPECT_EQ(both.code, 0) << both.err;
    EXPECT_EQ(both.out, expected) << split;
  }
  const std::string devices = file("here.json");
  const Outcome measured = inlay("profile --backend cpu+cl --rows 1,4 --repeats 1 --threads 1 -o " + devices);
  ASSERT_EQ(measured.code, 0) << measured.err;
  const auto file_of_both = nlohmann::json::parse(read(devices), nullptr, false);
  ASSERT_EQ(file_of_both["devices"].size(), 2u);
  for (const auto& device : file_of_both["devices"]) EXPECT_GE(device.value("slowed", 1.0), 1);
  EXPECT_NE(measured.err.find("cl: "), std::string::npos);
  EXPECT_NE(measured.err.find(" times as long beside the other"), std::string::npos) << measured.err;
  const Outcome solved = inlay(story + " --backend cpu+cl --devices " + devices);
  EXPECT_EQ(solved.code, 0) << solved.err;
  EXPECT_EQ(solved.out, expected);
  expect_refused("run --split rows", {"--split is rows", "cpu+cl"});
  expect_refused("run --backend cpu+cl --split columns", {"split is 'columns'", "multi-sequence"});
  expect_refused("run --backend cpu+cl --split rows --devices " + devices,
                 {"split is 'rows' beside described devices"});
  expect_refused("run --backend cpu+cl --devices " + file("none.json"), {"--devices is", "none.json"});
  // Told by the first pass, behind the bench's heading.
  const Outcome unmeasured = inlay("bench model --shape stories260k --backend cpu+cl --prefill 4 --devices " + devices);
  EXPECT_EQ(unmeasured.code, 2);
  EXPECT_NE(unmeasured.err.find("the profile of cpu has no linear"), std::string::npos) << unmeasured.err;
  expect_refused("profile --backend cpu+cl --name here", {"--name is here"});
}

TEST_F(CommandLineCl, bench_tells_the_rates_of_a_model) {
  const Outcome outcome =
      inlay("bench model --shape stories260k --type f16 --prefill 4 --depth 0 --tokens 2 --backend cl");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(", cl, "), std::string::npos) << outcome.out;
  double prefill = 0, decode = 0;
  const std::size_t first = outcome.out.find("\nprefill     4 tokens"), second = outcome.out.find("\ndecode at depth");
  ASSERT_TRUE(first < second && second != std::string::npos) << outcome.out;
  EXPECT_EQ(std::sscanf(outcome.out.c_str() + first, "\nprefill 4 tokens %lf tok/s", &prefill), 1) << outcome.out;
  EXPECT_EQ(std::sscanf(outcome.out.c_str() + second, "\ndecode at depth 0 %lf tok/s", &decode), 1) << outcome.out;
  EXPECT_GT(prefill, 0);
  EXPECT_GT(decode, 0);
  expect_refused("bench model --shape stories260k --backend cl --device nonsense", {"nonsense"});
}

}  // namespace
}  // namespace inlay::test
