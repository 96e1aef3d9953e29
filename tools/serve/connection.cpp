#include "tools/serve/connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace inlay::tools {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds stop_glance(50);  // how often a wait looks whether the server stops

}  // namespace

// What the kernel keeps for a client that does not read is bounded too: it would grow to megabytes.
Connection::Connection(int socket, const Limits& limits, const std::atomic<bool>& stopping)
    : socket_(socket), limits_(limits), stopping_(stopping) {
  const int bytes = 1 << 16;
  ::setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

// Bytes that nobody has read would let close() reset the connection, and the client lose the answer: they are read for
// a while.
Connection::~Connection() {
  ::shutdown(socket_, SHUT_WR);
  if (closing_) {
    const auto until = Clock::now() + std::min<milliseconds>(limits_.request, milliseconds(2000));
    while (wait(POLLIN, until, milliseconds(0)) && ::recv(socket_, buffer_, sizeof(buffer_), MSG_DONTWAIT) > 0)
      continue;
  }
  ::close(socket_);
}

bool Connection::wait(short events, Clock::time_point until, milliseconds grace) const {
  const auto begin = Clock::now();
  for (;;) {
    const auto now = Clock::now();
    if (now >= until || (stopping_ && now >= begin + grace)) return false;
    pollfd ready{socket_, events, 0};
    const auto left = std::chrono::ceil<milliseconds>(until - now);
    const int count = ::poll(&ready, 1, static_cast<int>(std::min(left, stop_glance).count()));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

bool Connection::wait_for_request() {
  if (begin_ == end_) {
    if (!wait(POLLIN, Clock::now() + limits_.idle, milliseconds(0))) return false;
    if (is_gone()) return false;
  }
  left_ = limits_.head_bytes;
  deadline_ = Clock::now() + limits_.request;
  return true;
}

bool Connection::is_gone() const {
  char byte = 0;
  const ssize_t count = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

ssize_t Connection::read(char* to, std::size_t size) {
  if (left_ == 0) {
    closing_ = true;
    return -1;
  }
  if (begin_ == end_) {
    if (!wait(POLLIN, deadline_, milliseconds(0))) {
      closing_ = timed_out_ = true;
      return -1;
    }
    const ssize_t count = ::recv(socket_, buffer_, sizeof(buffer_), MSG_DONTWAIT);
    if (count <= 0) {
      closing_ = true;
      return count;
    }
    begin_ = 0, end_ = static_cast<std::size_t>(count);
  }
  const std::size_t count = std::min({size, end_ - begin_, left_});
  std::memcpy(to, buffer_ + begin_, count);
  begin_ += count;
  left_ -= count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* from, std::size_t size) {
  const auto until = Clock::now() + limits_.write;
  for (std::size_t sent = 0; sent < size;) {
    const ssize_t count = ::send(socket_, from + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<std::size_t>(count);
    } else if ((errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ||
               !wait(POLLOUT, until, milliseconds(1000))) {
      closing_ = true;
      return -1;
    }
  }
  return static_cast<ssize_t>(size);
}

void ConnectionThreads::enqueue(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (tasks_.size() < idle_ || threads_.size() < most_) {
      tasks_.push_back(std::move(task));
      if (tasks_.size() > idle_) threads_.emplace_back([this] { work(); });
      arrived_.notify_one();
      return;
    }
  }
  refused_ = true;
  task();
  refused_ = false;
}

void ConnectionThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    arrived_.wait(lock, [&] { return !tasks_.empty() || stopping_; });
    --idle_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

void ConnectionThreads::shutdown() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  for (std::thread& each : threads_) each.join();
}

}  // namespace inlay::tools
