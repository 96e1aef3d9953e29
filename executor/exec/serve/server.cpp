#include <inlay/exec/serve/server.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <inlay/exec/eager.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/model/model_file.hpp>

namespace inlay::exec {

// What was asked for, and what there is of it.
struct Server::Text : Request {
  TextRequest asked;
  std::int64_t prompt_length = 0;  // where penalties look for it
};

Server::Server(std::unique_ptr<Engine> engine, Tokenizer tokenizer, const Options& options)
    : engine_(std::move(engine)),
      tokenizer_(std::make_unique<Tokenizer>(std::move(tokenizer))),
      options_(options),
      batcher_(std::make_unique<Batcher>(engine_->blocks(), options.batch)) {}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;
Server::~Server() = default;

Server::Options Server::completed(Options options, const ModelConfig& config) {
  if (options.context <= 0 || options.context > config.context) options.context = config.context;
  if (options.cache_tokens == 0)
    options.cache_tokens = saturating_multiply(options.context, std::clamp<index>(options.batch.requests, 1, 4));
  return options;
}

Status Server::check(const Options& options) {
  if (options.block_size < 1)
    return invalid("block_size is " + std::to_string(options.block_size) + "; it must be at least 1");
  if (options.cache_tokens < 1)
    return invalid("cache_tokens is " + std::to_string(options.cache_tokens) + "; it must be at least 1");
  return Batcher::check(options.batch);
}

EngineOptions Server::engine_options(const ModelConfig& config, const Options& options) {
  return {.max_tokens = options.batch.tokens,
          .context = options.context,
          .activations = options.activations,
          .attention = options.attention,
          .cache = cache_shape(config, options.kv_type, options.block_size, options.cache_tokens),
          .plans = options.plans};
}

Expected<Server> Server::make(std::shared_ptr<const ModelFile> file, Eager run, Tokenizer tokenizer,
                              const Options& options, const std::function<void(index, index)>& progress) {
  if (Status status = check(completed(options, file->config)); !status.ok()) return failure(std::move(status));
  const ModelConfig config = file->config;
  auto weights = load_weights(std::move(file), run.parallel(), progress);
  if (!weights) return failure(std::move(weights.error()));
  return make(config, std::move(*weights), std::move(run), std::move(tokenizer), options);
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
  auto text = std::make_unique<Text>();
  text->rank = ranks_;
  text->known = std::move(asked.prompt);
  text->prompt = text->prompt_length = prompt;
  text->most = asked.tokens - 1 < context() - prompt ? prompt + asked.tokens - 1 : context();
  text->cache_salt = asked.cache_salt;
  text->asked = std::move(asked);
  if (Status status = batcher_->submit(*text); !status.ok()) return failure(std::move(status));
  texts_.push_back(std::move(text));
  return ranks_++;
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
  for (std::size_t row = 0; row < advancing_.size(); ++row) advance(*advancing_[row], static_cast<index>(row));
  return {};
}

void Server::advance(Text& text, index row) {
  using End = TextRequest::End;
  Sampling<Host> sampling = text.asked.sampling;
  sampling.step = static_cast<index>(text.known.size()) - text.prompt;
  if (sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 || sampling.presence_penalty != 0) {
    sampling.history = {text.known.data(), {1, static_cast<index>(text.known.size())}};
    sampling.prompt_lengths = {&text.prompt_length, {1}};
  }
  const auto token = sampler_(*engine_, row, sampling, text.asked.biases);
  if (!token) return end(text, End::failed, token.error());
  if (!text.asked.ignore_eos && (tokenizer_->stops(*token) || *token == tokenizer_->bos())) return end(text, End::stop);
  text.known.push_back(*token);
  if (!text.asked.emit(*token)) return end(text, End::caller);
  const auto known = static_cast<index>(text.known.size());
  if (known - text.prompt == text.asked.tokens) return end(text, End::tokens);
  if (known > text.most) end(text, End::context);
}

void Server::end(Text& text, TextRequest::End how, const Status& status) {
  batcher_->remove(text);
  const auto at = std::find_if(texts_.begin(), texts_.end(), [&](const auto& each) { return each.get() == &text; });
  const std::unique_ptr<Text> ended = std::move(*at);
  texts_.erase(at);
  ended->asked.ended(how, status);
}

}  // namespace inlay::exec
