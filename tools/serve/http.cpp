#include "tools/serve/http.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <memory>

#include <inlay/core/quote.hpp>

#include "tools/serve/metrics.hpp"

namespace inlay::tools {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds client_glance(100);  // how often a wait for tokens looks whether the client is still there
constexpr int max_requests = 1000;          // of one connection

thread_local Connection* connection = nullptr;  // that this thread serves

struct Route {
  const char *method, *path;
};
constexpr Route routes[] = {{"GET", "/health"},
                            {"GET", "/metrics"},
                            {"GET", "/v1/models"},
                            {"POST", "/v1/completions"},
                            {"POST", "/v1/chat/completions"}};

void answer_error(httplib::Response& response, const ApiError& error) {
  response.status = error.status;
  if (error.status == 429 || error.status == 503) response.set_header("Retry-After", "1");
  response.set_content(to_body(error), "application/json");
}

// What the client is told of texts that did not end by themselves.
ApiError error_of(const Reply& reply) {
  const std::string why = reply.failure();
  return {.status = 500, .message = why.empty() ? "the text was aborted" : why};
}

}  // namespace

Http::Http(const Protocol& protocol, Worker& worker, const Limits& limits)
    : protocol_(protocol), worker_(worker), limits_(limits), began_(std::time(nullptr)) {
  new_task_queue = [this] { return new ConnectionThreads(limits_.connections); };
  set_payload_max_length(limits_.connection.body_bytes);
  set_tcp_nodelay(true);
  // Not SO_REUSEPORT, cpp-httplib's own: two servers of one port would share its clients.
  set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  set_expect_100_continue_handler([this](const Request& request, Response& response) {
    const auto error = check_head(request);
    if (!error) return 100;
    connection->close_after_answer();
    answer_error(response, *error);
    return error->status;
  });
  set_pre_routing_handler([this](const Request& request, Response& response) {
    if (const auto error = check_head(request)) {
      if (request.method != "GET") connection->close_after_answer();  // a body follows that nobody reads
      answer_error(response, *error);
      return HandlerResponse::Handled;
    }
    std::size_t length = 0;
    const std::string given = request.get_header_value("Content-Length");
    std::from_chars(given.data(), given.data() + given.size(), length);
    connection->expect_body(length);
    return HandlerResponse::Unhandled;
  });
  set_error_handler([](const Request&, Response& response) {
    if (!response.body.empty()) return;
    connection->close_after_answer();  // where a next request begins is not known
    if (connection->timed_out()) return answer_error(response, {.status = 408, .message = "the request took too long"});
    answer_error(response, {.status = response.status, .message = "the request is no HTTP that this server reads"});
  });
  set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
    answer_error(response, {.status = 500, .message = "the server has failed"});
  });
  set_post_routing_handler([](const Request&, Response& response) {
    if (!connection->closes()) return;
    response.headers.erase("Connection");
    response.headers.erase("Keep-Alive");
    response.set_header("Connection", "close");
  });
  set_logger([this](const Request& request, const Response& response) {
    if (request.method == "POST") count(response.status);
  });

  Get("/health",
      [](const Request&, Response& response) { response.set_content("{\"status\":\"ok\"}", "application/json"); });
  Get("/metrics", [this](const Request&, Response& response) {
    response.set_content(metrics(), "text/plain; version=0.0.4; charset=utf-8");
  });
  const auto model = [this] {
    return Json{{"id", protocol_.model().name}, {"object", "model"}, {"created", began_}, {"owned_by", "inlay"}};
  };
  Get("/v1/models", [model](const Request&, Response& response) {
    response.set_content(Json{{"object", "list"}, {"data", Json::array({model()})}}.dump(), "application/json");
  });
  Get("/v1/models/(.+)", [this, model](const Request& request, Response& response) {
    if (request.matches[1] == protocol_.model().name) return response.set_content(model().dump(), "application/json");
    answer_error(response, {.status = 404,
                            .message = "there is no model " + quote(request.matches[1].str()) + "; it must be " +
                                       quote(protocol_.model().name),
                            .param = "model",
                            .code = "model_not_found"});
  });
  Post("/v1/completions", [this](const Request& request, Response& response) { complete(request, response, false); });
  Post("/v1/chat/completions",
       [this](const Request& request, Response& response) { complete(request, response, true); });
}

int Http::bind(const std::string& host, int port) {
  if (port == 0)
    port = bind_to_any_port(host);
  else if (!bind_to_port(host, port))
    return -1;
  // cpp-httplib lets 5 connections wait.
  if (port > 0) ::listen(svr_sock_, 512);
  return port;
}

void Http::stop() {
  stopping_ = true;
  httplib::Server::stop();
}

bool Http::process_and_close_socket(socket_t socket) {
  Connection client(socket, limits_.connection, stopping_);
  if (ConnectionThreads::is_refused()) {
    const std::string body = to_body(
        {.status = 429,
         .message = "there are more than " + std::to_string(limits_.connections) + " connections; try again later",
         .code = "server_busy"});
    client.write(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        "Connection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    count(429);
    return false;
  }
  connection = &client;
  for (int left = max_requests; left > 0 && client.wait_for_request(); --left) {
    bool closed = false;
    const auto whole = [](Request& request) { request.ranges.clear(); };  // errors too would be cut
    if (!process_request(client, left == 1, closed, whole) || closed || client.closes()) break;
  }
  connection = nullptr;
  return true;
}

std::optional<ApiError> Http::check_head(const Request& request) const {
  const bool post = request.method == "POST";
  const auto has_path = [&](const Route& route) {
    return request.path == route.path || (request.path.starts_with("/v1/models/") && route.path == routes[2].path);
  };
  const auto* const route = std::find_if(std::begin(routes), std::end(routes), has_path);
  if (route == std::end(routes))
    return ApiError{.status = 404, .message = "there is no " + quote(request.path) + " here"};
  if (request.method != route->method && !(request.method == "HEAD" && !post))
    return ApiError{.status = 405, .message = quote(request.path) + " is asked for by " + route->method};
  const std::string length = request.get_header_value("Content-Length");
  const bool has_body = request.has_header("Transfer-Encoding") || (!length.empty() && length != "0");
  if (!post)
    return has_body ? std::optional(ApiError{.message = request.method + " has a body; it must have none"})
                    : std::nullopt;
  if (request.has_header("Transfer-Encoding") || length.empty())
    return ApiError{.status = 411, .message = "the body has no Content-Length; it must have one"};
  std::uint64_t bytes = 0;
  const auto read = std::from_chars(length.data(), length.data() + length.size(), bytes);
  const bool is_number =
      read.ptr == length.data() + length.size() && request.get_header_value_count("Content-Length") == 1;
  if (!is_number || (read.ec != std::errc() && read.ec != std::errc::result_out_of_range))
    return ApiError{.message = "Content-Length is " + quote(length) + "; it must be one number"};
  if (read.ec != std::errc() || bytes > limits_.connection.body_bytes)
    return ApiError{.status = 413,
                    .message = "the body has " + printable(length, 24) + " bytes; it must have at most " +
                               std::to_string(limits_.connection.body_bytes)};
  if (request.has_header("Content-Encoding"))
    return ApiError{.status = 415, .message = "the header Content-Encoding is given; it must be left out"};
  const std::string type = request.get_header_value("Content-Type");
  if (type != "application/json" && !type.starts_with("application/json;"))
    return ApiError{.status = 415, .message = "Content-Type is " + quote(type) + "; it must be application/json"};
  return std::nullopt;
}

void Http::complete(const Request& request, Response& response, bool chat) {
  auto asked = chat ? protocol_.chat(request.body) : protocol_.completion(request.body);
  if (!asked) return answer_error(response, asked.error());
  const bool stream = asked->stream;
  const index texts = asked->texts();
  const Responses responses(protocol_.model().name, *asked);
  auto ticket = worker_.submit(std::move(*asked));
  if (!ticket) return answer_error(response, ticket.error());
  response.status = 200;
  if (!stream) return answer_whole(responses, *ticket, texts, response);
  const auto shared = std::make_shared<Worker::Ticket>(std::move(*ticket));
  response.set_header("Cache-Control", "no-cache");
  response.set_chunked_content_provider("text/event-stream", [responses, shared](std::size_t, httplib::DataSink& sink) {
    Reply& reply = shared->reply();
    const auto send = [&](const std::string& events) {
      return events.empty() || sink.write(events.data(), events.size());
    };
    if (!send(responses.opening())) return false;
    for (Reply::Piece piece;;) {
      const Reply::Got got = reply.next(piece, client_glance);
      if (got == Reply::Got::end) break;
      if (got == Reply::Got::nothing) {
        if (connection->is_gone()) return false;
        continue;
      }
      if (!piece.bytes.empty() && !send(responses.piece(piece.text, piece.bytes))) return false;
      if (!piece.finish) continue;
      if (*piece.finish == Reply::Finish::aborted || *piece.finish == Reply::Finish::failed) {
        connection->close_after_answer();
        send(Responses::failing(error_of(reply)));
        sink.done();
        return true;
      }
      if (!send(responses.ending(piece.text, *piece.finish))) return false;
    }
    if (!send(responses.closing(reply.new_tokens()))) return false;
    sink.done();
    return true;
  });
}

void Http::answer_whole(const Responses& responses, Worker::Ticket& ticket, index texts, Response& response) const {
  std::vector<WrittenText> written(static_cast<std::size_t>(texts));
  Reply& reply = ticket.reply();
  bool failed = false;
  for (Reply::Piece piece;;) {
    const Reply::Got got = reply.next(piece, client_glance);
    if (got == Reply::Got::end) break;
    // Pieces may come faster than the client is looked for, and none is sent on that would find the client gone.
    if (connection->is_gone()) {
      connection->close_after_answer();
      return answer_error(response, {.status = 499, .message = "the client has gone"});
    }
    if (got == Reply::Got::nothing) continue;
    WrittenText& text = written[static_cast<std::size_t>(piece.text)];
    text.text += piece.bytes;
    if (!piece.finish) continue;
    text.finish = *piece.finish;
    failed = failed || *piece.finish == Reply::Finish::aborted || *piece.finish == Reply::Finish::failed;
  }
  if (failed) return answer_error(response, error_of(reply));
  response.set_content(responses.whole(written, reply.new_tokens()), "application/json");
}

void Http::count(int status) {
  const std::scoped_lock lock(mutex_);
  ++requests_[status];
}

std::string Http::metrics() const {
  const std::scoped_lock lock(mutex_);
  return metrics_of(worker_.counts(), requests_);
}

}  // namespace inlay::tools
