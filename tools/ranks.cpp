#include "tools/ranks.hpp"

#include <algorithm>
#include <cctype>
#include <thread>
#include <vector>

#include <inlay/core/threads.hpp>
#include <inlay/exec/comm/lead.hpp>
#include <inlay/exec/comm/loop_comm.hpp>
#ifdef INLAY_HAS_MPI
#include <inlay/exec/comm/mpi_comm.hpp>
#endif

namespace inlay::tools {

namespace {

constexpr int most = 64;

Status lead_or_follow(const ModelOptions& options, const std::function<int(const ModelOptions&)>& command,
                      const std::function<Status(const ModelOptions&)>& follow, int& code) {
  const bool leads = options.comm.rank == 0;
  if (leads) code = command(options);
  Status status = leads ? Status() : follow(options);
  // The others may wait for a model that this rank could not even open.
  if (!status.ok()) exec::give_up(options.comm, status);
  if (leads && code != 0) exec::give_up(options.comm, invalid("what it was asked for was refused"));
  return status;
}

#ifdef INLAY_HAS_MPI
int with_mpi(ModelOptions options, const std::function<int(const ModelOptions&)>& command,
             const std::function<Status(const ModelOptions&)>& follow) {
  auto mpi = exec::MpiComm::make();
  if (!mpi) return wrong(mpi.error());
  options.comm = mpi->comm();
  int code = 0;
  const Status status = lead_or_follow(options, command, follow, code);
  return status.ok() ? code : wrong("rank " + std::to_string(options.comm.rank) + ": " + std::string(status.message()));
}
#endif

}  // namespace

void add_ranks(CLI::App& command, std::string& ranks, std::string& cut) {
  CLI::Option* of_ranks =
      command
          .add_option(
              "--ranks", ranks,
              "That compute one model together: a number of them within this program, with --threads each, or mpi, "
              "those that mpirun has started: docs/ranks.md")
          ->check([](const std::string& word) {
            const bool number = !word.empty() && word.size() < 4 && std::all_of(word.begin(), word.end(), ::isdigit);
            if (word == "mpi" || (number && std::stoi(word) >= 1 && std::stoi(word) <= most)) return std::string();
            return "ranks is " + word + "; it must be in 1.." + std::to_string(most) + ", or mpi";
          });
  command
      .add_option("--cut", cut,
                  "What a rank has of attn_output and ffn_down: columns of all inputs, which computes the bits of one "
                  "rank; or rows: all columns of its own inputs, two sums a layer in place of four all-gathers")
      ->check(CLI::IsMember({"columns", "rows"}))
      ->needs(of_ranks);
}

int with_ranks(const ModelOptions& options, const std::function<int(const ModelOptions&)>& command,
               const std::function<Status(const ModelOptions&)>& follow) {
  if (options.ranks.empty() || options.ranks == "1") return command(options);
  if (options.backend != "cpu" && options.backend != "npu" && options.backend != "reference")
    return wrong("--ranks is " + options.ranks + " and --backend " + options.backend +
                 "; it must be one that computes in the host's memory: cpu, npu or reference");
  if (!options.scales.empty())
    return wrong("--ranks is " + options.ranks + " and --scales is " + options.scales +
                 "; with ranks each token must have scales of its own");
  if (options.ranks == "mpi") {
#ifdef INLAY_HAS_MPI
    return with_mpi(options, command, follow);
#else
    return wrong(
        "--ranks is mpi, which this build was made without; install libopenmpi-dev and configure with -DINLAY_MPI=ON, "
        "or give a number of ranks within this program");
#endif
  }
  const int size = std::stoi(options.ranks);
  ModelOptions of_rank = options;
  if (of_rank.threads == 0) of_rank.threads = std::max(1, default_width() / size);
  exec::LoopComm ranks(size);
  int code = 0;
  const auto run = [&](int rank) {
    // Ranks compute at once, so that none may wait for the threads of another.
    Threads own({.width = of_rank.threads});
    ModelOptions its = of_rank;
    its.own_threads = &own;
    its.comm = ranks.comm(rank);
    return lead_or_follow(its, command, follow, code);
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < size; ++rank)
    others.emplace_back([&run, rank] { (void)run(rank); });  // rank 0 is told of failures, and tells the user
  (void)run(0);
  for (std::thread& each : others) each.join();
  return code;
}

}  // namespace inlay::tools
