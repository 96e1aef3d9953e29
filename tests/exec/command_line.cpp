// `inlay` as its users start it: what it prints where, and what it does with wrong input.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <inlay/cpu.hpp>
#ifdef INLAY_HAS_CL
#include <inlay/cl.hpp>
#endif

#include "tests/support/requirements.hpp"

namespace inlay {
namespace {

namespace fs = std::filesystem;

const fs::path source = INLAY_SOURCE_DIR;

struct Outcome {
  int code = -1;  // 128 + signal for a crash
  std::string out, err;
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("inlay_command_line_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }
  Outcome inlay(const std::string& arguments) const {
    const std::string command =
        std::string(INLAY_PROGRAM) + " " + arguments + " >" + file("out") + " 2>" + file("err") + " </dev/null";
    const int status = std::system(command.c_str());
    std::string err = read(file("err"));
    // AddressSanitizer's, of a program that has fibers.
    if (const std::size_t end = err.find('\n'); err.starts_with("==") && err.find("swapcontext") < end)
      err.erase(0, end + 1);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(file("out")), std::move(err)};
  }
  // Wrong input: code 2, nothing on standard output, one line that holds the words.
  void expect_refused(const std::string& arguments, std::initializer_list<const char*> words = {}) const {
    const Outcome outcome = inlay(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << '\n' << outcome.err;
    EXPECT_TRUE(outcome.out.empty()) << arguments.substr(0, 80);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << arguments << '\n' << outcome.err;
    EXPECT_EQ(outcome.err.rfind("inlay: ", 0), 0u) << outcome.err;
    for (const char* word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err << word;
  }

  fs::path folder_;
};

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
  const std::string stories = test::third_party("stories260K");
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

  const auto bits = [&](const std::string& activations) {
    const Outcome outcome = inlay("eval " + model + " " + (source / "models/held_back.txt").string() +
                                  " --window 128 --activations " + activations);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    double value = 0;
    EXPECT_EQ(std::sscanf(outcome.out.c_str(), "bits_per_byte: %lf", &value), 1) << outcome.out;
    return value;
  };
  EXPECT_NEAR(bits("int8"), bits("exact"), 0.001);  // 1%: docs/ops/linear_w4a16.md has the whole text

  for (const char* command : {"run ", "eval /nowhere.gguf /nowhere.txt ", "bench model "})
    expect_refused(command + std::string("--activations int7"), {"activations", "int7", "exact", "int8", "bf16"});
  expect_refused("run --activations int8", {"activations is int8", "exact", "floats"});  // our model is f16
}

TEST_F(CommandLine, activations_of_a_model_of_floats) {
  const Outcome exact = inlay("run --tokens 40"),
                bf16 = inlay("run --tokens 40 --compare reference --activations bf16");
  EXPECT_EQ(bf16.code, 0) << bf16.err;
  EXPECT_EQ(bf16.out, exact.out);
  const auto bits = [&](const std::string& activations) {
    const Outcome outcome =
        inlay("eval " + (source / "models/stories.gguf").string() + " " + (source / "models/held_back.txt").string() +
              " --window 128 --activations " + activations);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    double value = 0;
    EXPECT_EQ(std::sscanf(outcome.out.c_str(), "bits_per_byte: %lf", &value), 1) << outcome.out;
    return value;
  };
  EXPECT_NEAR(bits("bf16"), bits("exact"), 0.0002);  // docs/ops/linear.md: the same to all digits
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

TEST_F(CommandLine, our_model_writes_the_same_text_on_every_npu) {
  const std::string expected = inlay("run --tokens 24").out;
  ASSERT_FALSE(expected.empty());
  for (const char* device : {"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"}) {
    const Outcome outcome = inlay(std::string("run --tokens 24 --backend npu --device ") + device);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, expected) << device;
    // What is the host's, and nothing else.
    EXPECT_NE(outcome.err.find("rope_table ran on cpu: npu says: "), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("ran on cpu"), outcome.err.rfind("ran on cpu")) << outcome.err;
    EXPECT_NE(inlay("devices").out.find(device), std::string::npos);
  }
  expect_refused("run --backend npu --device pdp-11", {"pdp-11", "ascend-a2-like"});
  const Outcome compared = inlay("run --tokens 4 --backend npu --device systolic32 --compare cpu");
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_NE(compared.err.find("largest logit difference, npu against cpu"), std::string::npos) << compared.err;
}

TEST_F(CommandLine, npu_tells_the_cycles_and_bounds_of_an_operator) {
  const std::string program = "npu reshape_and_cache --shape tokens=64,heads=4 --device ";
  for (const char* device : {"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"}) {
    const Outcome outcome = inlay(program + device);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out.rfind(std::string("reshape_and_cache on ") + device, 0), 0u) << outcome.out;
    // The problem's roofline first.
    const std::size_t cycles = outcome.out.find(" cycles, "), problem = outcome.out.find("of the problem's roofline"),
                      own = outcome.out.find("of the program's");
    EXPECT_TRUE(cycles < problem && problem < own && own != std::string::npos) << outcome.out;
    for (const char* part : {"utilisation of pipes", "critical path", "redundant syncs", "busy"})
      EXPECT_NE(outcome.out.find(part), std::string::npos) << part << '\n' << outcome.out;
    EXPECT_EQ(inlay(program + device).out, outcome.out);
  }
  const Outcome changed = inlay(program + "ascend-a2-like --what-if ub=2x,dram=0.5x --trace " + file("trace.json"));
  EXPECT_EQ(changed.code, 0) << changed.err;
  EXPECT_NE(changed.out.find("what if ub=2x,dram=0.5x: "), std::string::npos) << changed.out;
  EXPECT_NE(changed.out.find(" times as long"), std::string::npos) << changed.out;
  EXPECT_NE(read(file("trace.json")).find("\"traceEvents\""), std::string::npos);
  // A description of one's own.
  const std::string own = write("own.json", read(source / "devices/systolic32.json"));
  EXPECT_EQ(inlay(program + own).out, inlay(program + "systolic32").out);
}

TEST_F(CommandLine, npu_ranks_two_operators_and_a_seed_decides_the_samples) {
  const std::string pair = "npu rank reshape_and_cache:tokens=32 reshape_and_cache:tokens=32,layout=vllm --samples 20 ";
  const Outcome one = inlay(pair + "--seed 1");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find(" of 20 samples of "), std::string::npos) << one.out;
  EXPECT_EQ(inlay(pair + "--seed 1").out, one.out);
  EXPECT_NE(inlay(pair + "--seed 2").out, one.out);
}

TEST_F(CommandLine, npu_refuses_wrong_names_shapes_and_devices_in_one_line) {
  expect_refused("npu", {"an operator is missing"});
  expect_refused("npu reshape", {"reshape is no operator", "reshape_and_cache"});
  expect_refused("npu sampling --device pdp-11", {"pdp-11", "ascend-a2-like"});
  expect_refused("npu sampling --device /nowhere.json", {"/nowhere.json"});
  expect_refused("npu sampling --device " + write("half.json", "{\"name\": "), {"half.json"});
  expect_refused("npu sampling --cores 1000", {"cores is 1000"});
  expect_refused("npu sampling --shape rows", {"rows", "key=value"});
  expect_refused("npu sampling --shape rows=1,rows=2", {"rows twice"});
  expect_refused("npu sampling --shape rowz=1", {"rowz", "rows=1,vocab=128256"});
  for (const char* bad : {"0", "-1", "x", "1.5", "99999999999999999999"})
    expect_refused(std::string("npu sampling --shape rows=") + bad, {"rows is", "a number of 1 or more"});
  expect_refused("npu reshape_and_cache --shape cache=f64", {"cache is f64", "a type"});
  expect_refused("npu reshape_and_cache --shape layout=odd", {"layout is odd", "flat, head_major, vllm"});
  expect_refused("npu reshape_and_cache --shape tokens=100,blocks=1", {"slot_mapping[16]"});
  expect_refused("npu sampling --what-if ub=2", {"ub=2", "NAME=FACTORx"});
  expect_refused("npu sampling --what-if ub=1e300x", {"what-if", "/memories/"});
  expect_refused("npu rank sampling", {"pair"});
  expect_refused("npu rank sampling nothing", {"nothing is no operator"});
  expect_refused("npu rank sampling sampling:rows=0", {"sampling:rows=0", "rows is 0"});
  expect_refused("npu sampling --trace /nowhere/trace.json", {"/nowhere/trace.json"});
  expect_refused("npu sampling --picture /nowhere/picture.svg", {"/nowhere/picture.svg"});
  expect_refused("npu sampling --shape rows=4294967297", {"rows is 4294967297", "4294967296 at most"});
  expect_refused("npu sampling --shape ,rows=1", {"nothing before a comma", "key=value"});
  expect_refused("npu sampling --what-if foo=2x", {"there is no foo", "dram"});
  expect_refused("npu sampling --device /dev", {"/dev cannot be read"});
  expect_refused("npu linear --shape m=4294967296,n=4294967296", {"2^44 elements"});
}

TEST_F(CommandLine, the_picture_of_the_readme_is_what_npu_draws) {
  const std::string command =
      "npu incre_flash_attention --shape sequences=1,heads=8,kv_heads=2,length=1024 --cores 1 --picture ";
  const Outcome outcome = inlay(command + file("picture.svg"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string picture = "docs/npu_timeline.svg", readme = read(source / "README.md");
  EXPECT_TRUE(read(file("picture.svg")) == read(source / picture))
      << picture << " is not what is drawn now; in the project's folder: inlay " << command << picture;
  EXPECT_NE(readme.find("(" + picture + ")"), std::string::npos);
  EXPECT_NE(readme.find("inlay " + command + picture), std::string::npos);
}

}  // namespace
}  // namespace inlay
