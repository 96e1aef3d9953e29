// Event logs as text: what is read, what is written, and every wrong line by its number and words.
#include "tile_machine/events/log_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <inlay/npu_log.h>

#include "tests/support/source_dir.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/check/placement.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu::test {
namespace {

Device described(const std::string& name) {
  auto device = load_device(inlay::test::source_path("tile_machine/devices/") + name + ".json");
  EXPECT_TRUE(device) << device.error().message();
  return device ? *std::move(device) : Device{};
}
const Device a2 = described("ascend-a2-like"), hexagon = described("hexagon-htp-like");

// Every event once, every key somewhere: two cores with a cube core and a vector core each.
const std::vector<std::string> whole = {
    R"({"inlay_npu_log":1,"kernel":"all","cores":2,"streams":["AIC","AIV"]})",
    R"({"event":"buffer","file":"k.c","line":1,"buffer":0,"name":"x","space":"global","address":0,"bytes":65536})",
    R"({"event":"buffer","buffer":1,"name":"w","space":"global","address":65536,"bytes":4096,"workspace":true})",
    R"({"event":"allocate","verb":"alloc","file":"k.c","line":3,"buffer":2,"name":"l1","space":"staging","address":0,"bytes":8192})",
    R"({"event":"copy","verb":"DataCopy","file":"k.c","line":4,"column":7,"from":"global","to":"staging","bytes":4096,"runs":4,"change":"nd2nz","reads":[{"buffer":0,"offset":64,"bytes":1024,"runs":4,"stride":2048,"streamed":true}],"writes":[{"buffer":2,"offset":0,"bytes":4096}]})",
    R"({"event":"set","file":"k.c","line":5,"from":"load","to":"feed","flag":7,"ring":true})",
    R"({"event":"wait","file":"k.c","line":6,"from":"load","to":"feed","flag":7,"ring":true})",
    R"({"event":"copy","file":"k.c","line":7,"from":"staging","to":"left","bytes":512,"runs":1,"reads":[{"buffer":2,"offset":0,"bytes":512}],"writes":[{"space":"left","address":0,"bytes":512}]})",
    R"({"event":"barrier","file":"k.c","line":8,"pipe":"feed"})",
    R"({"event":"matrix","verb":"Mmad","file":"k.c","line":9,"m":16,"n":16,"k":16,"in":"f16","out":"f32","turned":true,"reads":[{"space":"left","address":0,"bytes":512},{"space":"right","address":0,"bytes":512}],"writes":[{"space":"accumulator","address":0,"bytes":1024}]})",
    R"({"event":"set","file":"k.c","line":10,"from":"matrix","to":"drain","flag":0,"unit":true})",
    R"({"event":"wait","file":"k.c","line":11,"from":"matrix","to":"drain","flag":0,"unit":true})",
    R"({"event":"release","file":"k.c","line":12,"buffer":2})",
    R"({"event":"stream_set","file":"k.c","line":13,"peer_stream":1,"from":"drain","to":"load_vector","flag":10})",
    R"({"event":"stream_wait","stream":1,"file":"k.c","line":14,"from":"drain","to":"load_vector","flag":10,"peer_stream":0})",
    R"({"event":"vector","stream":1,"verb":"Add","file":"k.c","line":15,"op":"add","in":"f16","out":"f32","elements":64,"rows":4,"broadcast":true,"reads":[{"space":"vector","address":0,"bytes":128}],"writes":[{"space":"vector","address":256,"bytes":256}]})",
    R"({"event":"copy","stream":1,"file":"k.c","line":16,"from":"vector","to":"global","bytes":64,"runs":1,"reads":[{"space":"vector","address":256,"bytes":64}],"writes":[{"buffer":1,"offset":0,"bytes":64,"atomic":true}]})",
    R"({"event":"cross_set","stream":1,"file":"k.c","line":17,"peer":1,"pipe":"store","flag":3})",
    R"({"event":"cross_wait","core":1,"stream":1,"file":"k.c","line":18,"pipe":"load_vector","flag":3})",
    R"({"event":"scalar","core":1,"stream":1,"file":"k.c","line":19,"reads":[{"buffer":0,"offset":0,"bytes":4}]})",
    R"({"event":"scalar","core":1,"stream":1,"file":"k.c","line":20,"cache":"invalidate","reads":[{"buffer":0,"offset":0,"bytes":4}]})",
    R"({"event":"scalar","core":1,"stream":1,"file":"k.c","line":21,"cache":"clean","reads":[{"space":"global","address":64,"bytes":4}]})",
    R"({"event":"barrier_all","core":1,"stream":1,"file":"k.c","line":22})",
    R"({"event":"sync_all","file":"k.c","line":23})",
    R"({"event":"end","events":23})"};

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

tl::expected<LogFile, Status> parse(const std::string& text, const Device& device = a2) {
  std::istringstream stream(text);
  return read_log(stream, device);
}

std::string refusal(const std::string& text, const Device& device = a2) {
  const auto file = parse(text, device);
  if (file) return "it was taken";
  EXPECT_EQ(file.error().code(), StatusCode::corrupt_data);
  return std::string(file.error().message());
}

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
            std::tuple(VectorOp::add, DType::f16, DType::f32, 64u, 4u, true));
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

TEST(LogFile, WhatWasReadIsWrittenAndReadAgain) {
  const auto file = parse(text_of(whole));
  ASSERT_TRUE(file);
  const std::string once = log_text(file->log, a2, file->kernel);
  const auto again = parse(once);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(log_text(again->log, a2, again->kernel), once);
  EXPECT_EQ(again->log.entries.size(), file->log.entries.size());
  for (const char* key : {"change", "turned", "broadcast", "ring", "unit", "cache", "atomic", "streamed", "workspace",
                          "stride", "column", "peer_stream", "peer"})
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
  inlay_npu_vector(&log, here(15, "Add"), "add", "f16", "f32", 64, 4, 1, inlay_npu_address("vector", 256, 256), &source,
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
}

// The line in place of the one that has these words, and what must be said of it.
struct Wrong {
  std::string words, line;
  std::vector<std::string> says;
};

TEST(LogFile, WrongLinesAreRefusedByNumberAndWords) {
  const auto with = [](const std::string& words, const std::string& from, const std::string& to) {
    for (const std::string& line : whole)
      if (line.find(words) != line.npos) {
        std::string changed = line;
        const std::size_t at = changed.find(from);
        EXPECT_NE(at, changed.npos) << words << " " << from;
        return at == changed.npos ? changed : changed.replace(at, from.size(), to);
      }
    return ADD_FAILURE() << words, std::string();
  };
  const auto changed = [&](const std::string& words, const std::string& from, const std::string& to,
                           std::vector<std::string> says) {
    return Wrong{words, with(words, from, to), std::move(says)};
  };
  const std::string copy = "\"line\":4,", set = "\"line\":5,", left = "\"line\":7,", matrix = "\"line\":9,",
                    release = "\"line\":12,", over = "\"line\":13,", vector = "\"line\":15,", store = "\"line\":16,",
                    l1 = "\"line\":3,", head = "inlay_npu_log", x = "\"line\":1,";
  const std::vector<Wrong> all = {
      {set, "", {"line 6: ", "JSON"}},
      {set, "{\"event\":\"se", {"line 6: /event: the text here must be JSON"}},
      {set, "[1]", {"line 6: / is an array of 1: it must be an object"}},
      {set, "{\"line\":5}", {"line 6: /event is missing; it must be one of buffer, allocate"}},
      {set, "\xff\xfe", {"line 6: "}},
      changed(set, "\"set\"", "\"raise\"", {"line 6: /event is \"raise\": it must be one of", "stream_wait"}),
      changed(set, "flag\":7", "flag\":8", {"line 6 (k.c:5): /flag is 8: it must be a whole number from 0 to 7"}),
      changed(set, "flag\":7", "flag\":-1", {"line 6 (k.c:5): /flag is -1"}),
      changed(set, "flag\":7", "flag\":1.5", {"line 6 (k.c:5): /flag is 1.5"}),
      changed(set, "flag\":7", "flag\":7,\"flag\":7", {"line 6: /flag stands twice"}),
      changed(set, ",\"flag\":7", "", {"line 6 (k.c:5): /flag is missing"}),
      changed(set, "\"ring\":true", "\"ringg\":true", {"line 6 (k.c:5): /ringg is unknown"}),
      changed(set, "\"ring\":true", "\"ring\":1", {"line 6 (k.c:5): /ring is 1: it must be true or false"}),
      changed(set, "\"load\"", "\"dma\"", {"line 6 (k.c:5): /from is \"dma\": it must be one of scalar, load"}),
      changed(set, "\"feed\"", "\"vector\"",
              {"line 6 (k.c:5): /to is the work of vector: the stream AIC has no queue AIV.V"}),
      changed(set, "\"file\"", "\"core\":2,\"file\"", {"line 6 (k.c:5): /core is 2: ", "from 0 to 1"}),
      changed(set, "\"file\"", "\"stream\":2,\"file\"", {"line 6 (k.c:5): /stream is 2: "}),
      changed(set, "\"line\":5", "\"line\":4294967296", {"line 6: /line is 4294967296", "from 0 to 4294967295"}),
      changed(set, "\"k.c\"", "\"k\\n.c\"", {"line 6: /file is", "without control characters"}),
      changed(head, "log\":1", "log\":2", {"line 1: /inlay_npu_log is 2: it must be 1"}),
      changed(head, "inlay_npu_log", "log", {"line 1: /inlay_npu_log is missing; the first line must be"}),
      changed(head, "\"AIV\"", "\"AIV\",\"AIV\",\"AIV\"", {"line 1: /streams is an array of 4"}),
      changed(head, "\"AIV\"", "\"AIC\"", {"line 1: /streams/1 is \"AIC\": it must be named at most 1 times"}),
      changed(head, "\"AIV\"", "\"HVX\"", {"line 1: /streams/1 is \"HVX\": it must be one of AIC, AIV"}),
      changed(head, "cores\":2", "cores\":25", {"line 1: /cores is 25: ", "from 1 to 24"}),
      changed(head, "\"kernel\":\"all\",", "", {"line 1: /kernel is missing"}),
      {set, whole[0], {"line 6: /inlay_npu_log stands in a second header, of version 1"}},
      {set, with(head, "log\":1", "log\":2"), {"line 6: /inlay_npu_log stands in a second header, of version 2"}},
      changed(x, "buffer\":0", "buffer\":1", {"line 2 (k.c:1): /buffer is 1: it must be 0"}),
      changed(x, "\"global\"", "\"vector\"", {"line 2 (k.c:1): /space is \"vector\"", "AIC", "no memory UB"}),
      changed(x, "bytes\":65536", "bytes\":68719476737", {"line 2 (k.c:1): /bytes is 68719476737"}),
      changed(l1, "bytes\":8192", "bytes\":524289", {"line 4 (k.c:3): /bytes is 524289", "524288"}),
      changed(l1, "\"staging\"", "\"global\"", {"line 4 (k.c:3): /space is \"global\"", "a core's own"}),
      changed(copy, "\"to\":\"staging\"", "\"to\":\"left\"",
              {"line 5 (k.c:4): /to is left: ascend-a2-like has no path there from global"}),
      changed(copy, "\"to\":\"staging\"", "\"to\":\"vector\"",
              {"line 5 (k.c:4): /to is the work of load_vector: the stream AIC has no queue AIV.MTE2"}),
      changed(copy, "\"nd2nz\"", "\"turn\"", {"line 5 (k.c:4): /change is \"turn\": it must be none"}),
      changed(copy, "offset\":64", "offset\":68719476735", {"line 5 (k.c:4): /reads/0 ends at byte", "of GM"}),
      changed(copy, "\"buffer\":2,\"offset\":0,\"bytes\":4096", "\"buffer\":2,\"offset\":524288,\"bytes\":4096",
              {"line 5 (k.c:4): /writes/0 ends at byte 528384 of L1, which has 524288"}),
      changed(copy, "\"offset\":0,\"bytes\":4096", "\"offset\":0,\"bytes\":4096,\"runs\":2,\"stride\":524288",
              {"line 5 (k.c:4): /writes/0 ends at byte 528384 of L1, which has 524288"}),
      changed(copy, "\"from\"", "\"core\":1,\"from\"",
              {"line 5 (k.c:4): /writes/0/buffer is 2: it must be one of this core and stream"}),
      changed(copy, "\"buffer\":2", "\"buffer\":3",
              {"line 5 (k.c:4): /writes/0/buffer is 3: it must be that of a line"}),
      changed(copy, "\"buffer\":0", "\"buffer\":2", {"line 5 (k.c:4): /reads/0 lies in L1: it must lie in global"}),
      changed(copy, "\"offset\":64", "\"address\":64", {"line 5 (k.c:4): /reads/0/address goes with space"}),
      changed(copy, "\"buffer\":0", "\"buffer\":0,\"space\":\"global\"",
              {"line 5 (k.c:4): /reads/0 has a buffer and a"}),
      changed(copy, "\"buffer\":0,", "", {"line 5 (k.c:4): /reads/0 has neither"}),
      changed(copy, "\"bytes\":1024,", "", {"line 5 (k.c:4): /reads/0/bytes is missing"}),
      changed(copy, "bytes\":4096", "bytes\":17179869184", {"line 5 (k.c:4): /bytes is 17179869184"}),
      changed(copy, "runs\":4", "runs\":5000", {"line 5 (k.c:4): /runs is 5000", "0 to 4096"}),
      changed(left, "\"space\":\"left\"", "\"space\":\"vector\"", {"line 8 (k.c:7): /writes/0/space is \"vector\""}),
      changed(left, "\"space\":\"left\"", "\"space\":\"right\"", {"line 8 (k.c:7): /writes/0 lies in L0B: ", "left"}),
      changed(matrix, "\"m\":16", "\"m\":0", {"line 10 (k.c:9): /m is 0"}),
      changed(matrix, "\"m\":16", "\"m\":65536",
              {"line 10 (k.c:9): /m is 65536: 65536 x 16 elements of f16 are more than L0A holds"}),
      changed(matrix, "\"f16\"", "\"f32\"", {"line 10 (k.c:9): /in is f32: the matrix unit", "has no rate"}),
      changed(matrix, "\"f16\"", "\"f8\"", {"line 10 (k.c:9): /in is \"f8\""}),
      changed(matrix, "\"file\"", "\"stream\":1,\"file\"", {"line 10 (k.c:9): /event is the work of matrix", "AIV"}),
      changed(release, "buffer\":2", "buffer\":0",
              {"line 13 (k.c:12): /buffer is 0: it must be one that was allocated"}),
      changed(release, "buffer\":2", "buffer\":9", {"line 13 (k.c:12): /buffer is 9"}),
      changed(release, "\"file\"", "\"core\":1,\"file\"", {"line 13 (k.c:12): /buffer is 2", "this core and stream"}),
      {over, whole[12], {"line 14 (k.c:12): /buffer is 2: it must be one that has not been released yet"}},
      changed(over, "peer_stream\":1", "peer_stream\":0", {"line 14 (k.c:13): /peer_stream is 0", "another kind"}),
      changed(over, "flag\":10", "flag\":11", {"line 14 (k.c:13): /flag is 11: ", "0 to 10"}),
      changed(vector, "\"add\"", "\"added\"", {"line 16 (k.c:15): /op is \"added\": it must be one of add, sub"}),
      changed(vector, "rows\":4", "rows\":65", {"line 16 (k.c:15): /rows is 65", "1 to 64"}),
      changed(vector, "\"stream\":1,", "", {"line 16 (k.c:15): /event is the work of vector", "AIC"}),
      changed("\"line\":8,", "\"feed\"", "\"scalar\"", {"line 9 (k.c:8): /pipe is \"scalar\"", "barrier_all"}),
      changed("\"line\":17,", "peer\":1", "peer\":2", {"line 18 (k.c:17): /peer is 2"}),
      changed("\"line\":21,", "\"clean\"", "\"flush\"", {"line 22 (k.c:21): /cache is \"flush\""}),
      changed("\"event\":\"end\"", "23", "22", {"line 25: /events is 22: it must be 23"}),
      {"\"event\":\"end\"", whole[22], {"line 26: it is missing; the last line must be the event end"}},
  };
  for (const Wrong& wrong : all) {
    std::vector<std::string> lines = whole;
    for (std::string& line : lines)
      if (line.find(wrong.words) != line.npos) {
        line = wrong.line;
        break;
      }
    const std::string message = refusal(text_of(lines));
    for (const std::string& word : wrong.says) EXPECT_NE(message.find(word), message.npos) << message << "\n  " << word;
  }
}

TEST(LogFile, TextsThatAreNoLogAreRefused) {
  EXPECT_EQ(refusal("").rfind("line 1: it is missing, as the text is empty", 0), 0u);
  EXPECT_NE(refusal("\n").find("line 1: "), std::string::npos);
  std::string text = text_of(whole);
  EXPECT_NE(refusal(text + whole[23] + "\n").find("line 26: /event is behind the event end"), std::string::npos);
  // Cut anywhere, it is no log: but for the end of its last line.
  for (std::size_t size = 0; size + 1 < text.size(); size += 7)
    EXPECT_EQ(refusal(text.substr(0, size)).rfind("line ", 0), 0u) << size;
  EXPECT_TRUE(parse(text.substr(0, text.size() - 1)));
  // What is another device's.
  EXPECT_NE(refusal(text, hexagon).find("/cores is 2"), std::string::npos);
  EXPECT_NE(refusal(R"({"inlay_npu_log":1,"kernel":"k","streams":["AIV"]})", hexagon).find("/streams is there"),
            std::string::npos);
  EXPECT_NE(refusal("{\"inlay_npu_log\":1,\"kernel\":\"k\"}\n" + whole[13], hexagon).find("has one stream"),
            std::string::npos);
}

// A stream of so many bytes, which counts those that were asked for.
class Rubbish : public std::streambuf {
 public:
  Rubbish(std::string head, std::size_t bytes, char fill) : head_(std::move(head)), left_(bytes), block_(4096, fill) {
    setg(head_.data(), head_.data(), head_.data() + head_.size());
  }
  std::size_t taken = 0;

 private:
  int_type underflow() override {
    if (left_ == 0) return traits_type::eof();
    left_ -= std::min(left_, block_.size());
    taken += block_.size();
    setg(block_.data(), block_.data(), block_.data() + block_.size());
    return traits_type::to_int_type(block_[0]);
  }
  std::string head_;
  std::size_t left_;
  std::string block_;
};

TEST(LogFile, RubbishOfAnySizeIsRefusedAfterALine) {
  for (const std::string head : {"", "{\"inlay_npu_log\":1,\"kernel\":\"k\"}\n"})
    for (const char fill : {'x', '\0', '[', ' '}) {
      Rubbish rubbish(head, 100 << 20, fill);
      std::istream text(&rubbish);
      const auto file = read_log(text, a2);
      ASSERT_FALSE(file);
      const std::string message(file.error().message());
      EXPECT_EQ(message.rfind(head.empty() ? "line 1: " : "line 2: ", 0), 0u) << message;
      EXPECT_LT(message.size(), 500u);
      EXPECT_LT(rubbish.taken, std::size_t{1} << 20);
    }
}

// What would be gigabytes of shadow is refused before there is any.
TEST(LogFile, AllocationsTogetherAreBounded) {
  std::string text = "{\"inlay_npu_log\":1,\"kernel\":\"k\"}\n";
  const int fit = static_cast<int>((std::uint64_t{1} << 31) / hexagon.memory(Space::vector).bytes);
  for (int i = 0; i <= fit; ++i)
    text += R"({"event":"allocate","name":"n","space":"vector","address":0,"bytes":8388608,"buffer":)" +
            std::to_string(i) + "}\n";
  EXPECT_NE(refusal(text, hexagon).find("line " + std::to_string(fit + 2) + ": /bytes is 8388608: all allocations"),
            std::string::npos);
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
