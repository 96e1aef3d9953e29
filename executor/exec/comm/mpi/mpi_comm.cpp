#include <inlay/exec/comm/mpi_comm.hpp>

#include <mpi.h>

#include <chrono>
#include <climits>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace inlay::exec {

namespace {

using Clock = std::chrono::steady_clock;

// Who waits longer than a step takes lets others have the processor, and who waits for a text to go on sleeps.
constexpr std::chrono::microseconds spin(50), awake(20000), nap(200);
constexpr int said = 1, gave_up = 2;  // tags

Status told(int code, const char* what) {
  if (code == MPI_SUCCESS) return {};
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, words, &length);
  return {StatusCode::internal, std::string(what) + ": " + std::string(words, static_cast<std::size_t>(length))};
}

}  // namespace

struct MpiComm::Rank {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
  double deadline = 0;
  bool finalises = false;
  bool failed = false;     // others, who may hang
  std::string last_words;  // of abort, which may still be under way
  std::vector<MPI_Request> requests;
  std::vector<int> others;  // of each request

  ~Rank() {
    if (failed) MPI_Abort(MPI_COMM_WORLD, 2);
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    if (finalises) MPI_Finalize();
  }

  Status send(const void* bytes, std::size_t count, int to) {
    return add(count, to, "MPI_Isend", [&](int elements, MPI_Request* request) {
      return MPI_Isend(bytes, elements, MPI_BYTE, to, said, comm, request);
    });
  }
  Status receive(void* bytes, std::size_t count, int from) {
    return add(count, from, "MPI_Irecv", [&](int elements, MPI_Request* request) {
      return MPI_Irecv(bytes, elements, MPI_BYTE, from, said, comm, request);
    });
  }
  template <class Begin> Status add(std::size_t count, int other, const char* what, Begin&& begin) {
    if (count > INT_MAX)
      return {StatusCode::internal, std::string(what) + " of " + std::to_string(count) + " bytes; MPI counts to 2^31"};
    MPI_Request request = MPI_REQUEST_NULL;
    Status status = told(begin(static_cast<int>(count), &request), what);
    if (status.ok()) requests.push_back(request), others.push_back(other);
    return status;
  }

  // Until all that was begun is done. Behind a failure nothing is waited for any more.
  Status wait(Status begun, double seconds) {
    Status status = begun.ok() ? poll(seconds) : std::move(begun);
    requests.clear(), others.clear();
    failed = failed || !status.ok();
    return status;
  }
  Status poll(double seconds) {
    const auto begin = Clock::now();
    for (;;) {
      int done = 0;
      Status status = told(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
                           "MPI_Testall");
      if (!status.ok() || done != 0) return status;
      const auto waited = Clock::now() - begin;
      if (waited < spin) continue;
      status = heard();
      if (!status.ok()) return status;
      if (std::chrono::duration<double>(waited).count() > seconds)
        return {StatusCode::internal, "rank " + std::to_string(late()) + " has not come within " +
                                          std::to_string(static_cast<long>(seconds * 1e3)) + " ms"};
      if (waited > awake)
        std::this_thread::sleep_for(nap);
      else
        std::this_thread::yield();
    }
  }
  // Has some rank given up?
  Status heard() {
    int there = 0;
    MPI_Status of;
    Status status = told(MPI_Iprobe(MPI_ANY_SOURCE, gave_up, comm, &there, &of), "MPI_Iprobe");
    if (!status.ok() || there == 0) return status;
    int length = 0;
    MPI_Get_count(&of, MPI_BYTE, &length);
    std::string why(static_cast<std::size_t>(length), 0);
    MPI_Recv(why.data(), length, MPI_BYTE, of.MPI_SOURCE, gave_up, comm, MPI_STATUS_IGNORE);
    return {StatusCode::internal, why};
  }
  // The first that is waited for: requests that are done are null.
  int late() const {
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i] != MPI_REQUEST_NULL) return others[i];
    return rank;
  }

  static Status all_gather(void* context, const void* own, std::span<const std::size_t> bytes, void* all,
                           double seconds);
  static Status broadcast(void* context, void* bytes, std::size_t count, double seconds);
  static void abort(void* context, std::string_view why);
};

Status MpiComm::Rank::all_gather(void* context, const void* own, std::span<const std::size_t> bytes, void* all,
                                 double seconds) {
  Rank& self = *static_cast<Rank*>(context);
  Status status;
  auto* to = static_cast<std::byte*>(all);
  for (int other = 0; other < self.size; ++other) {
    const std::size_t theirs = bytes[static_cast<std::size_t>(other)];
    if (other == self.rank) {
      if (to != own && theirs != 0) std::memcpy(to, own, theirs);
    } else {
      if (status.ok()) status = self.receive(to, theirs, other);
      if (status.ok()) status = self.send(own, bytes[static_cast<std::size_t>(self.rank)], other);
    }
    to += theirs;
  }
  return self.wait(std::move(status), seconds);
}

Status MpiComm::Rank::broadcast(void* context, void* bytes, std::size_t count, double seconds) {
  Rank& self = *static_cast<Rank*>(context);
  Status status;
  if (self.rank != 0) status = self.receive(bytes, count, 0);
  for (int other = 1; self.rank == 0 && other < self.size; ++other)
    if (status.ok()) status = self.send(bytes, count, other);
  return self.wait(std::move(status), seconds);
}

void MpiComm::Rank::abort(void* context, std::string_view why) {
  Rank& self = *static_cast<Rank*>(context);
  if (!self.last_words.empty()) return;
  self.last_words = why;
  for (int other = 0; other < self.size; ++other) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (other != self.rank)
      MPI_Isend(self.last_words.data(), static_cast<int>(why.size()), MPI_BYTE, other, gave_up, self.comm, &request);
  }
}

Expected<MpiComm> MpiComm::make(double deadline) {
  auto rank = std::make_unique<Rank>();
  rank->deadline = deadline;
  int given = 0;
  Status status = told(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
  if (!status.ok()) return failure(std::move(status));
  rank->finalises = true;
  if (given < MPI_THREAD_FUNNELED)
    return failure(StatusCode::internal, "MPI allows no other threads; it must be MPI_THREAD_FUNNELED at least");
  status = told(MPI_Comm_dup(MPI_COMM_WORLD, &rank->comm), "MPI_Comm_dup");
  if (status.ok()) status = told(MPI_Comm_set_errhandler(rank->comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (status.ok()) status = told(MPI_Comm_rank(rank->comm, &rank->rank), "MPI_Comm_rank");
  if (status.ok()) status = told(MPI_Comm_size(rank->comm, &rank->size), "MPI_Comm_size");
  if (!status.ok()) return failure(std::move(status));
  return MpiComm(std::move(rank));
}

MpiComm::MpiComm(std::unique_ptr<Rank> rank) : rank_(std::move(rank)) {}
MpiComm::MpiComm(MpiComm&&) noexcept = default;
MpiComm& MpiComm::operator=(MpiComm&&) noexcept = default;
MpiComm::~MpiComm() = default;

Comm MpiComm::comm() const {
  return {.context = rank_.get(),
          .rank = rank_->rank,
          .size = rank_->size,
          .all_gather = Rank::all_gather,
          .broadcast = Rank::broadcast,
          .abort = Rank::abort,
          .deadline = rank_->deadline};
}

}  // namespace inlay::exec
