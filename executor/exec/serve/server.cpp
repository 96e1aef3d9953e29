#include <inlay/exec/serve/server.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <inlay/exec/comm/lead.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/model/model_file.hpp>

#include "executor/exec/own_weights.hpp"

namespace inlay::exec {

// What was asked for, and what there is of it. Of the choices of one prompt the first computes it; the batcher does not
// know the others before that is done.
struct Server::Text : Request {
  std::shared_ptr<const TextRequest> asked;
  index choice = 0;
  bool has_begun = false;
  std::int64_t prompt_length = 0;        // where penalties look for it
  std::optional<Expected<Token>> drawn;  // of this step

  void begin(std::vector<Token> prompt_tokens) {
    known = std::move(prompt_tokens);
    known.reserve(static_cast<std::size_t>(most) + 1);
    has_begun = true;
  }
};

Server::Server(std::unique_ptr<Engine> engine, Tokenizer tokenizer, const Options& options)
    : engine_(std::move(engine)),
      tokenizer_(std::make_unique<Tokenizer>(std::move(tokenizer))),
      options_(options),
      batcher_(std::make_unique<Batcher>(engine_->blocks(), options.batch, engine_->swap_space())) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

Server::Options Server::completed(Options options, const ModelConfig& config) {
  if (options.context <= 0 || options.context > config.context) options.context = config.context;
  if (options.cache_tokens == 0)
    options.cache_tokens = saturating_multiply(options.context, std::clamp<index>(options.batch.requests, 1, 4));
  return options;
}

Status Server::check(const Options& options, const ModelConfig& config) {
  if (options.block_size < 1)
    return invalid("block_size is " + std::to_string(options.block_size) + "; it must be at least 1");
  if (options.cache_tokens < 1)
    return invalid("cache_tokens is " + std::to_string(options.cache_tokens) + "; it must be at least 1");
  if (Status status = check_kv_type(config, options.kv_type); !status.ok()) return status;
  return Batcher::check(options.batch);
}

EngineOptions Server::engine_options(const ModelConfig& config, const Options& options) {
  return {.max_tokens = options.batch.tokens,
          .context = options.context,
          .activations = options.activations,
          .attention = options.attention,
          .cache = cache_shape(config, options.kv_type, options.block_size, options.cache_tokens),
          .plans = options.plans,
          .swap_tokens = options.swap_tokens,
          .comm = options.comm};
}

Expected<Server> Server::make(std::shared_ptr<const ModelFile> file, Eager run, Tokenizer tokenizer,
                              const Options& options, const std::function<void(index, index)>& progress) {
  if (Status status = check(completed(options, file->config), file->config); !status.ok())
    return failure(std::move(status));
  auto own = load_own(std::move(file), run.parallel(), options.comm, options.cut, progress);
  if (!own) return failure(std::move(own.error()));
  return make(own->config, std::move(own->weights), std::move(run), std::move(tokenizer), options);
}

Status Server::follow(std::shared_ptr<const ModelFile> file, Eager run, const Options& options) {
  const Options whole = completed(options, file->config);
  if (Status status = check(whole, file->config); !status.ok()) return status;
  auto own = load_own(std::move(file), run.parallel(), whole.comm, whole.cut, [](index, index) {});
  if (!own) return std::move(own.error());
  auto engine = make_engine(own->config, std::move(own->weights), std::move(run), engine_options(own->config, whole));
  return engine ? exec::follow(**engine, whole.comm) : std::move(engine.error());
}

Expected<index> Server::submit(TextRequest asked) {
  const auto prompt = static_cast<index>(asked.prompt.size());
  for (const Token token : asked.prompt)
    if (token < 0 || token >= config().vocab)
      return failure(invalid("a token of the prompt is " + std::to_string(token) + "; it must be in 0.." +
                             std::to_string(config().vocab - 1)));
  if (prompt > context())
    return failure(invalid("the prompt has " + std::to_string(prompt) + " tokens; it must fit the context of " +
                           std::to_string(context())));
  if (Status status = sampler_.check(asked.sampling, asked.biases, config().vocab); !status.ok())
    return failure(std::move(status));
  if (asked.tokens < 1)
    return failure(invalid("tokens is " + std::to_string(asked.tokens) + "; it must be at least 1"));
  if (asked.n < 1) return failure(invalid("n is " + std::to_string(asked.n) + "; it must be at least 1"));
  const auto shared = std::make_shared<const TextRequest>(std::move(asked));
  for (index choice = 0; choice < shared->n; ++choice) {
    auto text = std::make_unique<Text>();
    text->rank = ranks_ + choice;
    text->prompt = text->prompt_length = prompt;
    text->most = shared->tokens - 1 < context() - prompt ? prompt + shared->tokens - 1 : context();
    text->cache_salt = shared->cache_salt;
    text->asked = shared;
    text->choice = choice;
    if (choice == 0) {
      text->begin(shared->prompt);
      if (Status status = batcher_->submit(*text); !status.ok()) return failure(std::move(status));
    }
    texts_.push_back(std::move(text));
  }
  return std::exchange(ranks_, ranks_ + shared->n);
}

void Server::abort(index rank) {
  for (const auto& text : texts_)
    if (text->rank == rank) return end(*text, TextRequest::End::caller);
}

Status Server::step() {
  const std::span<const Batcher::Part> parts = batcher_->next();
  if (parts.empty()) return {};
  batch_.clear();
  if (Status status = batcher_->fill(batch_); !status.ok()) return status;
  advancing_.clear();
  for (const Batcher::Part& part : parts)
    if (part.has_logits) advancing_.push_back(static_cast<Text*>(part.request));
  if (Status status = engine_->forward(batch_, 0); !status.ok()) return status;
  for (const Batcher::Part& part : parts)
    if (!part.request->writes()) prompt_tokens_computed_ += part.count;
  batcher_->computed();
  draw_all();
  for (std::size_t row = 0; row < advancing_.size(); ++row) draw(*advancing_[row], static_cast<index>(row));
  return {};
}

// How `text` draws behind the tokens of `prompt`, itself or what computed its prompt.
Sampling<Host> Server::settings(const Text& text, const Text& prompt) const {
  Sampling<Host> sampling = text.asked->sampling;
  sampling.seed =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(sampling.seed) + static_cast<std::uint64_t>(text.choice));
  sampling.step = static_cast<index>(prompt.known.size()) - text.prompt;
  if (sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 || sampling.presence_penalty != 0) {
    sampling.history = {prompt.known.data(), {1, static_cast<index>(prompt.known.size())}};
    sampling.prompt_lengths = {&text.prompt_length, {1}};
  }
  return sampling;
}

void Server::draw_all() {
  draws_.clear(), drawing_.clear();
  for (std::size_t row = 0; row < advancing_.size(); ++row) {
    const Text& prompt = *advancing_[row];
    if (!prompt.asked->biases.empty()) continue;
    const auto add = [&](Text& text) {
      draws_.push_back({.settings = settings(text, prompt), .row = static_cast<index>(row)});
      drawing_.push_back(&text);
    };
    add(*advancing_[row]);
    for (Text* each : waiting_for(prompt)) add(*each);
  }
  engine_->sample_all(draws_);
  for (std::size_t i = 0; i < draws_.size(); ++i) drawing_[i]->drawn = std::move(draws_[i].token);
}

std::vector<Server::Text*> Server::waiting_for(const Text& text) const {
  std::vector<Text*> choices;
  if (text.asked->n > 1)
    for (const auto& each : texts_)
      if (each->asked == text.asked && !each->has_begun) choices.push_back(each.get());
  return choices;
}

void Server::draw(Text& text, index row) {
  const std::vector<Text*> choices = waiting_for(text);
  // All of them before any draws: that may be its end.
  for (Text* each : choices) {
    each->begin(text.known);
    batcher_->fork(text, *each);
  }
  advance(text, row);
  for (Text* each : choices) advance(*each, row);
}

void Server::advance(Text& text, index row) {
  using End = TextRequest::End;
  auto drawn = std::exchange(text.drawn, std::nullopt);
  const auto token = drawn ? std::move(*drawn) : sampler_(*engine_, row, settings(text, text), text.asked->biases);
  if (!token) return end(text, End::failed, token.error());
  if (!text.asked->ignore_eos && (tokenizer_->stops(*token) || *token == tokenizer_->bos()))
    return end(text, End::stop);
  text.known.push_back(*token);
  if (!text.asked->emit(text.choice, *token)) return end(text, End::caller);
  const auto known = static_cast<index>(text.known.size());
  if (known - text.prompt == text.asked->tokens) return end(text, End::tokens);
  if (known > text.most) end(text, End::context);
}

void Server::end(Text& text, TextRequest::End how, const Status& status) {
  // The next choice goes on with the prompt that this one was to compute for all.
  if (const std::vector<Text*> choices = waiting_for(text); text.has_begun && !choices.empty()) {
    choices.front()->begin(std::move(text.known));
    batcher_->replace(text, *choices.front());
  } else {
    batcher_->remove(text);
  }
  const auto at = std::find_if(texts_.begin(), texts_.end(), [&](const auto& each) { return each.get() == &text; });
  const std::unique_ptr<Text> ended = std::move(*at);
  texts_.erase(at);
  ended->asked->ended(ended->choice, how, status);
}

}  // namespace inlay::exec
