// A client's socket as cpp-httplib reads and writes it, but that a client cannot hold: a request has to be there within
// a time and a size, a piece of an answer has to be taken within a time. cpp-httplib alone bounds each read, so that a
// byte every few seconds would hold a thread for ever, and neither a line nor a chunked body.
#pragma once

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace inlay::tools {

class Connection : public httplib::Stream {
 public:
  struct Limits {
    std::chrono::milliseconds request, write, idle;
    std::size_t head_bytes = 16384;  // request line and headers
    std::size_t body_bytes = 0;
  };

  // It closes the socket. `stopping` ends every wait.
  Connection(int socket, const Limits& limits, const std::atomic<bool>& stopping);
  Connection(const Connection&) = delete;
  ~Connection() override;

  // A request has begun; false where the client is gone or had nothing more to ask.
  bool wait_for_request();
  // The head is read; the body of so many bytes comes.
  void expect_body(std::size_t bytes) { left_ = bytes; }
  // What comes behind this request cannot be told from it.
  void close_after_answer() { closing_ = true; }
  bool closes() const { return closing_; }
  bool timed_out() const { return timed_out_; }
  // The client has closed its side.
  bool is_gone() const;

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !is_gone(); }
  ssize_t read(char* to, std::size_t size) override;
  using httplib::Stream::write;
  ssize_t write(const char* from, std::size_t size) override;  // all, or -1
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  // The socket is ready for `events` before then; false too where the server stops and `grace` is over.
  bool wait(short events, Clock::time_point until, std::chrono::milliseconds grace) const;

  int socket_;
  const Limits& limits_;
  const std::atomic<bool>& stopping_;
  char buffer_[4096];
  std::size_t begin_ = 0, end_ = 0;  // of what is buffered
  std::size_t left_ = 0;             // bytes that may be read of this request
  Clock::time_point deadline_ = {};
  bool closing_ = false, timed_out_ = false;
};

// A thread for each connection, up to a limit; `refuse` is true while one above it runs, on the thread that accepts.
class ConnectionThreads : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(std::size_t most) : most_(most) {}
  void enqueue(std::function<void()> task) override;
  void shutdown() override;
  static bool is_refused() { return refused_; }

 private:
  void work();

  std::size_t most_, idle_ = 0;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  bool stopping_ = false;
  static inline thread_local bool refused_ = false;
};

}  // namespace inlay::tools
