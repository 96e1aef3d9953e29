// `inlay` as its users start it: what it prints where, and what it does with wrong input.
#include <pty.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include <inlay/cpu.hpp>
#ifdef INLAY_HAS_CL
#include <inlay/cl.hpp>
#endif

#include "tests/exec/support/command_line.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::test {
namespace {

TEST_F(CommandLine, our_model_writes_the_text_that_its_training_recorded) {
  const Outcome outcome = inlay("run --tokens 128");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out + "\n", read(source / "models" / "greedy_bos.txt"));
  EXPECT_NE(outcome.err.find("time to first token"), std::string::npos);
  EXPECT_NE(outcome.err.find("tok/s"), std::string::npos);
  EXPECT_EQ(inlay("run --tokens 128 --chunk 1 --threads 1").out, outcome.out);
  EXPECT_EQ(inlay("run --tokens 128 --chunk 1 --threads 3 --pool openmp").out, outcome.out);
  const Outcome compared = inlay("run --tokens 16 --compare reference");
  EXPECT_EQ(compared.code, 0);
  EXPECT_NE(compared.err.find("largest logit difference, cpu against reference"), std::string::npos);
}

// Bit for bit what a session gives, whatever the chunks; NumPy's format 1.0.
TEST_F(CommandLine, logits_are_a_numpy_file) {
  const std::string path = file("l.npy");
  const Outcome outcome = inlay("logits --ids 1,300,5,7,11 --chunk 2 -o " + path);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.empty());
  const std::string bytes = read(path);
  ASSERT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  const std::size_t begin = 10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  EXPECT_EQ(begin % 64, 0u);
  long rows = 0, vocab = 0;
  const std::string head = bytes.substr(10, begin - 10);
  ASSERT_EQ(std::sscanf(head.c_str(), "{'descr': '<f4', 'fortran_order': False, 'shape': (%ld, %ld), }", &rows, &vocab),
            2)
      << head;
  EXPECT_EQ(head.back(), '\n');
  EXPECT_EQ(rows, 5);
  ASSERT_EQ(bytes.size(), begin + static_cast<std::size_t>(rows * vocab) * sizeof(float));
  float first = 0;
  std::memcpy(&first, bytes.data() + begin, sizeof(first));
  EXPECT_TRUE(std::isfinite(first) && first != 0);
  ASSERT_EQ(inlay("logits --ids 1,300,5,7,11 -o " + file("whole.npy")).code, 0);
  EXPECT_EQ(read(file("whole.npy")), bytes);
  ASSERT_EQ(inlay("logits --prompt 'Once upon' -o " + file("text.npy")).code, 0);
  expect_refused("logits -o " + path, {"--ids", "--prompt"});
  expect_refused("logits --ids 1 --prompt a -o " + path, {"--ids", "--prompt"});
  expect_refused("logits --ids 1,99999999 -o " + path, {"99999999"});
  expect_refused("logits --ids 1,-1 -o " + path, {"-1"});
  expect_refused("logits --ids 1,x -o " + path, {"--ids"});
  expect_refused("logits --ids 1 -o " + file("nowhere/l.npy"), {"nowhere"});
  EXPECT_EQ(read(path), bytes);  // as it was
}

TEST_F(CommandLine, inspect_says_what_is_in_a_file) {
  const Outcome outcome = inlay("inspect");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* word :
       {"architecture   llama", "layers", "kv head", "theta", "parameters", "tokens", "ends of text", "cache"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << '\n' << outcome.out;
  EXPECT_LE(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 24);  // a screen
  expect_refused("inspect " + file("none.gguf"), {"none.gguf"});
  expect_refused("inspect " + write("broken.gguf", "GGUF"), {"broken.gguf"});
}

TEST_F(CommandLine, a_seed_decides_what_is_drawn) {
  const std::string options = "run --prompt 'Once upon a time' --tokens 40 --temperature 1 --top-p 0.95 --seed ";
  const Outcome one = inlay(options + "1");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out.rfind("Once upon a time", 0), 0u) << one.out;
  EXPECT_EQ(inlay(options + "1 --threads 1").out, one.out);
  EXPECT_NE(inlay(options + "2").out, one.out);
}

TEST_F(CommandLine, stories260k_byte_for_byte_at_every_level) {
  INLAY_NEEDS_DATA("stories260K");
  const std::string stories = third_party("stories260K");
  const Outcome converted = inlay("convert " + stories + "/stories260K.bin --tokenizer " + stories + "/tok512.bin -o " +
                                  file("stories.gguf"));
  ASSERT_EQ(converted.code, 0) << converted.err;
  const std::string expected = read(stories + "/greedy_bos_n200.txt");
  const std::string run = "run " + file("stories.gguf") + " --temperature 0 --tokens 200";
  EXPECT_EQ(inlay(run).out, expected);
  EXPECT_EQ(inlay(run + " --backend reference").out, expected);
#ifdef INLAY_HAS_CL
  if (const auto cl = Cl::make()) {
    EXPECT_EQ(inlay(run + " --backend cl").out, expected);
    EXPECT_NE(inlay("devices").out.find(cl->device().name), std::string::npos);
    expect_refused(run + " --backend cl --device nonsense", {"nonsense", cl->device().name.c_str()});
  }
#endif
  for (Isa isa : available_isas())
    EXPECT_EQ(inlay(run + " --isa " + std::string(name(isa))).out, expected) << name(isa);
  for (const char* type : {"int8", "w4a16", "q8_0", "f16", "bf16"}) {
    SCOPED_TRACE(type);
    ASSERT_EQ(inlay("convert " + file("stories.gguf") + " --quantize " + type + " -o " + file("small.gguf")).code, 0);
    const Outcome outcome = inlay("run " + file("small.gguf") + " --tokens 20");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out.rfind("Once upon a time, there was a", 0), 0u) << outcome.out;
  }
}

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

TEST_F(CommandLine, activations_of_a_4_bit_model) {
  const std::string model = file("q4_0.gguf");
  ASSERT_EQ(inlay("convert " + (source / "models/stories.gguf").string() + " --quantize w4a16 -o " + model).code, 0);
  const std::string run = "run " + model + " --tokens 40";
  const Outcome plain = inlay(run), exact = inlay(run + " --activations exact"),
                int8 = inlay(run + " --compare reference --activations int8");
  EXPECT_EQ(exact.out, plain.out);
  EXPECT_EQ(int8.code, 0) << int8.err;
  EXPECT_EQ(int8.out, exact.out);
  // The reference rounds no activations: the distance shows that the cpu did.
  double difference = 0;
  const std::size_t at = int8.err.find("cpu against reference: ");
  ASSERT_NE(at, std::string::npos) << int8.err;
  ASSERT_EQ(std::sscanf(int8.err.c_str() + at, "cpu against reference: %lf", &difference), 1);
  EXPECT_GT(difference, 0.01);

  EXPECT_NEAR(bits_per_byte(model, "--activations int8"), bits_per_byte(model, "--activations exact"),
              0.001);  // 1%: docs/ops/linear_w4a16.md has the whole text

  for (const char* command : {"run ", "eval /nowhere.gguf /nowhere.txt ", "bench model "})
    expect_refused(command + std::string("--activations int7"), {"activations", "int7", "exact", "int8", "bf16"});
  expect_refused("run --attention int8", {"attention", "int8", "exact", "bf16"});
  expect_refused("run --activations int8", {"activations is int8", "exact", "floats"});  // our model is f16
}

TEST_F(CommandLine, activations_of_a_model_of_floats) {
  const Outcome exact = inlay("run --tokens 40"),
                bf16 = inlay("run --tokens 40 --compare reference --activations bf16");
  EXPECT_EQ(bf16.code, 0) << bf16.err;
  EXPECT_EQ(bf16.out, exact.out);
  const std::string model = (source / "models/stories.gguf").string();
  EXPECT_NEAR(bits_per_byte(model, "--activations bf16"), bits_per_byte(model, "--activations exact"),
              0.0002);  // docs/ops/linear.md: the same to all digits
}

// Keys and values of 8 bits are seen in the logits, and cost next to nothing of what the model knows.
TEST_F(CommandLine, a_cache_of_int8) {
  const std::string model = (source / "models/stories.gguf").string();
  std::map<std::string, std::string> logits;
  for (const char* options : {"f16", "int8", "int8 --chunk 2"}) {
    ASSERT_EQ(inlay("logits --ids 1,300,5,7,11 -o " + file("l.npy") + " --kv-type " + options).code, 0);
    logits[options] = read(file("l.npy"));
  }
  EXPECT_NE(logits["int8"], logits["f16"]);
  EXPECT_EQ(logits["int8 --chunk 2"], logits["int8"]);
  EXPECT_NEAR(bits_per_byte(model, "--kv-type int8"), bits_per_byte(model, "--kv-type f16"), 0.001);

  const Outcome run = inlay("run --tokens 24 --kv-type int8 --compare reference");
  EXPECT_EQ(run.code, 0) << run.err;
  double difference = 0;
  const std::size_t at = run.err.find("cpu against reference: ");
  ASSERT_NE(at, std::string::npos) << run.err;
  ASSERT_EQ(std::sscanf(run.err.c_str() + at, "cpu against reference: %lf", &difference), 1);
  EXPECT_LT(difference, 0.5);

  // What is said of the cache, wherever it is said.
  const Outcome inspected = inlay("inspect " + model);
  for (const auto& [word, option] : {std::pair("f16", "auto"), {"int8", "int8"}}) {
    const Outcome bench = inlay("bench model " + model + " --prefill 4 --depth 3 --tokens 1 --kv-type " + option);
    ASSERT_EQ(bench.code, 0) << bench.err;
    const std::string words = ", cache " + std::string(word) + " of ";
    const std::size_t begin = bench.out.find(words);
    ASSERT_NE(begin, std::string::npos) << bench.out;
    const std::string bytes =
        bench.out.substr(begin + words.size(), bench.out.find(' ', begin + words.size()) - begin - words.size());
    EXPECT_NE(inspected.out.find(" " + bytes + " bytes a token in " + word + ","), std::string::npos) << bytes << '\n'
                                                                                                      << inspected.out;
  }
  for (const char* command : {"run ", "serve ", "eval /nowhere.gguf /nowhere.txt ", "bench model "})
    expect_refused(command + std::string("--kv-type int4"), {"--kv-type", "int4", "f16", "int8"});
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

// A prompt of one pass, and eleven tokens behind it: the last one that is written needs no pass. The prompt is one
// token, as those are, which is all that pieces ask.
TEST_F(CommandLine, plans_are_chosen_and_change_no_text) {
  const Outcome decode = inlay("run --tokens 12");
  const std::map<std::string, std::string> passes = {
      {"off", "0 by a plan, 0 captured for one, 0 that found none"},
      {"decode", "10 by a plan, 1 captured for one, 1 that found none"},
      {"piecewise", "11 by a plan, 1 captured for one in 7 pieces, 0 that found none"},
      {"full", "10 by a plan, 2 captured for one, 0 that found none"}};
  for (const auto& [mode, counts] : passes) {
    const Outcome outcome = inlay("run --tokens 12 --plans " + mode);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, decode.out);
    EXPECT_NE(outcome.err.find("\npasses: " + counts + "\n"), std::string::npos) << outcome.err;
  }
  expect_refused("run --plans on", {"--plans: on not in {decode,full,off,piecewise}"});
}

// Slices of a thread are one behind another or one within another, or a viewer drops them: tasks in jobs, jobs in
// steps. The table counts what the trace shows.
TEST_F(CommandLine, bench_traces_each_operator_and_thread_of_a_token) {
  const std::string path = file("trace.json");
  // So wide that linears are handed out, and two threads are there.
  const Outcome outcome = inlay(
      "bench model --shape smollm2-135m --type w4a16 --prefill 1 --depth 2 3 --tokens 3 --threads 2 --trace " + path);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto events = nlohmann::json::parse(read(path)).at("traceEvents");
  struct Slice {
    double begin, end;
    bool operator<(const Slice& other) const { return begin < other.begin; }
  };
  for (int process : {0, 1}) {
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
    EXPECT_EQ(steps["rms_norm 576"], 61);  // two a layer, and the last
    EXPECT_EQ(steps["paged_attention 576"], 30);
    EXPECT_EQ(steps["linear_w4a16 49152"], 1);  // the head
  }
  for (const char* line :
       {"trace of decode at depth     2", "trace of decode at depth     3", "rms_norm                     576    61"})
    EXPECT_NE(outcome.out.find(line), std::string::npos) << outcome.out;
  expect_refused("bench model --shape stories260k --trace /nowhere/t.json --prefill 4 --depth 0 --tokens 1",
                 {"/nowhere/t.json"});
  expect_refused("bench model --shape stories260k --trace t.json --backend reference", {"--trace", "cpu", "reference"});
}

TEST_F(CommandLine, threads_are_chosen_within_reason) {
  expect_refused("run --pool bogus", {"--pool", "bogus", "inlay", "openmp"});
  for (const char* threads : {"-1", "1000000", "many"})
    expect_refused(std::string("run --threads ") + threads, {"--threads"});
  expect_refused("bench contention --loops 0", {"--loops", "0"});
  const Outcome outcome = inlay("bench contention --runs 1 --seconds 0.02 --loops 1 --prefill 4 --threads 2");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* word : {"decode   quiet", "decode   1 loops", "prefill  1 loops", "worst"})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << outcome.out;
}

TEST_F(CommandLine, devices_lists_the_levels) {
  const Outcome outcome = inlay("devices");
  EXPECT_EQ(outcome.code, 0);
  for (Isa isa : available_isas()) EXPECT_NE(outcome.out.find(name(isa)), std::string::npos);
}

TEST_F(CommandLine, wrong_flags_and_files) {
  expect_refused("", {"command", "missing", "run", "eval", "bench", "devices", "--help"});
  expect_refused("frobnicate", {"frobnicate", "run", "eval", "bench", "devices", "--help"});
  expect_refused("--frobnicate run", {"--frobnicate"});
  expect_refused("bench", {"inlay bench", "command", "missing", "model", "inlay bench --help"});
  expect_refused("bench frobnicate", {"inlay bench", "frobnicate", "model", "inlay bench --help"});
  expect_refused("run --tokens many", {"tokens"});
  expect_refused("run --tokens -1");
  expect_refused("run --chunk 0", {"chunk"});
  expect_refused("run --backend gpu", {"backend"});
  expect_refused("run --isa mmx", {"mmx", "scalar"});
  expect_refused("run --temperature -1");
  expect_refused("run --top-p 2");
  expect_refused("run --unknown 1");
  expect_refused("run /nowhere/model.gguf", {"/nowhere/model.gguf"});
  expect_refused("run " + folder_.string(), {});
  expect_refused("run " + write("text.gguf", "this is no model"), {"text.gguf"});
  expect_refused("run " + write("empty.gguf", ""), {"empty.gguf"});
  expect_refused("eval " + (source / "models/stories.gguf").string() + " /nowhere.txt", {"/nowhere.txt"});
  expect_refused("eval " + (source / "models/stories.gguf").string() + " " + write("blank.txt", " \n"), {"blank.txt"});
  expect_refused("convert /nowhere.bin --tokenizer x -o " + file("y.gguf"), {"/nowhere.bin"});
  expect_refused("verify /nowhere", {"/nowhere"});
  expect_refused("bench model --shape gpt-9");
  expect_refused("bench model /nowhere/model.gguf", {"/nowhere/model.gguf"});
  expect_refused("bench model model.gguf --shape llama3.2-1b", {"--shape", "model"});
  EXPECT_EQ(inlay("--help").code, 0);
  EXPECT_EQ(inlay("run --help").code, 0);
}

// The library takes its best level then; who sets the variable by hand wants to hear of it.
TEST_F(CommandLine, a_level_that_this_machine_lacks_is_refused) {
  const auto with = [](const char* level, auto&& test) {
    ::setenv("INLAY_ISA", level, 1);
    test();
    ::unsetenv("INLAY_ISA");
  };
  for (const char* command : {"run --tokens 1", "devices", "bench model", "run --backend reference --tokens 1"})
    with("bogus", [&] { expect_refused(command, {"INLAY_ISA", "bogus", "scalar"}); });
  with("avx51", [&] { expect_refused("devices", {"INLAY_ISA", "avx51", "scalar"}); });
  with("", [&] { EXPECT_EQ(inlay("devices").code, 0); });
  with("scalar", [&] { EXPECT_NE(inlay("devices").out.find("scalar*"), std::string::npos); });
}

// What a terminal shows of `inlay <arguments>`: both streams in their order.
std::string on_a_terminal(const std::string& arguments) {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child < 0) return "forkpty failed";
  if (child == 0) {
    ::execl("/bin/sh", "sh", "-c", (INLAY_PROGRAM " " + arguments).c_str(), nullptr);
    ::_exit(127);
  }
  std::string shown;
  char part[4096];
  for (ssize_t count; (count = ::read(terminal, part, sizeof part)) > 0;) shown.append(part, part + count);
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  return shown;
}

TEST_F(CommandLine, at_a_terminal_a_line_ends_before_the_figures) {
  const std::string text = inlay("run --tokens 5").out;
  const std::string shown = on_a_terminal("run --tokens 5");
  EXPECT_EQ(shown.rfind(text + "\r\ntime to first token", 0), 0u) << shown;
}

TEST_F(CommandLine, a_prompt_longer_than_the_context_is_refused) {
  std::string prompt;
  for (int i = 0; i < 800; ++i) prompt += "the little fox and ";
  expect_refused("run --prompt '" + prompt + "'", {"context"});
  expect_refused("run --context 4 --prompt 'Once upon a time there was a little fox in the wood.'", {"context", "4"});
}

// Every cut and every flip ends in one line, or in a run that ends well: a flipped weight is a weight.
TEST_F(CommandLine, corrupted_models_are_refused_and_never_crash) {
  const std::string whole = read(source / "models" / "stories.gguf");
  ASSERT_GT(whole.size(), 100000u);
  std::mt19937 rng(1);
  for (int i = 0; i < 30; ++i) {
    const std::size_t cut = i < 10 ? static_cast<std::size_t>(i * 7) : rng() % whole.size();
    expect_refused("run " + write("cut.gguf", whole.substr(0, cut)) + " --tokens 2", {"cut.gguf"});
  }
  for (int i = 0; i < 40; ++i) {
    std::string broken = whole;
    const std::size_t at = i < 24 ? static_cast<std::size_t>(i) : rng() % 3000;  // the header, then the keys
    broken[at] = static_cast<char>(broken[at] ^ (1 << rng() % 8));
    const Outcome outcome = inlay("run " + write("flip.gguf", broken) + " --tokens 2");
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 2) << "byte " << at << ": " << outcome.code << ' ' << outcome.err;
    if (outcome.code == 2) {
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
  }
  const std::string key = "general.architecture";
  const std::size_t at = whole.find(key);
  ASSERT_NE(at, std::string::npos);
  std::string unknown = whole;
  unknown.replace(unknown.find("llama", at + key.size()), 5, "lamda");
  expect_refused("run " + write("unknown.gguf", unknown), {"lamda"});
}

}  // namespace
}  // namespace inlay::test
