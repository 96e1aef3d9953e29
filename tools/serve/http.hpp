// The routes: HTTP to Protocol and Worker, and back.
#pragma once

#include <httplib.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "tools/serve/connection.hpp"
#include "tools/serve/protocol.hpp"
#include "tools/serve/responses.hpp"
#include "tools/serve/worker.hpp"

namespace inlay::tools {

class Http : private httplib::Server {
 public:
  struct Limits {
    Connection::Limits connection = {};
    std::size_t connections = 256;
  };

  Http(const Protocol& protocol, Worker& worker, const Limits& limits);

  // The port, `port` or any free one for 0; -1: it cannot be had.
  int bind(const std::string& host, int port);
  // Until stop.
  void serve() { listen_after_bind(); }
  bool is_serving() const { return is_running(); }
  void stop();

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;

  bool process_and_close_socket(socket_t socket) override;
  // Everything that is wrong before a body has been read; nullopt: nothing.
  std::optional<ApiError> check_head(const Request& request) const;
  void complete(const Request& request, Response& response, bool chat);
  void answer_whole(const Responses& responses, Worker::Ticket& ticket, index texts, Response& response) const;
  void count(int status);
  std::string metrics() const;

  const Protocol& protocol_;
  Worker& worker_;
  Limits limits_;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::map<int, index> requests_;  // by status
  std::int64_t began_;
};

}  // namespace inlay::tools
