// HTTP over bare sockets: what a polite client does, and what others do. No wait is longer than a minute.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace inlay::test {

constexpr int patience_ms = 60000;

class Socket {
 public:
  // `receive_bytes`: of a client that is to take little; 0: as usual.
  explicit Socket(int port, int receive_bytes = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(); }

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // False where the other side does not take it any more.
  bool send(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      pollfd ready{fd_, POLLOUT, 0};
      if (::poll(&ready, 1, patience_ms) <= 0) return false;
      const ssize_t count = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    return true;
  }
  // What has come is in `received`; false at the end, after an error and where nothing came for a minute.
  bool receive(int patience = patience_ms) {
    pollfd ready{fd_, POLLIN, 0};
    char bytes[8192];
    timed_out = ::poll(&ready, 1, patience) <= 0;
    if (timed_out) return false;
    const ssize_t count = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (count > 0) received.append(bytes, static_cast<std::size_t>(count));
    return count > 0;
  }
  bool receive_until(const std::string& end) {
    while (received.find(end) == std::string::npos)
      if (!receive()) return false;
    return true;
  }

  std::string received;
  bool timed_out = false;

 private:
  int fd_;
  bool connected_ = false;
};

struct HttpAnswer {
  int status = 0;  // 0: there was none, -1: the server neither answered nor closed
  std::string head, body;

  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
};

inline std::string without_chunks(const std::string& body) {
  std::string whole;
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t line = body.find("\r\n", at);
    const std::size_t size = std::strtoul(body.c_str() + at, nullptr, 16);
    if (line == std::string::npos || size == 0) break;
    whole += body.substr(line + 2, size);
    at = line + 2 + size + 2;
  }
  return whole;
}

// Everything until the server closes.
inline HttpAnswer answer_of(Socket& socket) {
  while (socket.receive()) continue;
  HttpAnswer answer;
  if (socket.timed_out) return {.status = -1, .head = socket.received, .body = {}};
  const std::size_t end = socket.received.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = socket.received.substr(0, end);
  answer.body = socket.received.substr(end + 4);
  answer.status = std::atoi(answer.head.c_str() + answer.head.find(' '));
  if (answer.head.find("chunked") != std::string::npos) answer.body = without_chunks(answer.body);
  return answer;
}

inline std::string post(const std::string& path, const std::string& body, const std::string& more = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n" +
         more + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
inline std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
}

}  // namespace inlay::test
