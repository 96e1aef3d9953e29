// `inlay run --prompts`: many texts at once, as each is alone. `inlay bench serve`: as they arrive.
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/exec/support/command_line.hpp"

namespace inlay::test {
namespace {

using Json = nlohmann::json;

class Prompts : public CommandLine {
 protected:
  // An object for each line that was printed.
  static std::vector<Json> objects(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<Json> all;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
    return all;
  }
  static void expect_equal(const std::vector<Json>& a, const std::vector<Json>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i], b[i]);
  }
};

TEST_F(Prompts, each_is_the_text_that_it_is_alone) {
  const std::string prompts[] = {"Once upon a time", "Lily went to the \"park\"", "Tom", "One day, a big dog",
                                 "The sun"};
  std::string file;
  for (const std::string& each : prompts) file += each + (each == "Tom" ? "\r\n" : "\n");
  const std::string options = " --tokens 40 --temperature 0.8 --seed 3 --stop 'friend'";
  const auto together = objects(inlay("run --prompts " + write("prompts", file) + " --batch 3" + options));
  ASSERT_EQ(together.size(), std::size(prompts));
  for (std::size_t i = 0; i < together.size(); ++i) {
    EXPECT_EQ(together[i]["prompt"], prompts[i]);
    const Outcome alone = inlay("run --prompt '" + prompts[i] + "'" + options);
    EXPECT_EQ(prompts[i] + together[i]["text"].get<std::string>(), alone.out);
  }
  // Whatever runs beside it, and however little the cache holds.
  for (const char* how : {" --batch 1", " --batch 5 --cache-tokens 96", " --batch 6 --chunk 8 --threads 1"})
    expect_equal(objects(inlay("run --prompts " + this->file("prompts") + options + how)), together);
  const std::string int8 = " --kv-type int8 --tokens 40";
  const auto of_int8 = objects(inlay("run --prompts " + this->file("prompts") + " --batch 5 --cache-tokens 96" + int8));
  ASSERT_EQ(of_int8.size(), std::size(prompts));
  for (std::size_t i = 0; i < of_int8.size(); ++i)
    EXPECT_EQ(prompts[i] + of_int8[i]["text"].get<std::string>(),
              inlay("run --prompt '" + prompts[i] + "'" + int8).out);
}

TEST_F(Prompts, tell_how_they_ended) {
  const std::string prompts = write("prompts", "Once upon a time\n");
  const auto end = [&](const std::string& options) {
    const auto all = objects(inlay("run --prompts " + prompts + options));
    return all.empty() ? Json() : all.front()["end"];
  };
  EXPECT_EQ(end(" --tokens 3"), "tokens");
  EXPECT_EQ(end(" --tokens 60 --stop a"), "stop string");
  EXPECT_EQ(end(" --tokens 60 --context 20"), "context");
  EXPECT_EQ(end(" --tokens 2000"), "stop");
}

TEST_F(Prompts, refuse_what_cannot_be_done) {
  const std::string one = write("one", "Once\n");
  expect_refused("run --prompts " + file("nowhere"), {"--prompts", "nowhere"});
  expect_refused("run --prompts " + write("none", ""), {"--prompts", "none", "no line"});
  expect_refused("run --prompts " + write("gap", "a\n\nb\n"), {"line 2", "gap", "empty"});
  expect_refused("run --prompts " + one + " --batch 200", {"requests is 200", "1 to 192"});
  expect_refused("run --prompts " + one + " --tokens 400 --cache-tokens 64", {"line 1", "26 blocks", "has 4"});
  expect_refused("run --prompts " + one + " --tokens 0", {"tokens is 0"});
  expect_refused("run --prompts " + one + " --swap-tokens 64", {"swap_tokens is 64", "must be 0"});
  expect_refused("run --prompts " + one + " --logit-bias x=1", {"--logit-bias"});
  for (const char* other : {" --prompt a", " --chat", " --compare cpu", " --logprobs 1"})
    EXPECT_NE(inlay("run --prompts " + one + other).code, 0) << other;
  EXPECT_NE(inlay("run --batch 3").code, 0);
}

TEST_F(Prompts, give_scales_of_activations) {
  const std::string int8 = file("int8.gguf"), scales = file("scales.json");
  ASSERT_EQ(inlay("convert " + (source / "models/stories.gguf").string() + " --quantize int8 -o " + int8).code, 0);
  const std::string prompts = write("prompts", "Once upon a time there was a\nLily went to the park\nTom\n");
  const Outcome made = inlay("calibrate " + int8 + " --prompts " + prompts + " --percentile 99 -o " + scales);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(Json::parse(read(scales))["layers"].size(), 6u);
  EXPECT_EQ(inlay("calibrate " + int8 + " --prompts " + prompts + " --percentile 99 --chunk 3 --threads 1").out,
            read(scales));
  // The tokens that all texts begin with are those of the dynamic scales.
  const std::string how = "run " + int8 + " --temperature 0 --tokens 8 --prompt 'Once upon a time'";
  const Outcome with = inlay(how + " --scales " + scales);
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_EQ(with.out, inlay(how).out);
  EXPECT_EQ(objects(inlay("run " + int8 + " --temperature 0 --tokens 8 --scales " + scales + " --prompts " +
                          write("one", "Once upon a time\n")))[0]["text"],
            with.out.substr(std::string("Once upon a time").size()));
  expect_refused("run --scales " + scales, {"--scales", "no linear of int8"});
  expect_refused("run " + int8 + " --scales " + prompts, {"--scales"});
  expect_refused("run " + int8 + " --scales " + file("nowhere"), {"--scales is ", "nowhere"});
  expect_refused("calibrate --prompts " + prompts, {"no linears of int8"});
  expect_refused("calibrate " + int8 + " --prompts " + file("nowhere"), {"--prompts", "nowhere"});
}

// The last one arrives 0.3 s behind the others, which have ended by then, and is their equal: its beginning is there.
TEST_F(Prompts, of_a_trace_are_answered_as_they_arrive) {
  const std::string trace = write("trace", R"({"at": 0.3, "prompt": 40, "tokens": 5}
{"at": 0, "prompt": "Once upon a time", "tokens": 450}
{"at": 0, "prompt": 60, "tokens": 6}
{"at": 0.1, "prompt": [1, 300, 301], "tokens": 1}
{"at": 1.5, "prompt": "Once upon a time, there was a little girl named Lily. She loved to play outside.", "tokens": 1}
{"at": 3, "prompt": "Once upon a time, there was a little girl named Lily. She loved to play outside.", "tokens": 1}
)");
  const Outcome outcome = inlay("bench serve --trace " + trace + " --batch 2");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  double seconds = 0, ttft[3] = {}, tpot[3] = {};
  long prompts = 0, cached = 0, written = 0;
  const char* const form =
      "6 requests in %lf s: %ld tokens of prompts (%ld of them were in the cache), %ld new ones, %*f tok/s; 0 "
      "preempted, 0 of them swapped\n"
      "TTFT p50 %lf p90 %lf p99 %lf ms\nTPOT p50 %lf p90 %lf p99 %lf ms\n";
  ASSERT_EQ(std::sscanf(outcome.out.c_str(), form, &seconds, &prompts, &cached, &written, &ttft[0], &ttft[1], &ttft[2],
                        &tpot[0], &tpot[1], &tpot[2]),
            10)
      << outcome.out;
  EXPECT_EQ(written, 450 + 6 + 5 + 1 + 1 + 1);  // the story's own end is none
  EXPECT_GT(prompts, 40 + 60);
  EXPECT_GE(cached, 16);
  EXPECT_GE(seconds, 3);
  for (const auto* times : {ttft, tpot}) {
    EXPECT_GT(times[0], 0);
    EXPECT_LE(times[0], times[1]);
    EXPECT_LE(times[1], times[2]);
    EXPECT_LE(times[2], 1e3 * seconds);
  }
}

TEST_F(Prompts, a_trace_is_refused_by_its_line) {
  expect_refused("bench serve --trace " + file("nowhere"), {"--trace", "nowhere"});
  expect_refused("bench serve --trace " + write("none", ""), {"--trace", "none", "no line"});
  const std::string good = R"({"at": 0, "prompt": 4, "tokens": 4})";
  const struct {
    const char *line, *what, *must;
  } rows[] = {{"", "line 2", "JSON object"},
              {R"({"at": 0, "prompt": 4, "tokens": 4, "more": 1})", "line 2", "more"},
              {R"({"at": -1, "prompt": 4, "tokens": 4})", "line 2", "0..1000000"},
              {R"({"at": 0, "prompt": 4, "tokens": 0})", "line 2", "tokens, a number in 1.."},
              {R"({"at": 0, "prompt": 4, "tokens": 2.5})", "line 2", "tokens, a number in 1.."},
              {R"({"at": 0, "tokens": 4})", "line 2", "prompt"},
              {R"({"at": 0, "prompt": 0, "tokens": 4})", "line 2", "prompt"},
              {R"({"at": 0, "prompt": [], "tokens": 4})", "line 2", "prompt"},
              {R"({"at": 0, "prompt": [1, 1024], "tokens": 4})", "1024", "0..1023"},
              {R"({"at": 0, "prompt": [-1], "tokens": 4})", "-1", "0..1023"},
              {R"({"at": 0, "prompt": 500, "tokens": 400})", "500", "context of 512"}};
  for (const auto& [line, what, must] : rows)
    expect_refused("bench serve --trace " + write("bad", good + "\n" + line + "\n"), {what, must});
}

}  // namespace
}  // namespace inlay::test
