// `inlay npu check`: kernels in C that record themselves (tests/npu/kernels) are proved and timed by their logs.
#include "tests/exec/support/command_line.hpp"

namespace inlay::test {
namespace {

class NpuCheck : public CommandLine {
 protected:
  // The kernel's log, as the program that the kernels are compiled into leaves it.
  std::string record(const std::string& kernel) const {
    const std::string log = file(kernel + ".jsonl");
    EXPECT_EQ(std::system((std::string(INLAY_NPU_KERNELS) + " " + kernel + " " + log).c_str()), 0) << kernel;
    return log;
  }
  Outcome check(const std::string& kernel, const std::string& options = "") const {
    return inlay("npu check " + record(kernel) + " " + options);
  }
  // "softmax.c:16", of the n-th line of the kernel's source that has the words.
  static std::string line(const std::string& kernel, const std::string& words, int nth = 1) {
    std::istringstream text(read(source / "tests/npu/kernels" / kernel));
    std::string each;
    for (int number = 1; std::getline(text, each); ++number)
      if (each.find(words) != each.npos && --nth == 0) return kernel + ":" + std::to_string(number);
    ADD_FAILURE() << kernel << " has no line with " << words;
    return {};
  }
  static void expect_words(const Outcome& outcome, int code, const std::vector<std::string>& words) {
    EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
    for (const std::string& each : words)
      EXPECT_NE(outcome.out.find(each), std::string::npos) << each << '\n' << outcome.out;
  }
};

TEST_F(NpuCheck, kernels_of_others_are_proved_and_right_ones_are_silent) {
  expect_words(check("add"), 0, {"add on ascend-a2-like, 94 entries\n0 reports\n"});
  expect_words(check("softmax"), 0, {"softmax on ascend-a2-like, ", "\n0 reports\n"});
  expect_words(check("matmul"), 0, {"matmul on ascend-a2-like, ", "\n0 reports\n"});
}

TEST_F(NpuCheck, a_barrier_that_stands_in_a_branch_alone_names_both_lines) {
  const std::string write = line("softmax.c", "Muls(row, in, columns)"),
                    read = line("softmax.c", "ReduceMax(peak, row");
  const Outcome outcome = check("softmax_barrier_in_the_branch");
  expect_words(outcome, 1,
               {"race_raw: " + read + " ReduceMax (core 0, vector) reads byte 0 of 'row' in UB, which " + write +
                    " Muls (core 0, vector) writes before; no barrier(vector) after " + write + " and before " + read,
                "\n1 report\n"});
  // Where the branch is taken its barriers are enough: a run says nothing of the other path.
  expect_words(check("softmax_with_alibi"), 0, {"\n0 reports\n"});
}

// What docs/npu_import.md shows: each line of its kernel and of its verbs stands in the sources, what it says is said.
TEST_F(NpuCheck, the_page_shows_what_is_said) {
  const std::string page = read(source / "docs/npu_import.md");
  std::istringstream said(check("softmax_barrier_in_the_branch").out);
  for (std::string each; std::getline(said, each);)
    EXPECT_NE(page.find("    " + each + "\n"), std::string::npos) << each;
  const std::string sources = read(source / "tests/npu/kernels/softmax.c") + read(source / "tests/npu/kernels/verbs.h");
  std::istringstream lines(page);
  bool shown = false;
  int found = 0;
  for (std::string each; std::getline(lines, each);) {
    if (each.rfind("```", 0) == 0) {
      shown = each == "```c";
    } else if (shown) {
      EXPECT_NE(sources.find(each + "\n"), std::string::npos) << each;
      ++found;
    }
  }
  EXPECT_GT(found, 15);
}

TEST_F(NpuCheck, a_flag_that_is_missing_names_both_lines) {
  const std::string write = line("add.c", "Add(of_z[slot]"), read = line("add.c", "DataCopy(at(z, i * tile)");
  expect_words(check("add_forgets_the_store"), 1,
               {"race_war: " + write + " Add (core 0, vector) writes byte 0 of 'z0' in UB, which " + read +
                " DataCopy (core 0, store) reads before; no set(store, vector, id) after " + read +
                " has its wait before " + write});
  const std::string drain = line("matmul.c", "Fixpipe(product"), wait = line("matmul.c", "CrossCoreWaitFlag(PIPE_FIX"),
                    load = line("matmul.c", "DataCopy(mine");
  expect_words(check("matmul_forgets_the_flag"), 1,
               {"race_raw: " + load + " DataCopy (core 0, AIV0, load_vector) reads byte 0 of 'product' in GM, which " +
                    drain + " Fixpipe (core 0, AIC, drain) writes before",
                "unpaired_wait: " + wait + " CrossCoreWaitFlag"});
}

// The same addition through the queues of Ascend C, whose stub takes a verb's line from its call.
TEST_F(NpuCheck, a_kernel_in_ascend_c_is_recorded_by_a_stub_of_its_header) {
  const std::string source_of = "ascend_c/add.cpp", cpp = "add.cpp";
  const auto at = [&](const std::string& words) {
    return line(source_of, words).substr(source_of.size() - cpp.size());
  };
  expect_words(check("add_in_ascend_c"), 0, {"add_in_ascend_c on ascend-a2-like, ", "\n0 reports\n"});
  const std::string load = at("DataCopy(y, "), sum = at("Add(z, x, y, tile)");
  expect_words(check("add_in_ascend_c_forgets_the_queue"), 1,
               {"race_raw: " + sum + " Add (core 0, vector) reads byte 0 of 'y0' in UB, which " + load +
                " DataCopy (core 0, load_vector) writes before; no set(load_vector, vector, id) after " + load +
                " has its wait before " + sum});
}

TEST_F(NpuCheck, times_come_with_each_pipes_share_and_the_critical_path) {
  const Outcome outcome = check("matmul", "--timing --trace " + file("trace.json"));
  expect_words(outcome, 0,
               {"% of the program's roofline (", "pipes, all cores", "critical path", "slack of work",
                "Fixpipe (" + line("matmul.c", "Fixpipe(product") + ")"});
  EXPECT_NE(read(file("trace.json")).find("\"traceEvents\""), std::string::npos);
  EXPECT_EQ(check("matmul").out.find("roofline"), std::string::npos);
  expect_words(check("matmul_forgets_the_flag", "--timing"), 1, {"\nnot timed: log: no entry can go on."});
}

TEST_F(NpuCheck, syncs_that_order_nothing_are_listed_and_are_no_fault) {
  std::string log = read(record("softmax"));
  const std::size_t end = log.find("{\"event\": \"end\"");
  const std::string twice = log.substr(0, end) +
                            "{\"event\": \"barrier\", \"file\": \"own.c\", \"line\": 99, \"pipe\": \"vector\"}\n"
                            "{\"event\": \"end\", \"events\": " +
                            std::to_string(std::count(log.begin(), log.end(), '\n') - 1) + "}\n";
  expect_words(inlay("npu check " + write("twice.jsonl", twice)), 0,
               {"0 reports\nredundant_sync: the barrier at own.c:99 can go"});
}

TEST_F(NpuCheck, work_beside_its_buffer_or_its_granule_is_reported) {
  std::string log = read(record("add"));
  const std::string tile = "{\"buffer\": 3, \"offset\": 0,";
  const std::size_t at = log.find(tile);
  ASSERT_NE(at, std::string::npos);
  log.replace(at, tile.size(), "{\"buffer\": 3, \"offset\": 4,");
  const std::string load = line("add.c", "DataCopy(of_x[slot]");
  expect_words(inlay("npu check " + write("shifted.jsonl", log)), 1,
               {"capacity: " + load + " DataCopy (core 0, load_vector) writes byte 8195 of 'x0' in UB, which has 8192",
                "alignment: " + load + " DataCopy (core 0, load_vector) writes byte 4 of 'x0' in UB"});
}

// Our own programs in the same form.
TEST_F(NpuCheck, the_log_of_an_operator_is_written_and_taken) {
  for (const char* device : {"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"}) {
    const std::string on = std::string(" --device ") + device;
    const Outcome direct = inlay("npu rms_norm --shape rows=16,dim=256 --cores 1" + on + " --log " + file("log.jsonl"));
    EXPECT_EQ(direct.code, 0) << direct.err;
    const Outcome replayed = inlay("npu check " + file("log.jsonl") + on + " --timing");
    EXPECT_EQ(replayed.code, 0) << replayed.out << replayed.err;
    const auto makespan = [](const std::string& text) {
      const std::size_t at = text.find("makespan ");
      return text.substr(std::min(at, text.size()), text.find("bounds", std::min(at, text.size())) - at);
    };
    EXPECT_EQ(makespan(replayed.out), makespan(direct.out)) << direct.out;
  }
}

TEST_F(NpuCheck, what_is_no_log_is_refused_in_one_line) {
  expect_refused("npu check", {"file"});
  expect_refused("npu check /nowhere.jsonl", {"/nowhere.jsonl cannot be read"});
  expect_refused("npu check /dev", {"/dev cannot be read"});
  expect_refused("npu check " + write("empty.jsonl", ""), {"empty.jsonl: line 1: it is missing"});
  const std::string log = read(record("add"));
  expect_refused("npu check " + write("cut.jsonl", log.substr(0, log.size() / 2)), {"cut.jsonl: line ", "JSON"});
  expect_refused("npu check " + write("own.jsonl", log) + " --device systolic32", {"/streams is there"});
  expect_refused("npu check " + file("own.jsonl") + " --device pdp-11", {"pdp-11"});
  expect_refused("npu check " + file("own.jsonl") + " --trace /nowhere/trace.json", {"/nowhere/trace.json"});
  expect_refused("npu add --shape rows=4,dim=64 --log /nowhere/log.jsonl", {"/nowhere/log.jsonl"});
}

}  // namespace
}  // namespace inlay::test
