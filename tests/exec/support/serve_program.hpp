// `inlay serve` as a program that runs beside the test, at a port of its own.
#pragma once

#include <fcntl.h>
#include <poll.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "tests/exec/support/command_line.hpp"
#include "tests/exec/support/http_client.hpp"

namespace inlay::test {

class ServeProgram {
 public:
  explicit ServeProgram(const std::string& options = {}) {
    int out[2];
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::execl("/bin/sh", "sh", "-c", (std::string("exec ") + inlay_program + " serve --port 0 " + options).c_str(),
              nullptr);
      ::_exit(127);
    }
    ::close(out[1]);
    std::string line;
    for (char byte = 0; byte != '\n';) {
      pollfd ready{out[0], POLLIN, 0};
      if (::poll(&ready, 1, patience_ms) <= 0 || ::read(out[0], &byte, 1) != 1) break;
      line += byte;
    }
    ::close(out[0]);
    const std::size_t colon = line.rfind(':');
    port = colon == std::string::npos ? 0 : std::atoi(line.c_str() + colon + 1);
    EXPECT_GT(port, 0) << line;
  }
  ServeProgram(const ServeProgram&) = delete;
  ServeProgram& operator=(const ServeProgram&) = delete;
  ~ServeProgram() {
    if (child_ <= 0) return;
    EXPECT_EQ(stop(), 0);
  }

  void signal(int which) const { ::kill(child_, which); }
  // What it ends with, and 128 + SIGKILL if it has not after a minute.
  int stop(int which = SIGTERM) {
    signal(which);
    int status = 0;
    const auto ended = [&] { return ::waitpid(child_, &status, WNOHANG) == child_; };
    if (!comes_true(ended)) {
      signal(SIGKILL);
      ::waitpid(child_, &status, 0);
    }
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  HttpAnswer ask(const std::string& request) const {
    Socket socket(port);
    socket.send(request);
    return answer_of(socket);
  }
  HttpAnswer completion(const nlohmann::json& body) const { return ask(post("/v1/completions", body.dump())); }
  HttpAnswer chat(const nlohmann::json& body) const { return ask(post("/v1/chat/completions", body.dump())); }
  // One line of /metrics; -1: it is not there.
  double metric(const std::string& name) const {
    const std::string body = "\n" + ask(get("/metrics")).body;
    const std::size_t at = body.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::atof(body.c_str() + at + name.size() + 2);
  }
  bool comes_to(const std::string& name, double value) const {
    return comes_true([&] { return metric(name) == value; });
  }
  static bool comes_true(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
    while (std::chrono::steady_clock::now() < until) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  int port = 0;

 private:
  pid_t child_ = -1;
};

// The objects of a stream of events; the last one is [DONE].
inline std::vector<nlohmann::json> events_of(const HttpAnswer& answer) {
  EXPECT_EQ(answer.status, 200) << answer.body;
  std::vector<nlohmann::json> all;
  std::istringstream lines(answer.body);
  bool done = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    EXPECT_TRUE(line.starts_with("data: ") && !done) << line;
    done = line == "data: [DONE]";
    if (done) continue;
    all.push_back(nlohmann::json::parse(line.substr(6), nullptr, false));
    EXPECT_FALSE(all.back().is_discarded()) << line;
  }
  EXPECT_TRUE(done) << answer.body;
  return all;
}

}  // namespace inlay::test
