// What `inlay eval` and `inlay bench` say: losses, bytes, memory, and where the time of a token goes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/exec/support/command_line.hpp"

namespace inlay::test {
namespace {

// models/README.md is the one place that states the numbers of our model: they are read from there.
TEST_F(CommandLine, eval_prints_the_loss_that_our_model_is_stated_with) {
  const fs::path model = source / "models/stories.gguf";
  const std::string page = read(source / "models/README.md");
  const auto stated = [&](const std::string& row) {
    const std::size_t at = page.find("| " + row + " | ");
    EXPECT_NE(at, std::string::npos) << row;
    return at == std::string::npos ? "" : page.substr(at + row.size() + 5, page.find(" |\n", at) - at - row.size() - 5);
  };
  const std::string loss = stated("held-back loss");
  double nats = 0, bits = 0;
  ASSERT_EQ(std::sscanf(loss.c_str(), "%lf nats per token, %lf bits per byte", &nats, &bits), 2) << loss;
  long tokens = 0, bytes = 0;
  const std::string printed = "prints\n\n    ";
  const std::size_t at = page.find(printed);
  ASSERT_NE(at, std::string::npos);
  ASSERT_EQ(std::sscanf(page.c_str() + at + printed.size(), "%ld tokens, %ld bytes, ", &tokens, &bytes), 2);
  EXPECT_NE(page.find(" bytes, " + loss + "\n", at), std::string::npos) << "the page states two losses";

  const Outcome outcome = inlay("eval " + model.string() + " " + (source / "models/held_back.txt").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  double got_bits = 0, perplexity = 0;
  ASSERT_EQ(std::sscanf(outcome.out.c_str(), "bits_per_byte: %lf\nperplexity: %lf\n", &got_bits, &perplexity), 2);
  // 2%: the page's are of PyTorch in f32, ours of f16 weights in any order of summing.
  EXPECT_NEAR(got_bits, bits, 0.02 * bits);
  EXPECT_NEAR(std::log(perplexity), nats, 0.02 * nats);
  EXPECT_NE(outcome.err.find(std::to_string(tokens) + " predictions, " + std::to_string(bytes) + " bytes,"),
            std::string::npos)
      << outcome.err;

  std::string size = std::to_string(fs::file_size(model));
  for (int place = static_cast<int>(size.size()) - 3; place > 0; place -= 3) size.insert(place, ",");
  EXPECT_EQ(stated("file").rfind(size + " bytes;", 0), 0u) << stated("file") << " for " << size;
}

// The blank that SPM puts before a document is no byte of the text: bits per byte divides by what was written.
TEST_F(CommandLine, eval_counts_the_bytes_of_the_text) {
  const std::string first = "Once upon a time, a brown fox lived near the mill.",
                    second = "\xc3\x89t\xc3\xa9, she said.";
  const std::string model = (source / "models/stories.gguf").string();
  const Outcome outcome = inlay("eval " + model + " " + write("text", first + "<|endoftext|>\n" + second + "\n"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find(", " + std::to_string(first.size() + second.size()) + " bytes,"), std::string::npos)
      << outcome.err;
}

TEST_F(CommandLine, eval_takes_the_context_of_a_small_model_and_refuses_what_is_no_number) {
  std::string model = read(source / "models/stories.gguf");
  const std::string text = write("text", "Once upon a time, a brown fox lived near the mill.");
  const auto patched = [&](const std::string& name, std::size_t at, const auto& value) {
    std::string bytes = model;
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return write(name, bytes);
  };
  const std::string key = "llama.context_length";
  const std::size_t context = model.find(key) + key.size() + 4;  // behind the type
  const std::string small = patched("small.gguf", context, std::uint32_t{64});
  const Outcome given = inlay("eval " + small + " " + text + " --window 64"),
                taken = inlay("eval " + small + " " + text);
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_EQ(taken.out, given.out);
  EXPECT_NE(inlay("eval " + small + " " + text + " --window 65").code, 0);
  const std::string broken =
      patched("broken.gguf", model.size() - 4, std::uint32_t{0x7fc00000});  // NaN in output_norm.weight
  const Outcome outcome = inlay("eval " + broken + " " + text);
  EXPECT_NE(outcome.code, 0) << outcome.out;
  EXPECT_NE(outcome.err.find("no numbers"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

// Whoever starts the program may have had more.
TEST_F(CommandLine, peak_memory_is_the_programs_own) {
  const std::vector<char> large(std::size_t{400} << 20, 1);
  const Outcome outcome = inlay("run --tokens 2");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::size_t at = outcome.err.find("peak memory ");
  double megabytes = 0;
  ASSERT_NE(at, std::string::npos) << outcome.err;
  ASSERT_EQ(std::sscanf(outcome.err.c_str() + at, "peak memory %lf MB", &megabytes), 1);
  EXPECT_LT(megabytes, 300);
  EXPECT_GT(megabytes, 1) << large[7];
}

TEST_F(CommandLine, bench_measures_the_model_of_a_file) {
  const std::string model = (source / "models/stories.gguf").string();
  const Outcome outcome =
      inlay("bench model " + model + " --prefill 4 --depth 3 --tokens 2 --plans off,piecewise,full");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(model + ", activations exact"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\nprefill     4 tokens"), std::string::npos) << outcome.out;
  for (const char* mode : {"off      ", "piecewise", "full     "})
    EXPECT_NE(outcome.out.find("\nplans " + std::string(mode) + " decode at depth     3"), std::string::npos)
        << outcome.out;
  expect_refused("bench model " + model + " --plans on", {"--plans: on not in {decode,full,off,piecewise}"});
  expect_refused("bench model " + model + " --depth 100000", {"--depth", "context"});
}

// Slices of a thread are one behind another or one within another, or a viewer drops them: tasks in jobs, jobs in
// steps. The table counts what the trace shows.
TEST_F(CommandLine, bench_traces_each_operator_and_thread_of_a_prompt_and_of_a_token) {
  const std::string path = file("trace.json");
  // So wide that linears are handed out, and two threads are there.
  const Outcome outcome = inlay(
      "bench model --shape smollm2-135m --type w4a16 --prefill 4 --depth 2 3 --tokens 3 --threads 2 --trace " + path);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto events = nlohmann::json::parse(read(path)).at("traceEvents");
  struct Slice {
    double begin, end;
    bool operator<(const Slice& other) const { return begin < other.begin; }
  };
  for (int process : {0, 1, 2}) {  // the prompt, the two depths
    std::map<std::string, int> steps;
    std::vector<Slice> of_steps, jobs, tasks[2];
    for (const auto& event : events) {
      if (event.at("pid") != process || event.at("ph") != "X") continue;
      const double begin = event.at("ts"), length = event.at("dur");
      const std::string name = event.at("name");
      const int thread = event.at("tid");
      ASSERT_TRUE(thread == 0 || thread == 1) << thread;
      ASSERT_GE(begin, 0);
      ASSERT_GE(length, 0);
      const Slice slice{begin, begin + length};
      if (name == "task") {
        tasks[thread].push_back(slice);
      } else if (name == "job") {
        jobs.push_back(slice);
      } else {
        of_steps.push_back(slice);
        ++steps[name];
      }
    }
    const auto ordered = [](const std::vector<Slice>& slices) {
      for (std::size_t i = 1; i < slices.size(); ++i)
        if (slices[i].begin < slices[i - 1].end - 0.01) return false;
      return !slices.empty();
    };
    const auto within = [](const std::vector<Slice>& inner, const std::vector<Slice>& outer) {
      for (const Slice& slice : inner) {
        const auto behind = std::upper_bound(outer.begin(), outer.end(), slice);
        if (behind == outer.begin() || slice.end > std::prev(behind)->end + 0.01) return false;
      }
      return true;
    };
    EXPECT_TRUE(ordered(of_steps) && ordered(jobs) && ordered(tasks[0]));
    EXPECT_TRUE(within(jobs, of_steps) && within(tasks[0], jobs) && within(tasks[1], jobs));
    EXPECT_EQ(steps["rms_norm 576"], 61);                                                 // two a layer, and the last
    EXPECT_EQ(steps[process == 0 ? "flash_attention 2304" : "paged_attention 576"], 30);  // of 4 tokens, of one
    EXPECT_EQ(steps["linear_w4a16 49152"], 1);                                            // the head
  }
  for (const char* line : {"trace of prefill of 4 tokens", "trace of decode at depth 2", "trace of decode at depth 3",
                           "rms_norm                     576    61"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.out;
  expect_refused("bench model --shape stories260k --trace /nowhere/t.json --prefill 4 --depth 0 --tokens 1",
                 {"/nowhere/t.json"});
  expect_refused("bench model --shape stories260k --trace t.json --backend reference", {"--trace", "cpu", "reference"});
}

}  // namespace
}  // namespace inlay::test
