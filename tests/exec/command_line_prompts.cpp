// `inlay run --prompts`: many texts at once, as each is alone.
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
  expect_refused("run --prompts " + one + " --logit-bias x=1", {"--logit-bias"});
  for (const char* other : {" --prompt a", " --chat", " --compare cpu", " --logprobs 1"})
    EXPECT_NE(inlay("run --prompts " + one + other).code, 0) << other;
  EXPECT_NE(inlay("run --batch 3").code, 0);
}

}  // namespace
}  // namespace inlay::test
