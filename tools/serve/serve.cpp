// inlay serve: OpenAI's protocol over HTTP.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include <inlay/core/quote.hpp>
#include <inlay/exec/serve/server.hpp>

#include "tools/chat.hpp"
#include "tools/commands.hpp"
#include "tools/ranks.hpp"
#include "tools/serve/http.hpp"
#include "tools/server.hpp"

namespace inlay::tools {

namespace {

struct ServeOptions {
  ModelOptions model;
  std::string host = "127.0.0.1", name, template_file;
  int port = 8080;
  TextsOptions texts;
  index waiting = 64;
  index body_bytes = index{4} << 20, unread_bytes = index{256} << 10;
  std::size_t connections = 256;
  int timeout = 30;
};

// SIGINT and SIGTERM become a byte in a pipe; a second one kills.
class Stop {
 public:
  Stop() {
    if (::pipe(pipe_) != 0) pipe_[0] = pipe_[1] = -1;
    struct sigaction action {};
    action.sa_handler = [](int) { now(); };
    action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
  }
  static void now() {
    const int before = errno;
    [[maybe_unused]] const ssize_t written = ::write(pipe_[1], "", 1);
    errno = before;
  }
  static void wait() {
    pollfd ready{pipe_[0], POLLIN, 0};
    while (::poll(&ready, 1, -1) < 0 && errno == EINTR) continue;
  }

 private:
  static inline int pipe_[2] = {-1, -1};
};

std::string name_of(const ServeOptions& options) {
  if (!options.name.empty()) return options.name;
  const std::string path = options.model.model.empty() ? default_model() : options.model.model;
  const std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  const auto stem = file.has_filename() ? file.stem() : file.parent_path().filename();
  return stem.string();
}

int serve(const ServeOptions& options) {
  auto model = open_model(options.model);
  if (!model) return wrong(model.error());
  std::optional<exec::ChatTemplate> chat;
  if (!options.template_file.empty() || !model->tokenizer.chat_template().empty()) {
    auto found = find_template(options.template_file, model->tokenizer);
    if (!found) return wrong(found.error());
    chat = std::move(*found);
  }
  auto server = make_server(options.model, *model, options.texts);
  if (!server) return wrong(server.error());
  const index context = server->context();
  const index texts = options.texts.batch + options.waiting;
  const Protocol protocol(
      {.name = name_of(options),
       .tokenizer = model->tokenizer,
       .chat = std::move(chat),
       .vocab = server->config().vocab,
       .context = context,
       .room = options.texts.cache_tokens > 0 ? std::min(context, options.texts.cache_tokens) : context,
       .texts = texts});
  Worker worker(std::move(*server), model->tokenizer,
                {.texts = texts, .unread = static_cast<std::size_t>(options.unread_bytes)});
  const std::chrono::seconds timeout(options.timeout);
  Http http(protocol, worker,
            {.connection = {.request = timeout,
                            .write = timeout,
                            .idle = timeout,
                            .body_bytes = static_cast<std::size_t>(options.body_bytes)},
             .connections = options.connections});
  const int port = http.bind(options.host, options.port);
  if (port < 0)
    return wrong("--host is " + quote(options.host) + " and --port is " + std::to_string(options.port) +
                 "; they must name an address of this machine and a port that is free");
  const Stop stop;
  std::atomic<bool> accepts = true;
  std::thread listener([&] {
    http.serve();
    accepts = false;
    Stop::now();
  });
  while (!http.is_serving() && accepts) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::printf("inlay serves %s at http://%s:%d/v1\n", quote(protocol.model().name).c_str(), options.host.c_str(), port);
  std::fflush(stdout);
  Stop::wait();
  const bool failed = !accepts;
  worker.stop();
  http.stop();
  listener.join();
  return failed ? wrong("no more connections can be accepted") : 0;
}

int serve_with_ranks(const ServeOptions& options) {
  // Passes are computed by the worker's thread, and MPI is initialised for the one that began.
  if (options.model.ranks == "mpi")
    return wrong("--ranks is mpi; to serve it must be a number of ranks within this program");
  return with_ranks(
      options.model,
      [&](const ModelOptions& of_rank) {
        ServeOptions own = options;
        own.model = of_rank;
        return serve(own);
      },
      [&](const ModelOptions& of_rank) { return follow_server(of_rank, options.texts); });
}

}  // namespace

void add_serve(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App& command = *app.add_subcommand("serve", "Answer OpenAI's completions and chat completions over HTTP");
  options->model.add_to(command);
  add_ranks(command, options->model.ranks, options->model.cut);
  command.add_option("--host", options->host, "Address to listen at; another than loopback lets others in");
  command.add_option("--port", options->port, "0: any that is free; it is printed")->check(CLI::Range(0, 65535));
  command.add_option("--name", options->name, "What clients call the model (default: the name of its file)");
  command.add_option("--template", options->template_file, "A chat template in place of the model's own");
  options->texts.add_to(command);
  command.add_option("--waiting", options->waiting, "Texts that may wait beside them; more get 429")
      ->check(CLI::Range(0, 1 << 20));
  command.add_option("--max-body", options->body_bytes, "Bytes of a request; more get 413")
      ->check(CLI::Range(1, 1 << 30));
  command
      .add_option("--max-unread", options->unread_bytes,
                  "Bytes of written text that a client may leave unread; with more its texts are aborted")
      ->check(CLI::Range(1, 1 << 30));
  command.add_option("--connections", options->connections, "Clients at once; more get 429")->check(CLI::Range(1, 512));
  command
      .add_option("--timeout", options->timeout,
                  "Seconds in which a request has to arrive, a piece of an answer has to be taken, and a connection "
                  "may ask nothing")
      ->check(CLI::Range(1, 3600));
  command.callback([options, &chosen] { chosen = [options] { return serve_with_ranks(*options); }; });
}

}  // namespace inlay::tools
