// `inlay npu`, and models on the devices that it describes.
#include <regex>

#include "tests/exec/support/command_line.hpp"
#include "tests/support/requirements.hpp"
#include "tests/support/sanitizers.hpp"

namespace inlay::test {
namespace {

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

TEST_F(CommandLine, stories260k_byte_for_byte_on_every_npu) {
  INLAY_NEEDS_DATA("stories260K");
  const std::string stories = third_party("stories260K");
  const Outcome converted = inlay("convert " + stories + "/stories260K.bin --tokenizer " + stories + "/tok512.bin -o " +
                                  file("stories.gguf"));
  ASSERT_EQ(converted.code, 0) << converted.err;
  const std::string expected = read(stories + "/greedy_bos_n200.txt");
  for (const char* device : {"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"})
    EXPECT_EQ(
        inlay("run " + file("stories.gguf") + " --temperature 0 --tokens 200 --backend npu --device " + device).out,
        expected)
        << device;
}

TEST_F(CommandLine, the_cpu_and_the_npu_write_the_text_of_the_cpu) {
  const std::string story =
      "run --temperature 0 --tokens 24 --chunk 7 --prompt \"Once upon a time there was a little dog who lived\"";
  const Outcome alone = inlay(story), both = inlay(story + " --backend cpu+npu --chunks-at-once 3");
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, alone.out);
  // What it declines is the CPU's.
  const Outcome whole = inlay(story + " --backend cpu+npu --place all=npu");
  EXPECT_EQ(whole.out, alone.out) << whole.err;
  EXPECT_NE(whole.err.find("rope_table ran on cpu: npu says: "), std::string::npos) << whole.err;
  const std::string many =
      "run --temperature 0 --tokens 8 --batch 3 --prompts " + write("prompts", "Tom\nOne day\nThe red bird\n");
  EXPECT_EQ(inlay(many + " --backend cpu+npu").out, inlay(many).out);
  const Outcome measured = inlay(
      "bench model --shape stories260k --type w4a16 --backend cpu+npu --place linears=npu --prefill 4 --depth 0 "
      "--tokens 1 --batch 2");
  EXPECT_EQ(measured.code, 0) << measured.err;
  EXPECT_NE(measured.out.find("decode of  2 texts"), std::string::npos) << measured.out;
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
    // Of these only the phone's has static graphs.
    EXPECT_EQ(outcome.out.find("before: 152 ms and 1.9 ms a token") != std::string::npos,
              std::string(device) == "hexagon-htp-like");
  }
  const Outcome traced = inlay(program + "ascend-a2-like --trace " + file("trace.json"));
  EXPECT_EQ(traced.code, 0) << traced.err;
  EXPECT_NE(read(file("trace.json")).find("\"traceEvents\""), std::string::npos);
  // A description of one's own.
  const std::string own = write("own.json", read(source / "tile_machine/devices/systolic32.json"));
  EXPECT_EQ(inlay(program + own).out, inlay(program + "systolic32").out);
  // With a fifth of its clock it takes as many cycles, and longer.
  const std::regex clock("\"ghz\": *\\[ *[0-9.]+");
  const std::string slow = write("slow.json", std::regex_replace(read(own), clock, "\"ghz\": [0.2"));
  EXPECT_EQ(inlay(program + slow).code, 0);
  EXPECT_NE(inlay(program + slow).out, inlay(program + own).out);
}

TEST_F(CommandLine, npu_ranks_two_operators_and_a_seed_decides_the_samples) {
  const std::string pair = "npu rank reshape_and_cache:tokens=32 reshape_and_cache:tokens=32,layout=vllm --samples 20 ";
  const Outcome one = inlay(pair + "--seed 1");
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_NE(one.out.find(" of 20 samples of "), std::string::npos) << one.out;
  EXPECT_EQ(inlay(pair + "--seed 1").out, one.out);
  EXPECT_NE(inlay(pair + "--seed 2").out, one.out);
}

// The example of docs/npu_fit.md: its table, its command, and what that writes.
TEST_F(CommandLine, npu_fit_finds_the_figures_of_the_page) {
  const std::string page = read(source / "docs/npu_fit.md"), fence = "```csv\n";
  const std::size_t begin = page.find(fence) + fence.size(), end = page.find("```", begin);
  ASSERT_LT(begin, page.size());
  const std::string times = write("times.csv", page.substr(begin, end - begin)), fitted = file("fitted.json");
  const Outcome outcome = inlay("npu fit ascend-a2-like " + times + " -o " + fitted);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream told(outcome.out), shown(page.substr(page.find("$ inlay npu fit")));
  std::string line, expected;
  std::getline(shown, expected);  // the command
  while (std::getline(told, line)) {
    ASSERT_TRUE(std::getline(shown, expected));
    // Without what the folder and the last digit of a logarithm change.
    const auto words = [](const std::string& text) {
      std::istringstream stream(text);
      std::string first, second;
      stream >> first >> second;
      return first + " " + second.substr(0, 3);
    };
    EXPECT_EQ(words(line), words(expected));
  }
  EXPECT_NE(outcome.out.find("/host/launch_us "), std::string::npos) << outcome.out;
  // It is a description, with the launch that was found.
  const Outcome slow = inlay("npu add --shape rows=64,dim=1024 --device " + fitted);
  EXPECT_EQ(slow.code, 0) << slow.err;
  EXPECT_NE(slow.out.find("and 9 us for its launch"), std::string::npos) << slow.out;
  EXPECT_NE(read(fitted).find("log:" + times), std::string::npos);
}

TEST_F(CommandLine, npu_fit_refuses_what_tells_nothing_and_writes_nothing) {
  const auto refused = [&](const std::string& log, std::initializer_list<const char*> words) {
    const std::string fitted = write("fitted.json", "as it was");
    expect_refused("npu fit ascend-a2-like " + write("log", log) + " -o " + fitted, words);
    EXPECT_EQ(read(fitted), "as it was") << log;
  };
  refused("a,b\n1,2\n", {"/log: is no log", "operator"});
  refused("operator,shape,ms\nadd,,1\n", {"/log: line 1 has the columns operator, shape, ms", "must also have us"});
  refused("operator,shape,us\nadd,\"rows=4,dim=8\",-1\n", {"line 2: us is \"-1\"", "at least 0"});
  refused("operator,shape,us\nad,\"rows=4\",1\n", {"/log: line 2: ad is no operator"});
  refused("operator,shape,us\nadd,\"rowz=4\",1\n", {"/log: line 2: --shape has rowz"});
  refused("operator,shape,us\nadd,\"rows=64,dim=64\",7\n", {"the logs tell no figure of ascend-a2-like", "open by"});
  refused("instr,call_count,cycles,detail\nVADD,1,30,\"XT:X8=0x800080808010101\"\n",
          {"the logs tell no figure", "/vector/operations/add/head", "repeats"});
  expect_refused("npu fit ascend-a2-like /nowhere.csv -o " + file("fitted.json"), {"/nowhere.csv cannot be read"});
  expect_refused("npu fit pdp-11 " + file("log") + " -o " + file("fitted.json"), {"pdp-11", "ascend-a2-like"});
  expect_refused("npu fit ascend-a2-like " + file("log"), {"--output"});
  expect_refused("npu fit ascend-a2-like", {"logs"});
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
  expect_refused("npu rank sampling", {"pair"});
  expect_refused("npu rank sampling nothing", {"nothing is no operator"});
  expect_refused("npu rank sampling sampling:rows=0", {"sampling:rows=0", "rows is 0"});
  expect_refused("npu sampling --trace /nowhere/trace.json", {"/nowhere/trace.json"});
  expect_refused("npu sampling --picture /nowhere/picture.svg", {"/nowhere/picture.svg"});
  expect_refused("npu sampling --shape rows=4294967297", {"rows is 4294967297", "4294967296 at most"});
  expect_refused("npu sampling --shape ,rows=1", {"nothing before a comma", "key=value"});
  expect_refused("npu sampling --device /dev", {"/dev cannot be read"});
  expect_refused("npu linear --shape m=4294967296,n=4294967296", {"2^44 elements"});
  for (const char* list : {"reshape_and_cache --shape tokens=4000000000", "embedding --shape tokens=67108865",
                           "paged_attention --shape sequences=67108865,length=16"})
    expect_refused(std::string("npu ") + list, {"--shape asks for a list of", "67108864 at most"});
  // Tiles of which not even the smallest fits.
  const auto with = [&](const std::string& memory, int bytes) {
    const std::string figure = "\"name\": \"" + memory + "\", \"bytes\": [",
                      text = read(source / "tile_machine/devices/ascend-a2-like.json");
    const std::size_t at = text.find(figure) + figure.size();
    EXPECT_LT(at, text.size());
    return " --device " +
           write("small.json", text.substr(0, at) + std::to_string(bytes) + text.substr(text.find(',', at)));
  };
  for (const char* op : {"linear", "linear_int8", "linear_w4a16"})
    for (const char* memory : {"L0C", "L0A"})
      expect_refused(std::string("npu ") + op + with(memory, 512), {"bytes of", "the largest free range"});
  expect_refused("npu linear_w4a16" + with("UB", 1536), {"bytes of", "the largest free range"});
}

TEST_F(CommandLine, npu_counts_the_cores_that_it_was_given) {
  const auto share = [&](const std::string& arguments) {
    const Outcome outcome = inlay("npu linear --shape m=64,n=256,k=256 " + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    double share = 0;
    const std::size_t at = outcome.out.find("GHz; ");
    EXPECT_EQ(std::sscanf(outcome.out.c_str() + std::min(at, outcome.out.size()), "GHz; %lf", &share), 1);
    return share;
  };
  // One of two: the roofline is that of one.
  const std::string one =
      write("one.json", std::regex_replace(read(source / "tile_machine/devices/ascend-a2-like.json"),
                                           std::regex("\"cores\": \\[24"), "\"cores\": [1"));
  EXPECT_EQ(share("--cores 1"), share("--device " + one));
  EXPECT_NE(share("--cores 1"), share("--cores 2"));
}

// The description without one of its vector operations.
TEST_F(CommandLine, a_model_runs_on_the_cpu_where_the_device_lacks_an_operation) {
  const std::string text = read(source / "tile_machine/devices/hexagon-htp-like.json");
  const std::string lacking = write("lacking.json", std::regex_replace(text, std::regex(" *\"exp\": [^\n]*\n"), ""));
  ASSERT_LT(read(lacking).size(), text.size());
  const Outcome outcome = inlay("run --tokens 4 --backend npu --device " + lacking);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, inlay("run --tokens 4").out);
  EXPECT_NE(outcome.err.find("flash_attention ran on cpu: npu says: hexagon-htp-like"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("no vector operation exp"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("linear ran on cpu"), std::string::npos) << outcome.err;
}

TEST_F(CommandLine, npu_rounds_a_models_activations_where_it_is_asked_to) {
  const auto difference = [&](const std::string& activations) {
    const Outcome outcome = inlay("run --tokens 4 --backend npu --compare cpu --activations " + activations);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    double value = -1;
    const std::string words = "largest logit difference, npu against cpu: ";
    const std::size_t at = outcome.err.find(words);
    if (at == std::string::npos) ADD_FAILURE() << outcome.err;
    if (at != std::string::npos) std::sscanf(outcome.err.c_str() + at + words.size(), "%lf", &value);
    return value;
  };
  const double exact = difference("exact"), f16 = difference("f16");
  EXPECT_LT(2 * exact, f16);
  EXPECT_LT(f16, 0.1);
  for (const char* other : {"run", "run --backend reference", "bench model --shape llama3.2-1b"})
    expect_refused(std::string(other) + " --activations f16", {"--activations is f16", "--backend npu"});
}

// What a log would take is more than there is.
TEST_F(CommandLine, npu_says_that_no_memory_is_left) {
  if (address_sanitizer || thread_sanitizer) GTEST_SKIP() << "a sanitizer's own memory is beyond every limit";
  const std::string command = std::string("ulimit -v 2000000; ") + inlay_program +
                              " npu linear --shape m=100000,n=100000,k=8192 >" + file("out") + " 2>" + file("err");
  const int status = std::system(command.c_str());
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 2);
  EXPECT_NE(read(file("err")).find("no memory is left"), std::string::npos) << read(file("err"));
}

TEST_F(CommandLine, the_picture_of_the_page_is_what_npu_draws) {
  const std::string command =
      "npu incre_flash_attention --shape sequences=1,heads=8,kv_heads=2,length=1024 --cores 1 --picture ";
  const Outcome outcome = inlay(command + file("picture.svg"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string picture = "docs/npu_timeline.svg", page = read(source / "docs/npu.md");
  EXPECT_TRUE(read(file("picture.svg")) == read(source / picture))
      << picture << " is not what is drawn now; in the project's folder: inlay " << command << picture;
  EXPECT_NE(page.find("(npu_timeline.svg)"), std::string::npos);
  EXPECT_NE(page.find("inlay " + command + picture), std::string::npos);
}

}  // namespace
}  // namespace inlay::test
