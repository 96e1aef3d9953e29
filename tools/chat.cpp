#include "tools/chat.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include <inlay/core/quote.hpp>

namespace inlay::tools {

namespace {

// Ctrl-C: counted for an answer, which asks between two tokens, and a byte in a pipe for a read that waits. A read
// alone does not hear of it if the signal comes just before it, or to another thread.
class Interrupts {
 public:
  Interrupts() {
    if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) pipe_[0] = pipe_[1] = -1;
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int before = errno;
      count_ = count_ + 1;
      [[maybe_unused]] const ssize_t written = ::write(pipe_[1], "", 1);
      errno = before;
    };
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
  }
  static bool any() { return count_ > 0; }
  static void forget() {
    count_ = 0;
    for (char byte; ::read(pipe_[0], &byte, 1) == 1;) continue;
  }
  // Waits until standard input can be read, or Ctrl-C was there; false then.
  static bool wait_for_input() {
    pollfd either[] = {{STDIN_FILENO, POLLIN, 0}, {pipe_[0], POLLIN, 0}};
    while (::poll(either, 2, -1) < 0 && errno == EINTR) continue;
    return (either[1].revents & POLLIN) == 0;
  }

 private:
  static inline volatile std::sig_atomic_t count_ = 0;
  static inline int pipe_[2] = {-1, -1};
};

// Lines of standard input. A terminal gives them whole.
class Lines {
 public:
  enum class Got { line, end, interrupt };

  Got read(std::string& line) {
    for (;;) {
      if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
        line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return Got::line;
      }
      if (!Interrupts::wait_for_input()) return Got::interrupt;
      char bytes[4096];
      const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof(bytes));
      if (count <= 0) {
        line = std::exchange(buffer_, {});
        return line.empty() ? Got::end : Got::line;
      }
      buffer_.append(bytes, static_cast<std::size_t>(count));
    }
  }

 private:
  std::string buffer_;
};

Expected<std::vector<std::pair<std::string, bool>>> read_switches(const std::vector<std::string>& given) {
  std::vector<std::pair<std::string, bool>> all;
  for (const std::string& each : given) {
    const std::size_t equals = each.find('=');
    const std::string value = equals == std::string::npos ? "" : each.substr(equals + 1);
    if (equals == 0 || (value != "true" && value != "false"))
      return failure(invalid("--template-switch is " + quote(each) + "; it must be NAME=true or NAME=false"));
    all.emplace_back(each.substr(0, equals), value == "true");
  }
  return all;
}

class Chat {
 public:
  Chat(const ChatOptions& options, const AnswerOptions& answers, const exec::Tokenizer& tokenizer,
       exec::ChatTemplate chat, exec::ChatOptions variables, std::vector<exec::LogitBias> biases,
       exec::Session& session)
      : options_(options),
        answers_(answers),
        tokenizer_(tokenizer),
        template_(std::move(chat)),
        variables_(std::move(variables)),
        biases_(std::move(biases)),
        session_(session) {
    if (!options.system.empty()) messages_.push_back({"system", options.system});
  }

  // One message and the answer to it; neither stays in the chat if this fails.
  Status turn(const std::string& message) {
    messages_.push_back({"user", message});
    Status status = answer();
    if (!status.ok()) messages_.pop_back();
    return status;
  }

 private:
  Status answer() {
    auto prompt = template_.render(messages_, variables_);
    if (!prompt) return std::move(prompt.error());
    auto ids = exec::encode_chat(tokenizer_, template_, *prompt);
    if (!ids) return std::move(ids.error());
    const auto count = static_cast<index>(ids->size());
    if (count == 0) return invalid("the chat template makes no prompt of the messages");
    if (count > session_.context())
      return invalid("the chat has " + std::to_string(count) +
                     " tokens with this message; it must fit the context of " + std::to_string(session_.context()) +
                     " (a chat that begins anew is shorter)");
    // What the cache holds of this prompt stays; one token at least has to be computed.
    const auto differ = std::mismatch(cached_.begin(), cached_.end(), ids->begin(), ids->end()).first;
    const index kept = std::min(static_cast<index>(differ - cached_.begin()), count - 1);
    if (Status status = session_.truncate(kept); !status.ok()) return status;
    cached_ = *ids;
    auto made = Answer::make(tokenizer_, answers_, false);
    if (!made) return std::move(made.error());
    auto prefilling = std::make_unique<Progress>("reading");
    const auto result = exec::generate(session_, tokenizer_, *ids,
                                       {.tokens = answers_.tokens_given ? answers_.tokens : session_.context(),
                                        .sampling = answers_.sampling,
                                        .biases = biases_,
                                        .kept = kept,
                                        .interrupted = Interrupts::any,
                                        .progress = [&](index done, index all) { (*prefilling)(done, all); },
                                        .drawn =
                                            [&](exec::Token token) {
                                              prefilling.reset();
                                              return made->tell_logprobs(session_, token);
                                            }},
                                       [&](exec::Token token) {
                                         cached_.push_back(token);
                                         return made->push(token);
                                       });
    prefilling.reset();
    made->finish();
    std::fputc('\n', stdout);
    std::fflush(stdout);
    cached_.resize(static_cast<std::size_t>(session_.length()));  // the last token is in no cache yet
    if (!result) return {result.error().code(), result.error().message()};
    if (result->end == exec::Generation::End::context)
      std::fprintf(stderr, "the answer ends here: the context of %ld tokens is full\n",
                   static_cast<long>(session_.context()));
    if (options_.stats) std::fprintf(stderr, "%s, %ld tokens kept\n", rates(*result).c_str(), static_cast<long>(kept));
    messages_.push_back({"assistant", made->text(), made->own_tokens()});
    return {};
  }

  const ChatOptions& options_;
  const AnswerOptions& answers_;
  const exec::Tokenizer& tokenizer_;
  exec::ChatTemplate template_;
  exec::ChatOptions variables_;
  std::vector<exec::LogitBias> biases_;
  exec::Session& session_;
  std::vector<exec::ChatMessage> messages_;
  std::vector<exec::Token> cached_;  // those whose keys and values the session holds
};

}  // namespace

void ChatOptions::add_to(CLI::App& command) {
  CLI::Option* mode = command.add_flag(
      "--chat", chat, "Answer lines of standard input by turns; Ctrl-C ends an answer, Ctrl-D the chat");
  command.add_option("--system", system, "What the model is told before all else")->needs(mode);
  command.add_option("--template", template_file, "A chat template in place of the model's own")->needs(mode);
  command
      .add_option("--template-switch", switches, "NAME=true or NAME=false for the template, such as enable_thinking")
      ->needs(mode)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--stats", stats, "Behind each answer, on standard error, tokens a second")->needs(mode);
}

Expected<exec::ChatTemplate> find_template(const std::string& path, const exec::Tokenizer& tokenizer) {
  std::string source = tokenizer.chat_template();
  if (!path.empty()) {
    std::ifstream file(path, std::ios::binary);
    source.assign(std::istreambuf_iterator<char>(file), {});
    if (!file) return failure(StatusCode::not_found, path + " cannot be read");
  } else if (source.empty()) {
    return failure(StatusCode::not_found,
                   "the model has no chat template; --template FILE must name one, or --prompt go without");
  }
  auto made = exec::ChatTemplate::make(source);
  if (!made)
    return failure(made.error().code(),
                   std::string(made.error().message()) + " (--template FILE takes another; see docs/chat.md)");
  return made;
}

int chat(const ChatOptions& options, const AnswerOptions& answers, const LoadedModel& model, exec::Session& session) {
  auto source = find_template(options.template_file, model.tokenizer);
  if (!source) return wrong(source.error());
  auto switches = read_switches(options.switches);
  if (!switches) return wrong(switches.error());
  auto biases = answers.logit_biases(session.config().vocab);
  if (!biases) return wrong(biases.error());
  if (const auto tried = Answer::make(model.tokenizer, answers, false); !tried) return wrong(tried.error());
  exec::ChatOptions variables = exec::chat_options(model.tokenizer);
  variables.switches = std::move(*switches);
  Chat talk(options, answers, model.tokenizer, std::move(*source), std::move(variables), std::move(*biases), session);

  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) std::fprintf(stderr, "Ctrl-C ends an answer, Ctrl-D the chat.\n");
  const Interrupts heard;
  Lines lines;
  for (int unanswered = 0;;) {  // Ctrl-C at the prompt
    if (terminal) std::fputs("> ", stderr);
    std::string line;
    const Lines::Got got = lines.read(line);
    if (got == Lines::Got::end || (got == Lines::Got::interrupt && ++unanswered == 2)) break;
    if (got == Lines::Got::interrupt) {
      Interrupts::forget();  // before it is answered: one that follows at once is another
      std::fputs("\n(Ctrl-C once more, or Ctrl-D, ends the chat)\n", stderr);
      continue;
    }
    unanswered = 0;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const Status status = talk.turn(line);
    Interrupts::forget();  // one has ended the answer
    if (!status.ok()) {
      wrong(status);
      if (!terminal) return 2;
    }
  }
  if (terminal) std::fputc('\n', stderr);
  return 0;
}

}  // namespace inlay::tools
