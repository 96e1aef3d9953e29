// Event logs as text: what is read, what is written, and what is said of it.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <inlay/npu_log.h>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/check/placement.hpp"
#include "tile_machine/tests/events/log_text.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu::test {
namespace {

TEST(LogFile, EveryEventAndKeyIsRead) {
  const auto file = parse(text_of(whole));
  ASSERT_TRUE(file) << file.error().message();
  const EventLog& log = file->log;
  EXPECT_EQ(file->kernel, "all");
  EXPECT_EQ(log.cores, 2);
  EXPECT_EQ(log.streams, (std::vector<std::uint8_t>{0, 1}));
  ASSERT_EQ(log.entries.size(), 21u);
  const auto by_line = [&](std::uint32_t line) -> const Entry& {
    for (const Entry& entry : log.entries)
      if (entry.site.line() == line) return entry;
    ADD_FAILURE() << line;
    return log.entries[0];
  };
  EXPECT_EQ(log.buffers[0].name, "x");
  EXPECT_TRUE(log.buffers[1].workspace);
  EXPECT_EQ(log.buffers[1].begin, 65536u);
  EXPECT_EQ(by_line(3).event, Event::allocate);
  EXPECT_STREQ(by_line(3).verb, "alloc");

  const Entry& copy = by_line(4);
  EXPECT_EQ(copy.pipe, Pipe::load);
  EXPECT_STREQ(copy.verb, "DataCopy");
  EXPECT_STREQ(copy.site.file_name(), "k.c");
  EXPECT_EQ(copy.site.column(), 7u);
  EXPECT_EQ(copy.work.change, Change::nd2nz);
  EXPECT_EQ(copy.work.bytes, 4096u);
  EXPECT_EQ(copy.work.runs, 4u);
  ASSERT_EQ(copy.footprint_count, 2u);
  const Footprint& read = log.footprints[copy.footprints];
  EXPECT_EQ(std::tuple(read.memory, read.write, read.begin, read.run_bytes, read.runs, read.stride, read.streamed),
            std::tuple(0, false, 64u, 1024u, 4u, 2048u, true));
  EXPECT_TRUE(by_line(5).ring && !by_line(5).unit && by_line(10).unit);
  EXPECT_EQ(by_line(5).pipe, Pipe::load);
  EXPECT_EQ(by_line(6).pipe, Pipe::feed);
  EXPECT_EQ(by_line(6).flag, 7);
  EXPECT_EQ(by_line(8).pipe, Pipe::feed);
  EXPECT_STREQ(by_line(8).verb, "barrier");
  EXPECT_TRUE(by_line(9).work.turned);
  EXPECT_EQ(by_line(13).peer_stream, 1);
  EXPECT_EQ(by_line(13).pipe, Pipe::drain);
  EXPECT_EQ(by_line(14).pipe, Pipe::scalar);  // on A2 the wait stops its stream
  EXPECT_EQ(by_line(14).stream, 1);
  const Work& vector = by_line(15).work;
  EXPECT_EQ(std::tuple(vector.op, vector.in, vector.out, vector.elements, vector.rows, vector.column),
            std::tuple(VectorOp::mul, DType::i8, DType::f16, 64u, 4u, true));
  EXPECT_TRUE(log.footprints[by_line(16).footprints + 1].atomic);
  EXPECT_EQ(by_line(17).peer, 1);
  EXPECT_EQ(by_line(18).peer, 1);
  EXPECT_EQ(by_line(19).line, LineVerb::none);
  EXPECT_EQ(by_line(19).pipe, Pipe::scalar);
  EXPECT_EQ(by_line(20).line, LineVerb::invalidate);
  EXPECT_EQ(by_line(21).line, LineVerb::clean);
  EXPECT_EQ(by_line(22).event, Event::barrier_all);
  EXPECT_EQ(by_line(23).event, Event::sync_all);
}

TEST(LogFile, WhatIsLeftOutIsAsThePageSays) {
  const auto file = parse(
      "{\"inlay_npu_log\":1,\"kernel\":\"k\",\"streams\":[\"AIV\"]}\n"
      R"({"event":"vector","op":"exp","in":"f32","out":"f32","elements":8,"reads":[{"space":"vector","address":0,"bytes":32}]})"
      "\n{\"event\":\"end\",\"events\":1}");
  ASSERT_TRUE(file) << file.error().message();
  const Entry& entry = file->log.entries[0];
  EXPECT_EQ(std::tuple(file->log.cores, entry.core, entry.stream, entry.site.line(), entry.site.column()),
            std::tuple(1, 0, 0, 0u, 0u));
  EXPECT_STREQ(entry.verb, "vector");
  EXPECT_STREQ(entry.site.file_name(), "");
  EXPECT_EQ(std::tuple(entry.work.rows, entry.work.column), std::tuple(1u, false));
  const Footprint& at = file->log.footprints[0];
  EXPECT_EQ(std::tuple(at.runs, at.stride, at.atomic, at.streamed), std::tuple(1u, 0u, false, false));
}

TEST(LogFile, WhatWasReadIsWrittenAndReadAgain) {
  const auto file = parse(text_of(whole));
  ASSERT_TRUE(file);
  const std::string once = log_text(file->log, a2, file->kernel);
  const auto again = parse(once);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(log_text(again->log, a2, again->kernel), once);
  EXPECT_EQ(again->log.entries.size(), file->log.entries.size());
  const std::string path =
      (std::filesystem::temp_directory_path() / ("npu_log_saved_" + std::to_string(::getpid()))).string();
  EXPECT_TRUE(save_log(path, file->log, a2, file->kernel).ok());
  std::ifstream saved(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(saved), std::istreambuf_iterator<char>()), once);
  std::filesystem::remove(path);
  EXPECT_EQ(save_log("/nowhere/log.jsonl", file->log, a2, file->kernel).code(), StatusCode::not_found);
  for (const char* key : {"change", "turned", "broadcast", "ring", "unit", "cache", "atomic", "streamed", "workspace",
                          "stride", "column", "peer_stream", "peer", "file", "line", "core"})
    EXPECT_NE(once.find('"' + std::string(key) + '"'), std::string::npos) << key;
}

// Each function of inlay/npu_log.h, which has no words for some keys: what it writes is what the text above means
// without.
TEST(LogFile, TheHeaderInCWritesEveryEvent) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("npu_log_" + std::to_string(::getpid()) + ".jsonl")).string();
  const auto here = [](std::uint32_t line, const char* verb) { return inlay_npu_at("k.c", line, verb); };
  const char* const streams[] = {"AIC", "AIV"};
  inlay_npu_log log;
  ASSERT_EQ(inlay_npu_open(&log, path.c_str(), "all", 2, streams, 2), 0);
  const auto x = inlay_npu_buffer(&log, here(1, nullptr), "x", "global", 0, 65536),
             w = inlay_npu_buffer(&log, here(2, nullptr), "w", "global", 65536, 4096),
             l1 = inlay_npu_allocate(&log, here(3, "alloc"), "l1", "staging", 0, 8192);
  inlay_npu_copy(&log, here(4, "DataCopy"), "global", "staging", "nd2nz", inlay_npu_in(l1, 0, 4096),
                 inlay_npu_strided(inlay_npu_in(x, 64, 1024), 4, 2048));
  inlay_npu_set(&log, here(5, nullptr), "load", "feed", 7);
  inlay_npu_wait(&log, here(6, nullptr), "load", "feed", 7);
  const inlay_npu_bytes left = inlay_npu_address("left", 0, 512), right = inlay_npu_address("right", 0, 512),
                        sum = inlay_npu_address("accumulator", 0, 1024);
  inlay_npu_copy(&log, here(7, nullptr), "staging", "left", nullptr, left, inlay_npu_in(l1, 0, 512));
  inlay_npu_barrier(&log, here(8, nullptr), "feed");
  inlay_npu_matrix(&log, here(9, "Mmad"), 16, 16, 16, "f16", "f32", 1, sum, left, right);
  inlay_npu_set(&log, here(10, nullptr), "matrix", "drain", 0);
  inlay_npu_wait(&log, here(11, nullptr), "matrix", "drain", 0);
  inlay_npu_release(&log, here(12, nullptr), l1);
  inlay_npu_stream_set(&log, here(13, nullptr), "drain", "load_vector", 10, 1);
  inlay_npu_on(&log, 0, 1);
  inlay_npu_stream_wait(&log, here(14, nullptr), "drain", "load_vector", 10, 0);
  const inlay_npu_bytes source = inlay_npu_address("vector", 0, 128);
  inlay_npu_vector(&log, here(15, "Mul"), "mul", "i8", "f16", 64, 4, 1, inlay_npu_address("vector", 256, 256), &source,
                   1);
  inlay_npu_bytes target = inlay_npu_in(w, 0, 64);
  target.atomic = 1;
  inlay_npu_copy(&log, here(16, nullptr), "vector", "global", nullptr, target, inlay_npu_address("vector", 256, 64));
  inlay_npu_cross_set(&log, here(17, nullptr), "store", 3, 1);
  inlay_npu_on(&log, 1, 1);
  inlay_npu_cross_wait(&log, here(18, nullptr), "load_vector", 3);
  inlay_npu_scalar(&log, here(19, nullptr), 0, inlay_npu_in(x, 0, 4));
  inlay_npu_cache(&log, here(20, nullptr), "invalidate", inlay_npu_in(x, 0, 4));
  inlay_npu_cache(&log, here(21, nullptr), "clean", inlay_npu_address("global", 64, 4));
  inlay_npu_barrier_all(&log, here(22, nullptr));
  inlay_npu_on(&log, 0, 0);
  inlay_npu_sync_all(&log, here(23, nullptr));
  ASSERT_EQ(inlay_npu_close(&log), 0);

  const auto file = load_log(path, a2);
  std::filesystem::remove(path);
  ASSERT_TRUE(file) << file.error().message();
  std::string expected = text_of(whole);
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {",\"workspace\":true", ""},
           {",\"streamed\":true", ""},
           {",\"ring\":true", ""},
           {",\"unit\":true", ""},
           {",\"turned\":true", ""},
           {",\"column\":7", ""},
           {"{\"event\":\"buffer\",\"buffer\":1", "{\"event\":\"buffer\",\"file\":\"k.c\",\"line\":2,\"buffer\":1"}})
    for (std::size_t at; (at = expected.find(from)) != expected.npos;) expected.replace(at, from.size(), to);
  const auto meant = parse(expected);
  ASSERT_TRUE(meant) << meant.error().message();
  EXPECT_EQ(log_text(file->log, a2, file->kernel), log_text(meant->log, a2, meant->kernel));

  // A product that adds, a write of the scalar unit, letters that JSON does not take, and a file that cannot be.
  ASSERT_EQ(inlay_npu_open(&log, path.c_str(), "quote \" and \\", 1, nullptr, 0), 0);
  inlay_npu_matrix(&log, here(1, nullptr), 16, 16, 16, "f16", "f32", 0, sum, left, right);
  inlay_npu_scalar(&log, here(2, "a\tb"), 1, inlay_npu_address("global", 0, 4));
  ASSERT_EQ(inlay_npu_close(&log), 0);
  std::ifstream written(path);
  const std::string text{std::istreambuf_iterator<char>(written), std::istreambuf_iterator<char>()};
  std::filesystem::remove(path);
  EXPECT_NE(text.find("\"kernel\": \"quote \\\" and \\\\\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"verb\": \"a\\u0009b\""), std::string::npos) << text;
  EXPECT_NE(text.find("{\"space\": \"right\", \"address\": 0, \"bytes\": 512}, {\"space\": \"accumulator\""),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\"writes\": [{\"space\": \"global\", \"address\": 0, \"bytes\": 4}]"), std::string::npos)
      << text;
  EXPECT_EQ(inlay_npu_open(&log, "/nowhere/log.jsonl", "k", 1, nullptr, 0), -1);
  inlay_npu_barrier_all(&log, here(1, nullptr));  // nothing is recorded
  EXPECT_EQ(inlay_npu_close(&log), -1);
}

// A transfer is as long as its far side where the text does not say.
TEST(LogFile, BytesOfACopyAreThoseOfItsFarSide) {
  const auto bytes = [](const char* from, const char* to, const std::string& reads, const std::string& writes) {
    const auto file = parse(R"({"inlay_npu_log":1,"kernel":"k","streams":["AIV"]})"
                            "\n"
                            R"({"event":"copy","from":")" +
                            std::string(from) + R"(","to":")" + to + R"(","reads":[)" + reads + R"(],"writes":[)" +
                            writes + "]}\n" + R"({"event":"end","events":1})");
    if (!file) return ADD_FAILURE() << file.error().message(), std::pair<std::uint64_t, std::uint64_t>{};
    return std::pair(file->log.entries[0].work.bytes, file->log.entries[0].work.runs);
  };
  const std::string strided = R"({"space":"global","address":0,"bytes":100,"runs":3,"stride":200})",
                    packed = R"({"space":"vector","address":0,"bytes":320})";
  EXPECT_EQ(bytes("global", "vector", strided, packed), std::pair(std::uint64_t{300}, std::uint64_t{3}));
  EXPECT_EQ(bytes("vector", "global", packed, strided), std::pair(std::uint64_t{300}, std::uint64_t{3}));
  // Scales that a drain reads beside are no part of it. The device's one stream has no name.
  const auto drain =
      parse(R"({"inlay_npu_log":1,"kernel":"k"})"
            "\n"
            R"({"event":"copy","from":"accumulator","to":"vector","reads":[)"
            R"({"space":"accumulator","address":0,"bytes":512},{"space":"staging","address":0,"bytes":128}],)"
            R"("writes":[{"space":"vector","address":256,"bytes":256}]})"
            "\n"
            R"({"event":"end","events":1})",
            hexagon);
  ASSERT_TRUE(drain) << drain.error().message();
  EXPECT_EQ(drain->log.streams, std::vector<std::uint8_t>{0});
  EXPECT_EQ(drain->log.entries[0].work.bytes, 512u);
  EXPECT_EQ(drain->log.entries[0].work.runs, 1u);
}

std::vector<std::string> words(const std::vector<Report>& reports) {
  std::vector<std::string> all;
  for (const Report& report : reports) all.push_back(std::string(name(report.kind)) + ": " + report.message);
  return all;
}

std::vector<std::string> misplaced_in(const std::string& access, const std::string& event = "vector") {
  const std::string head = R"({"inlay_npu_log":1,"kernel":"k","streams":["AIV"]})";
  const std::string tile = R"({"event":"allocate","buffer":0,"name":"tile","space":"vector","address":64,"bytes":256})";
  const std::string work =
      event == "vector" ? R"({"event":"vector","file":"a/k.c","line":3,"op":"exp","in":"f32","out":"f32","elements":8,)"
                        : R"({"event":"scalar","file":"a/k.c","line":3,)";
  const auto file =
      parse(head + "\n" + tile + "\n" + work + "\"writes\":[" + access + "]}\n" + R"({"event":"end","events":2})");
  if (!file) return ADD_FAILURE() << file.error().message(), std::vector<std::string>{};
  return words(misplaced(file->log, a2));
}

TEST(Placement, BytesBehindTheirBufferAndOffTheGranuleAreReported) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(misplaced_in(R"({"buffer":0,"offset":224,"bytes":32})"), Words{});
  EXPECT_EQ(misplaced_in(R"({"buffer":0,"offset":224,"bytes":33})"),
            Words{"capacity: k.c:3 vector (core 0, vector) writes byte 256 of 'tile' in UB, which has 256 bytes"});
  EXPECT_EQ(misplaced_in(R"({"buffer":0,"offset":0,"bytes":32,"runs":2,"stride":256})").size(), 1u);
  EXPECT_EQ(
      misplaced_in(R"({"buffer":0,"offset":4,"bytes":32})"),
      Words{"alignment: k.c:3 vector (core 0, vector) writes byte 4 of 'tile' in UB, at address 68, which must be "
            "a multiple of 32"});
  EXPECT_EQ(misplaced_in(R"({"buffer":0,"offset":0,"bytes":8,"runs":4,"stride":40})"),
            Words{"alignment: k.c:3 vector (core 0, vector) writes byte 0 of 'tile' in UB in runs that start 40 bytes "
                  "apart, which must be a multiple of 32"});
  EXPECT_EQ(misplaced_in(R"({"buffer":0,"offset":4,"bytes":4})", "scalar"), Words{});
}

// Two queues that wait for each other before either sets.
TEST(LogFile, AWaitThatIsNeverOverIsNamedByTheKernelsLines) {
  const auto event = [](const char* which, int line, const char* from, const char* to) {
    return std::string("{\"event\":\"") + which + "\",\"file\":\"k.c\",\"line\":" + std::to_string(line) +
           ",\"from\":\"" + from + "\",\"to\":\"" + to + "\",\"flag\":0}\n";
  };
  const std::string head = "{\"inlay_npu_log\":1,\"kernel\":\"k\",\"streams\":[\"AIV\"]}\n";
  const auto found = [&](const std::string& events, int count) {
    const auto file = parse(head + events + "{\"event\":\"end\",\"events\":" + std::to_string(count) + "}");
    if (!file) return ADD_FAILURE() << file.error().message(), std::string();
    EXPECT_FALSE(time_events(file->log, a2));
    std::string all;
    for (const std::string& each : words(check(file->log, a2))) all += each + "\n";
    return all;
  };
  const std::string crossed = found(event("wait", 1, "store", "vector") + event("set", 2, "vector", "store") +
                                        event("wait", 3, "vector", "store") + event("set", 4, "store", "vector"),
                                    4);
  EXPECT_NE(crossed.find("deadlock: nothing can run any more: k.c:1 wait (core 0, vector) waits for flag 0 of store -> "
                         "vector of k.c:4; k.c:3 wait"),
            std::string::npos)
      << crossed;
  const std::string alone = found(event("wait", 1, "store", "vector"), 1);
  EXPECT_NE(alone.find("unpaired_wait: k.c:1 wait (core 0, vector) waits for flag 0 of store -> vector, which nothing "
                       "sets that often"),
            std::string::npos)
      << alone;
}

}  // namespace
}  // namespace inlay::npu::test
