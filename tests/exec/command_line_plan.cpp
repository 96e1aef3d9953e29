// `inlay plan`, `inlay profile` and `inlay simulate` as their users start them.
#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/exec/support/command_line.hpp"

namespace inlay::test {
namespace {

const std::string rates = R"("rates": {"flops_a_us": 1e6, "bytes_a_us": 43300, "submit_us": 15})";
const std::string two_devices = R"({"sync_us": 20, "devices": [
  {"name": "npu", "kind": "npu", "operators": ["linear", "linear_w4a16"], "rates": {"flops_a_us": 1e7, "bytes_a_us": 43300}},
  {"name": "gpu", "kind": "gpu", )" +
                                rates + "}]}";

// The number behind a word at the beginning of a line.
double behind(const std::string& text, const std::string& word) {
  const std::size_t at = ("\n" + text).find("\n" + word);
  double value = -1;
  EXPECT_NE(at, std::string::npos) << word << '\n' << text;
  if (at != std::string::npos) std::sscanf(text.c_str() + at + word.size(), "%lf", &value);
  return value;
}

// The page is of what the program says now, and says it again.
TEST_F(CommandLine, fidelity_is_as_committed) {
  ASSERT_EQ(inlay("simulate -o " + file("fidelity.md")).code, 0);
  EXPECT_EQ(read(file("fidelity.md")), read(source / "docs/fidelity.md"))
      << "inlay simulate -o docs/fidelity.md writes it anew; read what the page says of it before you commit it";
  EXPECT_EQ(inlay("simulate").out, read(file("fidelity.md")));
  expect_refused("simulate -o " + file("nowhere/page.md"), {"nowhere"});
}

TEST_F(CommandLine, plan_chooses_sizes_of_plans) {
  const std::string lengths = write("lengths", "1 100\n7 10\n16 5\n60 2\n600 3\n");
  const Outcome outcome = inlay("plan llama3.2-3b --buckets --domains 1 --count 3 --lengths " + lengths);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "28 layers in 29 pieces, 1 communication domains: Ascend's streams allow plans of 20 sizes\n"
            "Ascend's           3 sizes, 2858 padded tokens (88.5% of what runs), 2.5% of steps eager\n"
            "  1 184 512\n"
            "padding least      3 sizes, 90 padded tokens (19.6% of what runs), 2.5% of steps eager\n"
            "  1 16 60\n");
  const Outcome ours = inlay("plan --buckets --lengths " + lengths);
  EXPECT_EQ(ours.code, 0) << ours.err;
  expect_refused("plan", {"--devices", "--buckets"});
  expect_refused("plan --buckets", {"--lengths"});
  expect_refused("plan --lengths " + lengths, {"--buckets"});
  expect_refused("plan --buckets --lengths " + file("none"), {"none"});
  expect_refused("plan --buckets --lengths " + write("wrong", "1\nx\n"), {"line 2", "\"x\""});
  expect_refused("plan nonsense --buckets --lengths " + lengths, {"nonsense"});
}

TEST_F(CommandLine, plan_places_a_prompt) {
  const std::string devices = write("devices.json", two_devices), trace = file("trace.json");
  const std::string command = "plan --devices " + devices + " --seq 200 --chunk 64 --trace " + trace;
  const Outcome outcome = inlay(command);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(inlay(command).out, outcome.out);
  EXPECT_NE(outcome.out.find("npu alone                                         not all"), std::string::npos)
      << outcome.out;
  const double alone = behind(outcome.out, "gpu alone"),
               placed = behind(outcome.out, "steps placed, one after the other");
  EXPECT_GT(alone, 0);
  EXPECT_LE(placed, alone);
  EXPECT_LE(behind(outcome.out, "chunks overlap, upward rank"), 1.2 * placed);
  const auto events = nlohmann::json::parse(read(trace), nullptr, false);
  ASSERT_FALSE(events.is_discarded());
  expect_refused("plan --devices " + write("bad.json", R"({"devices": [{"name": "a", "kind": "tpu", )" + rates + "}]}"),
                 {"/devices/0/kind", "tpu", "cpu, gpu or npu"});
  expect_refused(
      "plan --devices " +
          write("few.json", R"({"devices": [{"name": "a", "kind": "npu", "operators": ["linear"], )" + rates + "}]}"),
      {"no device of the file computes"});
  expect_refused("plan --devices " + file("none.json"), {"none.json"});
}

// What overlaps takes longer, and nothing else does.
TEST_F(CommandLine, plan_counts_what_devices_slow_each_other) {
  std::string devices = two_devices;
  devices.replace(devices.find("20"), 2, "0");  // both have work, where handing it over costs nothing
  const auto planned = [&](const std::string& name) {
    const Outcome outcome = inlay("plan --devices " + write(name, devices) + " --seq 200 --chunk 64");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string before = planned("free.json");
  for (std::size_t at = 0; (at = devices.find("\"kind\"", at)) != devices.npos; at += 16)
    devices.insert(at, "\"slowed\": 1.5, ");
  const std::string slowed = planned("slow.json");
  for (const char* alone : {"gpu alone", "steps placed, one after the other"})
    EXPECT_EQ(behind(slowed, alone), behind(before, alone));
  const double overlapped = behind(before, "chunks overlap, fifo"), slower = behind(slowed, "chunks overlap, fifo");
  EXPECT_GT(slower, 1.02 * overlapped);
  EXPECT_LT(slower, 1.5 * overlapped);
}

// The page's picture is of the page's file of devices.
TEST_F(CommandLine, the_picture_of_the_page_is_what_plan_and_the_script_draw) {
  const std::string page = read(source / "docs/devices.md"), picture = "docs/devices_timeline.svg";
  const std::size_t begin = page.find("```json\n") + 8, end = page.find("```", begin);
  ASSERT_LT(end, page.size());
  const std::string devices = write("phone.json", page.substr(begin, end - begin)), trace = file("trace.json");
  const std::string plan = "plan smollm2-135m --devices phone.json --seq 384 --chunk 128 --trace trace.json",
                    script = "scripts/timeline_svg.py trace.json -o ";
  EXPECT_NE(page.find("inlay " + plan + "\n" + script + picture), std::string::npos) << "the page says how it is drawn";
  EXPECT_NE(page.find("(devices_timeline.svg)"), std::string::npos);
  ASSERT_EQ(inlay("plan smollm2-135m --devices " + devices + " --seq 384 --chunk 128 --trace " + trace).code, 0);
  const std::string command =
      "python3 " + (source / "scripts/timeline_svg.py").string() + " " + trace + " -o " + file("picture.svg");
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_TRUE(read(file("picture.svg")) == read(source / picture)) << picture << " is not what is drawn now";
}

// By a device whose memory costs nothing: a model's operations, counted from its sizes. 5 layers of 64, 8 heads and 4
// of 8, 172 hidden; 64 tokens in two chunks.
TEST_F(CommandLine, plan_counts_operations) {
  const std::string devices = write(
      "one.json", R"({"devices": [{"name": "one", "kind": "cpu", "rates": {"flops_a_us": 1, "bytes_a_us": 1e300}}]})");
  const Outcome outcome = inlay("plan stories260k --devices " + devices + " --seq 64 --chunk 32");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  constexpr double weights = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 172, head = 2 * 512 * 64;
  constexpr double attention = 4 * 32 * (32 + 64) * 64;
  constexpr double least = 5 * (2 * 64 * weights + attention) + 2 * head;
  const double us = 1e3 * behind(outcome.out, "one alone");
  EXPECT_GE(us, least);
  EXPECT_LE(us, 1.02 * least);                                       // norms, rope and the like
  EXPECT_EQ(1e3 * behind(outcome.out, "chunks overlap, fifo"), us);  // one device overlaps nothing
}

// What is measured here is planned with.
TEST_F(CommandLine, profile_measures_what_plan_reads) {
  const std::string devices = file("here.json");
  const Outcome measured = inlay("profile --rows 1,32 --repeats 1 --threads 1 --name here -o " + devices);
  ASSERT_EQ(measured.code, 0) << measured.err;
  // Chunks behind others see more keys, and the last has as few tokens as no chunk that was measured.
  const Outcome whole = inlay("plan --devices " + devices + " --seq 32 --chunk 32"),
                planned = inlay("plan --devices " + devices + " --seq 75 --chunk 32");
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_GT(behind(planned.out, "here alone"), 2 * behind(whole.out, "here alone"));
  // Where a query takes a second for each key that it sees, nothing else counts: 6 layers of 75 * 76 / 2 pairs.
  auto slow = nlohmann::json::parse(read(devices), nullptr, false);
  for (auto& step : slow["devices"][0]["profile"]["steps"])
    if (step["operator"] == "flash_attention") step["pairs"] = {1, 1000}, step["us"] = {1e6, 1e9};
  for (const char* chunk : {"32", "75"}) {
    const Outcome outcome = inlay("plan --devices " + write("slow.json", slow.dump()) + " --seq 75 --chunk " + chunk);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NEAR(behind(outcome.out, "here alone"), 6 * 2850e3, 100e3) << chunk;
  }
  expect_refused("profile --rows 0", {"--rows"});
}

}  // namespace
}  // namespace inlay::test
