// Every wrong line of an event log's text is refused by its number and words, before it costs memory.
#include <algorithm>
#include <istream>
#include <streambuf>

#include "tile_machine/tests/events/log_text.hpp"

namespace inlay::npu::test {
namespace {

// Operands that fill their memories are within them.
TEST(LogRefusals, AProductAsLargeAsItsMemoriesIsTaken) {
  const auto product = [](const char* m, const char* n) {
    return std::string(
               "{\"inlay_npu_log\":1,\"kernel\":\"k\"}\n{\"event\":\"matrix\",\"in\":\"f16\",\"out\":\"f32\",") +
           "\"m\":" + m + ",\"n\":" + n + ",\"k\":16}\n{\"event\":\"end\",\"events\":1}";
  };
  for (const auto& [m, n] : {std::pair("2048", "16"), std::pair("16", "2048")}) {
    const auto file = parse(product(m, n));
    EXPECT_TRUE(file) << file.error().message();
  }
  EXPECT_EQ(refusal(product("2049", "8")), "line 2: /m is 2049: 2049 x 16 elements of f16 are more than L0A holds");
  EXPECT_EQ(refusal(product("8", "2049")), "line 2: /k is 16: 16 x 2049 elements of f16 are more than L0B holds");
  EXPECT_EQ(refusal(product("192", "192")), "line 2: /m is 192: 192 x 192 elements of f32 are more than L0C holds");
}

// The line in place of the one that has these words, and what must be said of it.
struct Wrong {
  std::string words, line;
  std::vector<std::string> says;
};

TEST(LogRefusals, WrongLinesAreRefusedByNumberAndWords) {
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
      changed(head, "\"AIC\",\"AIV\"", "\"AIV\",\"AIV\",\"AIV\"",
              {"line 1: /streams/2 is \"AIV\": it must be named at most 2 times"}),
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
      changed(copy, "\"offset\":64,", "", {"line 5 (k.c:4): /reads/0/offset is missing"}),
      changed(left, "\"space\":\"left\",\"address\":0", "\"space\":\"left\"",
              {"line 8 (k.c:7): /writes/0/address is missing"}),
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
      changed(vector, "\"mul\"", "\"times\"", {"line 16 (k.c:15): /op is \"times\": it must be one of add, sub"}),
      changed(vector, "rows\":4", "rows\":65", {"line 16 (k.c:15): /rows is 65", "1 to 64"}),
      changed(vector, "\"stream\":1,", "", {"line 16 (k.c:15): /event is the work of vector", "AIC"}),
      changed("\"line\":8,", "\"feed\"", "\"scalar\"", {"line 9 (k.c:8): /pipe is \"scalar\"", "barrier_all"}),
      changed("\"line\":17,", "peer\":1", "peer\":2", {"line 18 (k.c:17): /peer is 2"}),
      changed("\"line\":21,", "\"clean\"", "\"flush\"", {"line 22 (k.c:21): /cache is \"flush\""}),
      changed("\"line\":21,", "\"global\"", "\"vector\"", {"line 22 (k.c:21): /reads/0 lies in UB: it must lie in"}),
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

TEST(LogRefusals, TextsThatAreNoLogAreRefused) {
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

TEST(LogRefusals, RubbishOfAnySizeIsRefusedAfterALine) {
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
TEST(LogRefusals, AllocationsTogetherAreBounded) {
  std::string text = "{\"inlay_npu_log\":1,\"kernel\":\"k\"}\n";
  const int fit = static_cast<int>((std::uint64_t{1} << 31) / hexagon.memory(Space::vector).bytes);
  for (int i = 0; i <= fit; ++i)
    text += R"({"event":"allocate","name":"n","space":"vector","address":0,"bytes":8388608,"buffer":)" +
            std::to_string(i) + "}\n";
  EXPECT_NE(refusal(text, hexagon).find("line " + std::to_string(fit + 2) + ": /bytes is 8388608: all allocations"),
            std::string::npos);
}

}  // namespace
}  // namespace inlay::npu::test
