// Logs of msprof, and the figures that they tell: of logs made from a description that the fit does not see.
#include <gtest/gtest.h>

#include "tile_machine/fit/csv.hpp"
#include "tile_machine/fit/fit.hpp"
#include "tile_machine/fit/instruction.hpp"
#include "tile_machine/tests/fit/msprof_logs.hpp"

namespace inlay::npu {
namespace {

std::string stock_text() { return text_of(directory / "ascend-a2-like.json"); }

// Figures that are documented or assumed otherwise in ascend-a2-like, one of each kind that instructions tell.
Device hidden() {
  return hidden_device({{"/vector/operations/add/head", 21},
                        {"/vector/operations/add/slope", 2},
                        {"/vector/operations/div/slope", 8},
                        {"/vector/operations/reduce_sum/head", 50},
                        {"/vector/operations/reduce_sum/slope", 4},
                        {"/paths/0/bytes_per_cycle", 78},
                        {"/paths/0/nd2nz/bytes_per_cycle", 40},
                        {"/paths/0/nd2nz/run_cycles", 2.5},
                        {"/paths/1/bytes_per_cycle", 59},
                        {"/paths/1/half_burst", 200},
                        {"/paths/1/latency", 760},
                        {"/paths/2/bytes_per_cycle", 256},
                        {"/paths/3/bytes_per_cycle", 128},
                        {"/paths/3/latency", 24},
                        {"/paths/5/bytes_per_cycle", 70},
                        {"/paths/5/half_burst", 64}});
}

double figure(const Device& device, const std::string& pointer) {
  for (const Provenance& each : device.provenance)
    if (each.pointer == pointer) return each.value;
  ADD_FAILURE() << pointer << " is no figure";
  return 0;
}

std::set<std::string> pointers(const auto& figures) {
  std::set<std::string> result;
  for (const auto& each : figures) result.insert(each.pointer);
  return result;
}

const std::set<std::string> of_transfers{
    "/paths/0/bytes_per_cycle",  "/paths/0/half_burst",      "/paths/0/latency",    "/paths/0/nd2nz/bytes_per_cycle",
    "/paths/0/nd2nz/run_cycles", "/paths/1/bytes_per_cycle", "/paths/1/half_burst", "/paths/1/latency",
    "/paths/5/bytes_per_cycle",  "/paths/5/half_burst",      "/paths/5/latency"};
const std::set<std::string> of_feeds{"/paths/2/bytes_per_cycle", "/paths/2/latency", "/paths/3/bytes_per_cycle",
                                     "/paths/3/latency"};

std::set<std::string> of_vectors() {
  std::set<std::string> result;
  for (const char* op : {"add", "mul", "div", "exp", "reduce_sum"})
    for (const char* part : {"/head", "/slope"}) result.insert(std::string("/vector/operations/") + op + part);
  return result;
}

void expect_close(const Fit& fit, const Device& device, double part) {
  for (const FittedFigure& each : fit.figures) {
    const double true_value = figure(device, each.pointer);
    EXPECT_NEAR(each.value, true_value, part * true_value) << each.pointer;
    // Two standard errors, and as much again: one of twenty lies outside the first.
    EXPECT_LE(each.value * (2 * each.low - 1), true_value * (1 + 1e-3)) << each.pointer;
    EXPECT_GE(each.value * (2 * each.high - 1), true_value * (1 - 1e-3)) << each.pointer;
  }
}

Fit fit_of_trace(const std::string& text, const Device& stock) {
  auto log = read_trace(text, "trace.json", stock);
  EXPECT_TRUE(log) << log.error().message();
  const std::vector<InstructionLog> logs{std::move(*log)};
  return fit_instructions(stock, logs);
}

TEST(Fit, ATraceTellsVectorOperationsAndPaths) {
  const Device stock = hidden_device({}), device = hidden();
  const Fit fit = fit_of_trace(trace_json(device, run_exercise(device)), stock);
  std::set<std::string> expected = of_transfers;
  expected.merge(of_vectors());
  expected.merge(std::set(of_feeds));
  EXPECT_EQ(pointers(fit.figures), expected);
  expect_close(fit, device, 1e-3);
  // Fractals are runs of one length.
  EXPECT_EQ(pointers(fit.open), (std::set<std::string>{"/paths/2/half_burst", "/paths/3/half_burst"}));
}

TEST(Fit, ATraceWithNoiseTellsThemToWithinFivePercent) {
  const Device stock = hidden_device({}), device = hidden();
  const ExercisedDevice run = run_exercise(device, 48);
  for (const std::uint32_t seed : {1, 2, 3}) {
    const Fit fit = fit_of_trace(trace_json(device, run, 0.03, seed), stock);
    std::set<std::string> expected = of_vectors();
    expected.merge(std::set(of_feeds));
    for (const char* path : {"/paths/0", "/paths/1", "/paths/5"})
      for (const char* part : {"/bytes_per_cycle", "/latency"}) expected.insert(std::string(path) + part);
    std::set<std::string> told = pointers(fit.figures);
    for (const std::string& each : expected) EXPECT_TRUE(told.contains(each)) << each << ", seed " << seed;
    expect_close(fit, device, 0.05);
  }
}

// Each place in the code has a row, with the cycles of all its executions together.
TEST(Fit, InstructionsTellWhatWorksOneAtATime) {
  const Device stock = hidden_device({}), device = hidden();
  for (const double noise : {0.0, 0.03}) {
    auto log =
        read_instructions(instructions_csv(device, run_exercise(device, 48), noise), "core0_instr_exe.csv", stock);
    ASSERT_TRUE(log) << log.error().message();
    EXPECT_GT(log->set_aside, 1000u) << "transfers that were under way together";
    const std::vector<InstructionLog> logs{std::move(*log)};
    const Fit fit = fit_instructions(stock, logs);
    std::set<std::string> expected = of_vectors();
    expected.merge(std::set(of_feeds));
    EXPECT_EQ(pointers(fit.figures), expected) << noise;
    expect_close(fit, device, noise == 0 ? 0.01 : 0.05);
  }
}

// Beside another queue's transfers each takes longer: what a path can do alone they do not tell.
TEST(Fit, TransfersThatShareGlobalMemoryAreLeftOut) {
  const Device stock = hidden_device({});
  Json events = Json::array();
  for (int i = 0; i < 40; ++i)
    for (const char* target : {"UB", "L1"}) {
      const std::uint64_t bytes = 1024 * static_cast<std::uint64_t>(1 + i % 5);
      events.push_back(
          {{"ph", "X"},
           {"name", "MOV_SRC_TO_DST_ALIGN"},
           {"pid", target},
           {"ts", i * 2.0},
           {"dur", 1 + static_cast<double>(bytes) / 32 / 1850},
           {"args",
            {{"detail", std::string("Src:OUT, Dst:") + target + ", XM:X0=" + hexadecimal(1 << 4 | bytes << 16)}}}});
    }
  const Fit together = fit_of_trace(events.dump(), stock);
  EXPECT_TRUE(together.figures.empty());
  ASSERT_FALSE(together.open.empty());
  EXPECT_NE(together.open[0].why.find("0 of them alone"), std::string::npos) << together.open[0].why;
}

// A path that is faster than a core's share was thought to be would be held back by it.
TEST(Fit, ACoreMovesWhatItsFastestPathDoes) {
  const Device stock = hidden_device({}),
               device = hidden_device({{"/dram/bytes_per_cycle_core", 300}, {"/paths/1/bytes_per_cycle", 200}});
  const Fit fit = fit_of_trace(trace_json(device, run_exercise(device)), stock);
  for (const char* pointer : {"/paths/1/bytes_per_cycle", "/dram/bytes_per_cycle_core"}) {
    const auto found = std::find_if(fit.figures.begin(), fit.figures.end(),
                                    [&](const FittedFigure& each) { return each.pointer == pointer; });
    ASSERT_NE(found, fit.figures.end()) << pointer;
    EXPECT_NEAR(found->value, 200, 2) << pointer;
  }
  const auto fitted = with_figures(stock_text(), fit.figures);
  ASSERT_TRUE(fitted) << fitted.error().message();
}

TEST(Fit, OneNumberOfRepeatsLeavesHeadAndSlopeOpen) {
  const Device stock = hidden_device({});
  std::string text = "instr,call_count,cycles,detail\n";
  for (int i = 0; i < 20; ++i) text += "VADD,1," + std::to_string(30 + i % 2) + ",\"XT:X8=0x800080808010101\"\n";
  auto log = read_instructions(text, "one.csv", stock);
  ASSERT_TRUE(log) << log.error().message();
  const Fit fit = fit_instructions(stock, std::vector<InstructionLog>{std::move(*log)});
  EXPECT_TRUE(fit.figures.empty());
  EXPECT_EQ(pointers(fit.open), (std::set<std::string>{"/vector/operations/add/head", "/vector/operations/add/slope"}));
}

TEST(Fit, PipeUtilizationTellsTheClockAndWhatAPathCanDoAtLeast) {
  const Device stock = hidden_device({});
  const auto rates = read_pipe_utilization(
      "block_id,sub_block_id,aic_time(us),aic_total_cycles,aiv_time(us),aiv_total_cycles,aiv_mte2_active_bw(GB/s),"
      "aiv_mte3_active_bw(GB/s)\n"
      "0,cube0,10,16400,NA,NA,NA,NA\n"
      "0,vector0,NA,NA,20,33000,264,100\n"
      "0,vector1,NA,NA,20,33400,250,90\n",
      "PipeUtilization.csv", stock);
  ASSERT_TRUE(rates) << rates.error().message();
  const Fit fit = fit_rates(stock, std::vector<PipeRates>{*rates});
  ASSERT_EQ(pointers(fit.figures), (std::set<std::string>{"/ghz", "/paths/1/bytes_per_cycle"}));
  EXPECT_DOUBLE_EQ(fit.figures[0].value, 1.65);
  EXPECT_DOUBLE_EQ(fit.figures[0].value * fit.figures[0].low, 1.64);
  EXPECT_DOUBLE_EQ(fit.figures[0].value * fit.figures[0].high, 1.67);
  EXPECT_DOUBLE_EQ(fit.figures[1].value, 160);
  EXPECT_EQ(fit.figures[1].low, 1);
  EXPECT_DOUBLE_EQ(fit.figures[1].high, 256.0 / 160) << "what it may have been";
  ASSERT_EQ(pointers(fit.open), (std::set<std::string>{"/paths/5/bytes_per_cycle"}));
  EXPECT_NE(fit.open[0].why.find("60.61"), std::string::npos) << fit.open[0].why;
}

TEST(Fit, AFittedDescriptionNamesItsLogsAndIsFittedAgain) {
  const std::vector<FittedFigure> figures{{"/vector/operations/add/slope", 1, 2.000001, 0.98, 1.02, "log:a.json: 7"},
                                          {"/ghz", 1.85, 1.65, 1, 1, "log:b.csv: 3"}};
  const auto text = with_figures(stock_text(), figures);
  ASSERT_TRUE(text) << text.error().message();
  const Json json = Json::parse(*text);
  EXPECT_EQ(json["version"], description("ascend-a2-like")["version"].get<int>() + 1);
  EXPECT_EQ(json.at(Pointer("/vector/operations/add/slope")), (Json{2, "fit/vector/operations/add/slope"}));
  const Json& source = json["sources"]["fit/vector/operations/add/slope"];
  EXPECT_EQ(source["confidence"], "measured");
  EXPECT_EQ(source["range"], (Json{0.98, 1.02}));
  EXPECT_EQ(source["text"], "log:a.json: 7. It was 1.");
  EXPECT_FALSE(json["sources"].contains("clock")) << "no figure names it any more";
  EXPECT_FALSE(json["sources"]["fit/ghz"].contains("range"));
  const auto again = with_figures(*text, std::vector<FittedFigure>{{"/ghz", 1.65, 1.7, 1, 1, "log:c.csv: 1"}});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(Json::parse(*again)["sources"]["fit/ghz"]["text"], "log:c.csv: 1. It was 1.65.");
  EXPECT_NE(text->find("\n  \"ghz\": [1.65,\"fit/ghz\"],\n"), std::string::npos) << "a figure stands in one line\n"
                                                                                 << *text;
  const auto broken = with_figures(stock_text(), std::vector<FittedFigure>{{"/ghz", 1.85, 1000, 1, 1, "log:d"}});
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message().find("/ghz/0 is 1000"), std::string_view::npos) << broken.error().message();
}

TEST(Fit, OperandsTellTheWorkOfAnInstruction) {
  const auto add =
      vector_instruction("VADD", "XD:X16=0x400, XN:X13=0, XM:X14=0x200, XT:X8=0x4000080808010101, Dtype:F16");
  ASSERT_TRUE(add);
  EXPECT_EQ(add->op, VectorOp::add);
  EXPECT_EQ(add->repeats, 64);
  EXPECT_FALSE(vector_instruction("VADD", "XD:X16=0x400, XT:X8")) << "a register without its content";
  EXPECT_FALSE(vector_instruction("VADD", "XT:X8=0x80808010101")) << "a mask counts";
  EXPECT_FALSE(vector_instruction("VMS4", "XT:X8=0x100080808010101"));
  const auto blocks = move_instruction("MOV_OUT_TO_UB", "XD:X9=0x70000, XN:X0=0x113f9600, XM:X3=0x100020, id: 34");
  ASSERT_TRUE(blocks);
  EXPECT_EQ(blocks->from, Space::global);
  EXPECT_EQ(blocks->to, Space::vector);
  EXPECT_EQ(blocks->runs, 2);
  EXPECT_EQ(blocks->bytes, 2 * 16 * 32);
  const auto aligned = move_instruction("MOV_SRC_TO_DST_ALIGN", "Src:UB, Dst:OUT, XM:X0=0x640020, XT:X0=0, Dtype:B8");
  ASSERT_TRUE(aligned);
  EXPECT_EQ(aligned->to, Space::global);
  EXPECT_EQ(aligned->bytes, 2 * 100) << "in bytes, not in blocks";
  const auto rows = move_instruction("MOV_OUT_TO_L1_MULTI_ND2NZ", "Src:OUT, Dst:L1, XM:X0=0x4000100000, Dtype:B16");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->change, Change::nd2nz);
  EXPECT_EQ(rows->runs, 16);
  EXPECT_EQ(rows->bytes, 16 * 64 * 2);
  EXPECT_FALSE(move_instruction("FIX_L0C_TO_DST", "Src:L0C32, Dst:OUT, XM:X0=0x100100")) << "bytes are not told";
  const auto drain = move_instruction("FIX_L0C_TO_DST", "Src:L0C32, Dst:OUT, XM:X0=0x100100", 512);
  ASSERT_TRUE(drain);
  EXPECT_EQ(drain->from, Space::accumulator);
  EXPECT_EQ(drain->runs, 16);
  EXPECT_EQ(drain->bytes, 512);
  EXPECT_FALSE(move_instruction("MOV_XD_IMM", "XD:X1=0x10")) << "no memory";
}

TEST(Csv, CellsMayBeQuotedAndRowsHaveAsManyAsColumns) {
  const auto table = parse_csv(
      "\xef\xbb\xbf"
      "a, b ,c\r\n1,\"x, \"\"y\"\"\n z\",\n\n2,3, 4 \n");
  ASSERT_TRUE(table) << table.error().message();
  EXPECT_EQ(table->columns, (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_EQ(table->rows[0].cells, (std::vector<std::string>{"1", "x, \"y\"\n z", ""}));
  EXPECT_EQ(table->rows[1].cells, (std::vector<std::string>{"2", "3", "4"}));
  EXPECT_EQ(table->rows[1].line, 5u);
}

TEST(Logs, WhatIsWrongIsNamed) {
  const Device stock = hidden_device({});
  struct Case {
    const char *text, *words;
  };
  const auto refusal = [&](const std::string& text) {
    const auto kind = kind_of_log(text);
    const auto words = [](const auto& read) { return read ? "it was read" : std::string(read.error().message()); };
    if (!kind) return words(kind);
    switch (*kind) {
      case LogKind::trace: return words(read_trace(text, "log", stock));
      case LogKind::instructions: return words(read_instructions(text, "log", stock));
      case LogKind::pipe_utilization: return words(read_pipe_utilization(text, "log", stock));
      case LogKind::times: return words(read_times(text));
    }
    return std::string();
  };
  for (const Case& each : {
           Case{"", "is empty: it must have a line of columns"},
           {"a,b\n1,2\n", "is no log, its first line is \"a, b\": it must be JSON, or have columns instr"},
           {"\"a,b\n", "line 1 has a quote that is not closed"},
           {"{\"events\": []}", "has no traceEvents: it must have a list of them"},
           {"{\"traceEvents\": [", "the text here must be JSON"},
           {R"([{"ph": "X", "name": "VADD", "ts": -1, "dur": 2}])", "/0 has no ts and dur of at least 0"},
           {R"({"traceEvents": [{"ph": "X", "name": "VADD", "ts": 1, "dur": "2 us"}]})",
            "/traceEvents/0 has no ts and dur of at least 0: an event X must, in microseconds"},
           {R"([{"ph": "X", "name": "JUMP", "ts": 1, "dur": 2}])", "has no instruction whose work it tells, of 1"},
           {"instr,call_count,cycles\nVADD,1,2\n",
            "line 1 has the columns instr, call_count, cycles: it must also have detail"},
           {"instr,call_count,cycles,detail\nVADD,1\n", "line 2 has 2 cells: it must have 4, as line 1 has"},
           {"instr,call_count,cycles,detail\nVADD,one,2,x\n",
            "line 2: call_count is \"one\": it must be a number of at least 0"},
           {"instr,call_count,cycles,detail\nVADD,1,-2,x\n",
            "line 2: cycles is \"-2\": it must be a number of at least 0"},
           {"block_id,aiv_total_cycles,aiv_time(ms)\n0,1,1\n", "it must also have aiv_time(us)"},
           {"block_id\n0\n", "it must also have aic_total_cycles, aiv_total_cycles"},
           {"block_id,aiv_total_cycles,aiv_time(us)\n0,1,x\n", "line 2: aiv_time(us) is \"x\""},
           {"block_id,aiv_total_cycles,aiv_time(us)\n0,NA,NA\n", "has no row with cycles and a time above 0"},
           {"operator,shape,ms\nadd,,1\n", "line 1 has the columns operator, shape, ms: it must also have us"},
           {"operator,shape,us\n", "has no row"},
           {"operator,shape,us\nadd,\"rows=1,dim=2\",-3\n", "line 2: us is \"-3\": it must be a number of at least 0"},
           {"operator,shape,us\nadd,,0\n", "line 2: us is 0: it must be above 0, in microseconds"},
       })
    EXPECT_NE(refusal(each.text).find(each.words), std::string::npos) << each.text << '\n' << refusal(each.text);
}

}  // namespace
}  // namespace inlay::npu
