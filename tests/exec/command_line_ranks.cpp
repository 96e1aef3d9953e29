// `inlay run --ranks`, `inlay bench model --ranks`: the text of one rank, written once; wrong use is refused by name.
#include "tests/exec/support/command_line.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::test {
namespace {

TEST_F(CommandLine, ranks_within_the_program_write_the_text_of_one) {
  const std::string how = "run --prompt \"Lily and Tom\" --tokens 48 --temperature 0.8 --seed 3 --chunk 5";
  const std::string expected = inlay(how).out;
  ASSERT_GT(expected.size(), 60u);
  for (const char* ranks : {"1", "2", "3 --threads 2", "4 --isa scalar"}) {
    const Outcome outcome = inlay(how + " --ranks " + ranks);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, expected) << ranks;
  }
}

// Sums are in another order: a greedy text stays, as far as no two logits are that close.
TEST_F(CommandLine, ranks_that_cut_rows_write_the_text_of_one) {
  const std::string how = "run --prompt \"Lily and Tom\" --tokens 24 --temperature 0 --chunk 5";
  const std::string expected = inlay(how).out;
  for (const char* ranks : {"2", "4"}) {
    const Outcome outcome = inlay(how + " --cut rows --ranks " + ranks);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, expected) << ranks;
  }
  expect_refused("run --ranks 2 --cut both", {"--cut", "both"});
  expect_refused("run --cut rows", {"--cut", "--ranks"});
  const std::string model = (source / "models" / "stories.gguf").string();
  const Outcome measured =
      inlay("bench model " + model + " --ranks 2 --cut rows --threads 1 --prefill 8 --depth 4 --tokens 2");
  EXPECT_EQ(measured.code, 0) << measured.err;
}

TEST_F(CommandLine, ranks_are_refused_by_name) {
  expect_refused("run --ranks 5", {"heads is 8:4 (q:kv)", "5 ranks"});
  for (const char* word : {"0", "-1", "65", "many", "1x", "999999999999"})
    expect_refused("run --ranks " + std::string(word), {"it must be in 1..64, or mpi", word});
  expect_refused("run --ranks 2 --backend cpu+npu", {"--backend cpu+npu", "host's memory"});
  expect_refused("run --ranks 2 --scales some.json", {"--scales is some.json", "--ranks is 2"});
  expect_refused("serve --ranks mpi", {"--ranks is mpi", "within this program"});
  expect_refused("run --ranks 2 --compare reference", {"--ranks"});
  expect_refused("run missing.gguf --ranks 2", {"missing.gguf"});
  expect_refused("bench model missing.gguf --ranks 2", {"missing.gguf"});
  expect_refused("bench model --shape qwen2.5-0.5b --ranks 3 --prefill 1 --depth 0",
                 {"heads is 14:2 (q:kv)", "3 ranks"});
#ifndef INLAY_MPIEXEC
  expect_refused("run --ranks mpi", {"-DINLAY_MPI=ON"});
#endif
}

TEST_F(CommandLine, ranks_write_many_texts_at_once) {
  const std::string how =
      "run --tokens 24 --temperature 0.8 --seed 3 --chunk 16 --batch 3 --cache-tokens 128 --prompts " +
      write("prompts", "Tom\nOne day, a big dog\nThe red bird\nLily\n");
  const std::string expected = inlay(how).out;
  ASSERT_GT(expected.size(), 200u);
  for (const char* ranks : {"2", "3 --plans off"}) {
    const Outcome outcome = inlay(how + " --ranks " + ranks);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, expected) << ranks;
  }
  const Outcome trace =
      inlay("bench serve --ranks 2 --trace " + write("trace", "{\"at\": 0, \"prompt\": 9, \"tokens\": 4}\n"));
  EXPECT_EQ(trace.code, 0) << trace.err;
  EXPECT_NE(trace.out.find(" 4 new ones"), std::string::npos) << trace.out;
}

TEST_F(CommandLine, ranks_are_measured) {
  const std::string model = (source / "models" / "stories.gguf").string();
  const Outcome outcome = inlay("bench model " + model + " --ranks 2 --threads 1 --prefill 8 --depth 4 --tokens 2");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("linears 1 MB on rank 0"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("decode at depth     4"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("2 ranks\n"), std::string::npos) << outcome.out;
  const Outcome batch =
      inlay("bench model " + model + " --ranks 2 --threads 1 --prefill 8 --depth 4 --tokens 2 --batch 3");
  EXPECT_EQ(batch.code, 0) << batch.err;
  EXPECT_NE(batch.out.find("decode of  3 texts"), std::string::npos) << batch.out;
}

TEST_F(CommandLine, ranks_of_mpi_write_the_text_of_one_and_write_it_once) {
#ifdef INLAY_MPIEXEC
  const std::string how = "run --prompt \"Lily and Tom\" --tokens 48 --temperature 0.8 --seed 3 --chunk 5";
  const std::string expected = inlay(how).out;
  // Open MPI refuses root, and more ranks than processors, where nobody says that he means it; MPICH asks nothing.
  const std::string mpirun =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 " INLAY_MPIEXEC;
  const auto ranks = [&](const std::string& words) {
    const std::string command = mpirun + " " + words + " >" + file("out") + " 2>" + file("err") + " </dev/null";
    const int status = std::system(command.c_str());
    std::string out = read(file("out"));
    if (out.ends_with('\n')) out.pop_back();  // Open MPI gives a rank a terminal
    return Outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 128, std::move(out), read(file("err"))};
  };
  const std::string program = inlay_program;
  for (const char* count : {"1", "2", "3"}) {
    const Outcome outcome = ranks("-n " + std::string(count) + " " + program + " " + how + " --ranks mpi --threads 1");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, expected) << count;
  }
  const std::string sums = inlay(how + " --ranks 2 --cut rows").out;  // LoopComm's bits are MPI's
  EXPECT_EQ(ranks("-n 2 " + program + " " + how + " --ranks mpi --cut rows --threads 1").out, sums);
  const Outcome cuts = ranks("-n 1 " + program + " run --ranks mpi : -n 1 " + program + " run --ranks mpi --cut rows");
  EXPECT_NE(cuts.err.find("the cut is rows on rank 1 and columns on rank 0"), std::string::npos) << cuts.err;
  const Outcome differ =
      ranks("-n 1 " + program + " run --ranks mpi --context 64 : -n 1 " + program + " run --ranks mpi --context 80");
  EXPECT_NE(differ.code, 0);
  EXPECT_EQ(differ.out, "");
  EXPECT_NE(differ.err.find("context is 80 on rank 1 and 64 on rank 0; it must be the same on all ranks"),
            std::string::npos)
      << differ.err;
  const Outcome missing =
      ranks("-n 1 " + program + " run --ranks mpi : -n 1 " + program + " run missing.gguf --ranks mpi");
  EXPECT_NE(missing.code, 0);
  EXPECT_EQ(missing.out, "");
  EXPECT_NE(missing.err.find("missing.gguf"), std::string::npos) << missing.err;
#else
  INLAY_NEEDS(false, "mpi", "this build has no MPI (INLAY_MPI)");
#endif
}

}  // namespace
}  // namespace inlay::test
