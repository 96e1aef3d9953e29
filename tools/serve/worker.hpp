// One thread that owns exec::Server: connections leave what they ask for and get the texts piece by piece.
//
//   auto ticket = worker.submit(request);                // refused: at once, or what the server says
//   Reply::Piece piece;
//   while (ticket->reply().next(piece, 100ms) ..) ..    // a ticket that goes away takes its texts with it
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <inlay/exec/serve/server.hpp>

#include "tools/serve/protocol.hpp"

namespace inlay::tools {

// The texts of one request on their way from the worker to the connection.
class Reply {
 public:
  enum class Finish { stop, length, aborted, failed };
  struct Piece {
    index text = 0;
    std::string bytes = {};  // whole characters
    std::optional<Finish> finish = {};
  };
  enum class Got { piece, nothing, end };

  Reply(index texts, std::size_t max_unread) : max_unread_(max_unread), unfinished_(texts) {}

  // For the connection. `nothing` came in time, or all texts have ended and nothing is left.
  Got next(Piece& piece, std::chrono::milliseconds patience);
  index new_tokens() const;
  std::string failure() const;

 private:
  friend class Worker;
  // False where the connection has left too much unread: the text ends.
  bool push(index text, std::string bytes);
  void finish(index text, std::string bytes, Finish how, index tokens, std::string_view failure);
  bool has_ended() const;
  void admit(Status status);
  Status wait_for_admission();

  const std::size_t max_unread_;
  std::vector<index> ranks_ = {};  // the worker's own
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Piece> pieces_ = {};
  std::size_t unread_ = 0;
  index unfinished_;
  index new_tokens_ = 0;
  std::string failure_ = {};
  std::optional<Status> admission_ = {};
};

class Worker {
 public:
  struct Limits {
    index texts = 0;         // that wait or run
    std::size_t unread = 0;  // bytes of one request that its client has not taken
  };
  struct Counts {
    index running = 0, waiting = 0, preemptions = 0, swaps = 0;
    index prompt_tokens = 0, reused = 0, new_tokens = 0;
    index finished[4] = {};  // by Reply::Finish
    index steps = 0;
    double step_seconds = 0;
  };
  class Ticket;

  Worker(exec::Server server, exec::Tokenizer tokenizer, const Limits& limits);
  ~Worker() { stop(); }

  tl::expected<Ticket, ApiError> submit(ApiRequest request);
  // Ends all texts and takes no more.
  void stop();
  Counts counts() const;

 private:
  struct Message {
    std::shared_ptr<Reply> reply;
    std::optional<ApiRequest> request;  // none: it is not wanted any more
  };
  struct Text;

  void loop();
  void begin(const std::shared_ptr<Reply>& reply, ApiRequest& request);
  void finish(Text& text, exec::TextRequest::End end, const Status& why);
  void abort(Reply& reply, Reply::Finish how, std::string_view why);
  void step();
  void publish();
  void forget(const std::shared_ptr<Reply>& reply);

  exec::Server server_;
  exec::Tokenizer tokenizer_;
  Limits limits_;
  std::vector<std::shared_ptr<Reply>> replies_;  // whose texts the server has
  Reply::Finish abort_as_ = Reply::Finish::aborted;
  std::string abort_why_ = {};
  Counts own_ = {};  // the thread's

  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Message> mailbox_;
  index texts_ = 0;  // that were taken and have not ended
  bool stopping_ = false;
  Counts counts_ = {};
  std::thread thread_;
};

// The texts end with it, if they have not ended.
class Worker::Ticket {
 public:
  Ticket(Worker& worker, std::shared_ptr<Reply> reply) : worker_(&worker), answer_(std::move(reply)) {}
  Ticket(Ticket&&) noexcept = default;
  Ticket& operator=(Ticket&&) = delete;
  ~Ticket() {
    if (answer_) worker_->forget(answer_);
  }
  Reply& reply() const { return *answer_; }

 private:
  Worker* worker_;
  std::shared_ptr<Reply> answer_;
};

}  // namespace inlay::tools
