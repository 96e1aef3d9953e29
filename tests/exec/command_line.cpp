// `inlay` as its users start it: what it prints where, and what it does with wrong input.
#include <pty.h>

#include <cmath>
#include <cstring>
#include <map>
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
    ::execl("/bin/sh", "sh", "-c", (inlay_program + (" " + arguments)).c_str(), nullptr);
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
