#include "tools/answer.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <inlay/core/quote.hpp>
#include <inlay/exec/logprobs.hpp>

namespace inlay::tools {

void AnswerOptions::add_to(CLI::App& command) {
  command.add_option("--tokens", tokens, "Tokens to write at most (of a chat: as many as the context holds)")
      ->check(CLI::Range(0, 1 << 30))
      ->each([this](const std::string&) { tokens_given = true; });
  command.add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->check(CLI::Range(0.0, 1e3));
  command.add_option("--top-k", sampling.top_k, "0: all")->check(CLI::Range(0, 1 << 30));
  command.add_option("--top-p", sampling.top_p)->check(CLI::Range(0.0, 1.0));
  command.add_option("--min-p", sampling.min_p)->check(CLI::Range(0.0, 1.0));
  command.add_option("--repetition-penalty", sampling.repetition_penalty, "Of tokens of the prompt and the answer")
      ->check(CLI::Range(1e-3, 1e3));
  command.add_option("--frequency-penalty", sampling.frequency_penalty, "Of tokens of the answer, each time they came")
      ->check(CLI::Range(-1e3, 1e3));
  command.add_option("--presence-penalty", sampling.presence_penalty, "Of tokens of the answer, once")
      ->check(CLI::Range(-1e3, 1e3));
  command.add_option("--seed", sampling.seed, "Equal seeds write equal texts");
  command.add_option("--logit-bias", biases, "ID=VALUE: added to the logit of that token; -inf: it never comes")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--stop", stops, "A text that ends what is written, and is not printed")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--logprobs", logprobs,
                  "On standard error, with each token its log probability and those of so many likeliest ones")
      ->check(CLI::Range(0, 20));
}

Expected<std::vector<exec::LogitBias>> AnswerOptions::logit_biases(index vocab) const {
  std::vector<exec::LogitBias> all;
  for (const std::string& each : biases) {
    const std::size_t equals = each.find('=');
    exec::LogitBias bias{};
    const char* const end = each.data() + std::min(equals, each.size());
    const auto read = std::from_chars(each.data(), end, bias.token);
    char* last = nullptr;
    if (equals != std::string::npos) bias.bias = std::strtof(each.c_str() + equals + 1, &last);
    if (equals == std::string::npos || read.ec != std::errc() || read.ptr != end || equals + 1 == each.size() ||
        *last != 0 || bias.token < 0 || bias.token >= vocab || !(bias.bias < HUGE_VALF))
      return failure(invalid("--logit-bias is " + quote(each) + "; it must be ID=VALUE of an id in 0.." +
                             std::to_string(vocab - 1) + " and a number below infinity"));
    all.push_back(bias);
  }
  return all;
}

Expected<Answer> Answer::make(const exec::Tokenizer& tokenizer, const AnswerOptions& options, bool text_start) {
  auto stops = exec::StopStrings::make(options.stops);
  if (!stops) return failure(invalid("--stop: " + std::string(stops.error().message())));
  return Answer(tokenizer, std::move(*stops), options.logprobs, text_start);
}

void Answer::print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  text_ += text;
}

bool Answer::push(exec::Token token) {
  const std::string piece = stream_.push(token);
  own_.append(piece.size(), '\0');
  const auto own = tokenizer_.user_defined();
  if (std::binary_search(own.begin(), own.end(), token))
    std::fill(own_.end() - static_cast<std::ptrdiff_t>(std::min(piece.size(), tokenizer_.piece(token).size())),
              own_.end(), '\1');
  print(stops_.push(piece));
  return !stops_.stopped();
}

void Answer::finish() {
  if (!stops_.stopped()) {
    print(stops_.push(stream_.finish()));
    print(stops_.finish());
  }
}

std::string Answer::own_tokens() const {
  std::string own = own_;
  own.resize(text_.size());
  return own;
}

Status Answer::tell_logprobs(exec::Session& session, exec::Token token) const {
  if (logprobs_ < 0) return {};
  const auto logits = session.logits();
  if (!logits) return {logits.error().code(), logits.error().message()};
  const index rows = logits->extents[0], vocab = logits->extents[1];
  const auto told = exec::logprobs_of({logits->as<float>() + (rows - 1) * vocab, {vocab}}, token, logprobs_);
  if (!told) return {told.error().code(), told.error().message()};
  const auto one = [&](const exec::TokenLogprob& each) {
    return std::to_string(each.token) + " " + quote(tokenizer_.text_of(each.token)) + " ";
  };
  std::string line = "logprob " + one(told->chosen);
  const auto add = [&](double value) {
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%.4f", value);
    line += digits;
  };
  add(told->chosen.logprob);
  for (const exec::TokenLogprob& each : told->likeliest) line += "; " + one(each), add(each.logprob);
  std::fprintf(stderr, "%s\n", line.c_str());
  return {};
}

std::string rates(const exec::Generation& result) {
  const auto rate = [](index tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  const index decoded = result.new_tokens > 0 ? result.new_tokens - 1 : 0;
  char line[160];
  std::snprintf(line, sizeof(line), "prefill %.1f tok/s (%ld tokens), decode %.1f tok/s (%ld tokens)",
                rate(result.prompt_tokens, result.prefill_seconds), static_cast<long>(result.prompt_tokens),
                rate(decoded, result.decode_seconds), static_cast<long>(decoded));
  return line;
}

}  // namespace inlay::tools
