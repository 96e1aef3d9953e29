// Ranks that are processes: the bits of one rank, or of ranks that are threads; one that is another model's, one that
// is stopped and one that is killed. mpirun starts this program, once for each rank:
//
//   mpirun -n 2 test_exec_ranks_of_mpich --rank FILE columns:0:64 columns:0:64      what each rank has; rank 0 writes
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <inlay/exec/comm/mpi_comm.hpp>

#include "tests/exec/support/ranks.hpp"

namespace inlay::exec::test {
namespace {

constexpr index prompt = 9, generated = 5;

// What one rank has of a model, and what befalls it behind its first passes.
struct Part {
  std::string cut = "columns", end = "none";
  index context = 96;

  std::string words() const { return cut + ":" + end + ":" + std::to_string(context); }
  static Part parse(const std::string& words) {
    const std::size_t first = words.find(':'), second = words.rfind(':');
    return {words.substr(0, first), words.substr(first + 1, second - first - 1), std::stol(words.substr(second + 1))};
  }
  RankOfModel model() const {
    RankOfModel made;
    made.by = cut == "rows" ? RankCut::By::rows : RankCut::By::columns;
    made.options.context = context;
    return made;
  }
};

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + values.size() * sizeof(float)};
}

// Computes along until it is told to stop or to die, on rank 1.
class Ending final : public Engine {
 public:
  Ending(std::unique_ptr<Engine> engine, int signal) : engine_(std::move(engine)), signal_(signal) {}

  Status forward(const Batch& batch, index first) override {
    if (++passes_ == 3) std::raise(signal_);
    return engine_->forward(batch, first);
  }
  const ModelConfig& config() const override { return engine_->config(); }
  BlockPool& blocks() override { return engine_->blocks(); }
  std::size_t cache_bytes() const override { return engine_->cache_bytes(); }
  SwapSpace* swap_space() override { return engine_->swap_space(); }
  std::span<const Fallback> fallbacks() const override { return engine_->fallbacks(); }
  void use_plans(Plans plans) override { engine_->use_plans(plans); }
  const PlanCache::Counts& plan_counts() const override { return engine_->plan_counts(); }
  void observe(StepObserver* observer) override { engine_->observe(observer); }
  Status reserve_logits(index rows) override { return engine_->reserve_logits(rows); }
  Expected<ConstView<2>> logits(index first, index rows) override { return engine_->logits(first, rows); }
  Expected<std::int32_t> sample(const Sampling<Host>& settings, index row) override {
    return engine_->sample(settings, row);
  }

 private:
  std::unique_ptr<Engine> engine_;
  int signal_, passes_ = 0;
};

// A rank's whole life, under mpirun.
int be_a_rank(const std::string& file, const std::vector<std::string>& parts) {
  auto mpi = MpiComm::make(2);
  if (!mpi) return 3;
  const Comm comm = mpi->comm();
  const Part part = Part::parse(parts[static_cast<std::size_t>(comm.rank) % parts.size()]);
  auto engine = part.model().engine(comm);
  Status status = engine ? Status() : std::move(engine.error());
  if (status.ok() && comm.rank != 0) {
    if (part.end != "none")
      *engine = std::make_unique<Ending>(std::move(*engine), part.end == "stops" ? SIGSTOP : SIGKILL);
    status = follow(**engine, comm);
  } else if (status.ok()) {
    std::vector<float> all;
    status = add_logits_of(**engine, prompt, generated, all);
    const auto bytes = bytes_of(all);
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  if (!status.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", comm.rank, std::string(status.message()).c_str());
    give_up(comm, status);
  }
  return status.ok() ? 0 : 2;
}

class RanksOfMpi : public ::testing::Test {
 protected:
  struct Outcome {
    int code;
    std::string written, err;
    double seconds;
  };

  RanksOfMpi() {
    std::string name = (std::filesystem::temp_directory_path() / "inlay-mpi-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~RanksOfMpi() override { std::filesystem::remove_all(folder_); }

  static std::string mpirun() {
    const char* const named = std::getenv("INLAY_MPIRUN");
    EXPECT_NE(named, nullptr) << "INLAY_MPIRUN must name the mpirun of the MPI that this was linked with";
    return named == nullptr ? "false" : named;
  }
  Outcome ranks(int count, const std::vector<Part>& parts) const {
    // Open MPI refuses root, and more ranks than processors, where nobody says that he means it; MPICH asks nothing.
    std::string command =
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 " + mpirun() +
        " -n " + std::to_string(count) + " " + std::filesystem::read_symlink("/proc/self/exe").string() + " --rank " +
        folder_ + "/out";
    for (const Part& part : parts) command += " " + part.words();
    command += " </dev/null >" + folder_ + "/said 2>" + folder_ + "/err";
    std::filesystem::remove(folder_ + "/out");
    const auto begin = std::chrono::steady_clock::now();
    const int status = std::system(command.c_str());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read("/out"), read("/err") + read("/said"), seconds};
  }
  std::string read(const std::string& name) const {
    std::ifstream stream(folder_ + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static std::string text_of(const std::vector<float>& values) {
    const auto bytes = bytes_of(values);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::string folder_;
};

TEST_F(RanksOfMpi, columns_are_the_bits_of_one_rank) {
  const auto one = Part().model().engine({});
  ASSERT_TRUE(one.has_value());
  const std::string expected = text_of(logits_of(**one, prompt, generated));
  for (const int count : {1, 2, 3}) {
    const Outcome outcome = ranks(count, {Part()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(outcome.written == expected) << count << " ranks";
  }
}

TEST_F(RanksOfMpi, rows_are_the_bits_of_ranks_that_are_threads) {
  const std::vector<RankOfModel> models(2, Part{.cut = "rows"}.model());
  LoopComm loop(2);
  std::string expected;
  {
    Followers followers(loop, models);
    const auto first = models[0].engine(loop.comm(0));
    ASSERT_TRUE(first.has_value());
    expected = text_of(logits_of(**first, prompt, generated));
  }
  const Outcome outcome = ranks(2, {Part{.cut = "rows"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.written == expected);
}

TEST_F(RanksOfMpi, a_rank_of_something_else_is_refused) {
  const Outcome outcome = ranks(2, {Part(), Part{.context = 80}});
  EXPECT_NE(outcome.code, 0);
  EXPECT_EQ(outcome.written, "");
  EXPECT_NE(outcome.err.find("context is 80 on rank 1 and 96 on rank 0; it must be the same on all ranks"),
            std::string::npos)
      << outcome.err;
}

// The deadline is two seconds; MPI ends a rank that does not hear.
TEST_F(RanksOfMpi, a_rank_that_stops_is_named) {
  const Outcome outcome = ranks(2, {Part(), Part{.end = "stops"}});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("rank 1 has not come within 2000 ms"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(" in layer "), std::string::npos) << outcome.err;
}

TEST_F(RanksOfMpi, a_rank_that_is_killed_ends_all) {
  const Outcome outcome = ranks(2, {Part(), Part{.end = "dies"}});
  EXPECT_NE(outcome.code, 0);
}

}  // namespace
}  // namespace inlay::exec::test

int main(int argc, char** argv) {
  if (argc > 3 && std::string(argv[1]) == "--rank")
    return inlay::exec::test::be_a_rank(argv[2], std::vector<std::string>(argv + 3, argv + argc));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
