// `inlay run --chat` with lines of standard input for turns, and how a text is drawn and ended.
#include "tests/exec/support/command_line.hpp"

#include <cmath>
#include <vector>

namespace inlay::test {
namespace {

class ChatLine : public CommandLine {
 protected:
  Outcome chat(const std::string& lines, const std::string& options) const {
    write("lines", lines);
    const std::string command = std::string(inlay_program) + " run --chat " + options + " <" + file("lines") + " >" +
                                file("out") + " 2>" + file("err");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(file("out")), read(file("err"))};
  }
  // A text goes on where the last turn ended, so that the model's prompt is the whole talk as text.
  std::string plain() const {
    return "--template " + write("plain.jinja", "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}");
  }
};

// A turn of a template that adds nothing is what --prompt writes on from; the second goes on behind both.
TEST_F(ChatLine, turns_are_what_their_texts_are) {
  const Outcome talk = chat("Once upon a time\n and then\n", plain() + " --tokens 12 --stats");
  ASSERT_EQ(talk.code, 0) << talk.err;
  const std::string first = inlay("run --prompt 'Once upon a time' --tokens 12").out.substr(16);
  ASSERT_TRUE(talk.out.starts_with(first + "\n")) << talk.out << "|" << first;
  const std::string behind = "Once upon a time" + first + " and then";
  const std::string second = inlay("run --prompt '" + behind + "' --tokens 12").out.substr(behind.size());
  EXPECT_EQ(talk.out, first + "\n" + second + "\n");
  // Of the second prompt most is in the cache already.
  const std::size_t line = talk.err.find('\n');
  int prefilled = 0, kept = 0;
  ASSERT_EQ(std::sscanf(talk.err.c_str() + line + 1, "prefill %*f tok/s (%d tokens), decode %*f tok/s (%*d tokens), %d",
                        &prefilled, &kept),
            2)
      << talk.err;
  EXPECT_GT(kept, 10);
  EXPECT_LT(prefilled, 8);
}

TEST_F(ChatLine, system_switches_and_blank_lines_reach_the_template) {
  const std::string option =
      "--tokens 8 --template " + write("t.jinja",
                                       "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
                                       "{% if late %} a time{% endif %}");
  const Outcome talk = chat("\n  \nupon\n", option + " --system 'Once ' --template-switch late=true");
  ASSERT_EQ(talk.code, 0) << talk.err;
  EXPECT_EQ(talk.out, inlay("run --prompt 'Once upon a time' --tokens 8").out.substr(16) + "\n");
}

TEST_F(ChatLine, what_cannot_be_talked_with_is_refused) {
  const auto refused = [&](const std::string& options, const char* word) {
    const Outcome talk = chat("hello\n", options);
    EXPECT_EQ(talk.code, 2) << options << talk.err;
    EXPECT_NE(talk.err.find(word), std::string::npos) << talk.err;
    EXPECT_TRUE(talk.out.empty()) << talk.out;
  };
  refused("", "no chat template");
  refused("--template " + file("none.jinja"), "none.jinja");
  refused("--template " + write("bad.jinja", "{% include 'x' %}"), "include");
  refused("--template " + write("raise.jinja", "{{ raise_exception('only monks') }}"), "only monks");
  refused(plain() + " --template-switch late", "late");
  refused(plain() + " --prompt x", "--prompt");
  const Outcome long_talk = chat(std::string(3000, 'a') + "\n", plain() + " --context 64");
  EXPECT_EQ(long_talk.code, 2);
  EXPECT_NE(long_talk.err.find("context of 64"), std::string::npos) << long_talk.err;
  expect_refused("run --system x", {"--chat"});
}

TEST_F(CommandLine, a_stop_string_ends_a_text_and_is_not_printed) {
  const std::string whole = inlay("run --prompt 'Once upon a time' --tokens 40").out;
  const std::size_t at = whole.find(' ', 30);
  ASSERT_LT(at + 6, whole.size());
  const std::string stop = whole.substr(at, 5);  // of two tokens or more
  const Outcome ended =
      inlay("run --prompt 'Once upon a time' --tokens 40 --stop 'no such text' --stop '" + stop + "'");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, whole.substr(0, whole.find(stop, 16)));
  expect_refused("run --stop ''", {"--stop"});
}

TEST_F(CommandLine, a_bias_forbids_or_forces_a_token) {
  const auto first = [&](const std::string& options) {
    const Outcome one = inlay("run --prompt 'Once upon a time' --tokens 1 --logprobs 1 " + options);
    EXPECT_EQ(one.code, 0) << one.err;
    int token = -1;
    EXPECT_EQ(std::sscanf(one.err.c_str(), "logprob %d ", &token), 1) << one.err;
    return token;
  };
  const int likeliest = first("");
  EXPECT_NE(first("--logit-bias " + std::to_string(likeliest) + "=-inf"), likeliest);
  EXPECT_EQ(first("--logit-bias 300=1000"), 300);
  for (const char* bad : {"300", "300=", "=1", "x=1", "-1=1", "99999999=1", "300=inf", "300=nan", "300=1x"})
    expect_refused(std::string("run --logit-bias ") + bad, {"--logit-bias", "ID=VALUE"});
}

// Those of one token sum up to 1 with the others; the likeliest is the chosen one where nothing is drawn.
TEST_F(CommandLine, log_probabilities_are_told_with_each_token) {
  const Outcome one = inlay("run --prompt 'Once upon a time' --tokens 3 --logprobs 2");
  ASSERT_EQ(one.code, 0) << one.err;
  int lines = 0;
  for (std::size_t at = one.err.find("logprob "); at != std::string::npos; at = one.err.find("logprob ", at + 1)) {
    const std::string line = one.err.substr(at, one.err.find('\n', at) - at);
    std::vector<double> values;
    for (std::size_t colon = 0; colon != std::string::npos; colon = line.find("; ", colon + 1)) {
      const std::size_t end = std::min(line.find("; ", colon + 1), line.size());
      values.push_back(std::stod(line.substr(line.rfind(' ', end - 1))));
    }
    ASSERT_EQ(values.size(), 3u) << line;
    EXPECT_EQ(values[0], values[1]) << line;
    EXPECT_GE(values[1], values[2]);
    EXPECT_LE(std::exp(values[1]) + std::exp(values[2]), 1 + 1e-4);
    ++lines;
  }
  EXPECT_EQ(lines, 3);
}

// Penalties of frequency and presence see the answer alone, repetition's the prompt as well.
TEST_F(CommandLine, penalties_know_whose_a_token_is) {
  const std::string run = "run --prompt 'Once upon a time, there was a dog. Once upon a time' --tokens 1 ";
  const std::string plain = inlay(run).out;
  EXPECT_EQ(inlay(run + "--frequency-penalty 100").out, plain);
  EXPECT_EQ(inlay(run + "--presence-penalty 100").out, plain);
  EXPECT_NE(inlay(run + "--repetition-penalty 100").out, plain);
  EXPECT_NE(inlay("run --tokens 60 --presence-penalty 100").out, inlay("run --tokens 60").out);
}

}  // namespace
}  // namespace inlay::test
