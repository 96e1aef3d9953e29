#include "tools/serve/worker.hpp"

#include <algorithm>
#include <utility>

#include <inlay/exec/text_stream.hpp>

#include "measure/timing.hpp"

namespace inlay::tools {

Reply::Got Reply::next(Piece& piece, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return !pieces_.empty() || unfinished_ == 0; });
  if (pieces_.empty()) return unfinished_ == 0 ? Got::end : Got::nothing;
  piece = std::move(pieces_.front());
  pieces_.pop_front();
  unread_ -= piece.bytes.size();
  return Got::piece;
}

index Reply::new_tokens() const {
  const std::scoped_lock lock(mutex_);
  return new_tokens_;
}

std::string Reply::failure() const {
  const std::scoped_lock lock(mutex_);
  return failure_;
}

bool Reply::push(index text, std::string bytes) {
  if (bytes.empty()) return true;
  const std::scoped_lock lock(mutex_);
  if (unread_ + bytes.size() > max_unread_) {
    failure_ = "the client has left " + std::to_string(unread_) + " bytes unread";
    return false;
  }
  unread_ += bytes.size();
  pieces_.push_back({text, std::move(bytes)});
  changed_.notify_one();
  return true;
}

void Reply::finish(index text, std::string bytes, Finish how, index tokens, std::string_view failure) {
  const std::scoped_lock lock(mutex_);
  unread_ += bytes.size();
  pieces_.push_back({text, std::move(bytes), how});
  new_tokens_ += tokens;
  --unfinished_;
  if (failure_.empty()) failure_ = failure;
  changed_.notify_one();
}

bool Reply::has_ended() const {
  const std::scoped_lock lock(mutex_);
  return unfinished_ == 0;
}

void Reply::admit(Status status) {
  const std::scoped_lock lock(mutex_);
  admission_ = std::move(status);
  changed_.notify_one();
}

Status Reply::wait_for_admission() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return admission_.has_value(); });
  return std::move(*admission_);
}

// A text as tokens become pieces of it.
struct Worker::Text {
  std::shared_ptr<Reply> reply;
  index number;
  exec::TextStream stream;
  index tokens = 0;

  bool push(exec::Token token) {
    ++tokens;
    return reply->push(number, stream.push(token)) && !stream.stopped();
  }
};

Worker::Worker(exec::Server server, exec::Tokenizer tokenizer, const Limits& limits)
    : server_(std::move(server)), tokenizer_(std::move(tokenizer)), limits_(limits), thread_([this] { loop(); }) {}

tl::expected<Worker::Ticket, ApiError> Worker::submit(ApiRequest request) {
  const index texts = request.texts();
  const auto reply = std::make_shared<Reply>(texts, limits_.unread);
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_)
      return tl::unexpected(ApiError{.status = 503, .message = "the server is stopping", .code = "stopping"});
    if (texts_ + texts > limits_.texts)
      return tl::unexpected(ApiError{.status = 429,
                                     .message = std::to_string(texts_) + " texts run or wait, and " +
                                                std::to_string(texts) + " more would be above the limit of " +
                                                std::to_string(limits_.texts) + "; try again later",
                                     .code = "server_busy"});
    texts_ += texts;
    mailbox_.push_back({reply, std::move(request)});
  }
  arrived_.notify_one();
  if (const Status status = reply->wait_for_admission(); !status.ok()) {
    if (status.code() == StatusCode::internal)
      return tl::unexpected(ApiError{.status = 503, .message = std::string(status.message()), .code = "stopping"});
    return tl::unexpected(ApiError{.message = std::string(status.message()),
                                   .param = status.code() == StatusCode::out_of_memory ? "max_tokens" : ""});
  }
  return Ticket(*this, reply);
}

void Worker::forget(const std::shared_ptr<Reply>& reply) {
  if (reply->has_ended()) return;
  {
    const std::scoped_lock lock(mutex_);
    mailbox_.push_back({reply, std::nullopt});
  }
  arrived_.notify_one();
}

void Worker::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Worker::Counts Worker::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

void Worker::loop() {
  for (;;) {
    std::vector<Message> messages;
    bool stopping = false;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [&] { return stopping_ || !mailbox_.empty() || !server_.idle(); });
      messages.swap(mailbox_);
      stopping = stopping_;
    }
    for (Message& each : messages) {
      if (!each.request)
        abort(*each.reply, Reply::Finish::aborted, "the client has gone");
      else if (stopping)
        each.reply->admit({StatusCode::internal, "the server is stopping"});
      else
        begin(each.reply, *each.request);
    }
    if (stopping) {
      for (const auto& each : replies_) abort(*each, Reply::Finish::aborted, "the server is stopping");
      return publish();
    }
    if (!server_.idle()) step();
    std::erase_if(replies_, [](const auto& each) { return each->has_ended(); });
    publish();
  }
}

// All of its texts, or none.
void Worker::begin(const std::shared_ptr<Reply>& reply, ApiRequest& request) {
  Status status;
  index number = 0;
  for (const ApiPrompt& prompt : request.prompts) {
    std::vector<Text> texts;
    for (index choice = 0; choice < request.choices; ++choice)
      texts.push_back({reply, number++, exec::TextStream(tokenizer_, request.stops, prompt.opens_text)});
    const auto choices = std::make_shared<std::vector<Text>>(std::move(texts));
    const auto text = [choices](index choice) -> Text& { return (*choices)[static_cast<std::size_t>(choice)]; };
    auto rank = server_.submit({.prompt = prompt.tokens,
                                .n = request.choices,
                                .tokens = request.tokens,
                                .ignore_eos = request.ignore_eos,
                                .sampling = request.sampling,
                                .biases = request.biases,
                                .cache_salt = request.cache_salt,
                                .emit = [text](index choice, exec::Token token) { return text(choice).push(token); },
                                .ended = [this, text](index choice, exec::TextRequest::End end,
                                                      const Status& why) { finish(text(choice), end, why); }});
    if (!rank) {
      status = std::move(rank.error());
      break;
    }
    for (index choice = 0; choice < request.choices; ++choice) reply->ranks_.push_back(*rank + choice);
  }
  if (!status.ok()) {
    const Counts before = own_;
    for (const index rank : reply->ranks_) server_.abort(rank);
    own_ = before;
    const std::scoped_lock lock(mutex_);
    texts_ -= request.texts() - static_cast<index>(reply->ranks_.size());
  } else {
    replies_.push_back(reply);
  }
  reply->admit(std::move(status));
}

void Worker::finish(Text& text, exec::TextRequest::End end, const Status& why) {
  using End = exec::TextRequest::End;
  Reply::Finish how = Reply::Finish::length;
  if (end == End::stop || (end == End::caller && text.stream.stopped())) how = Reply::Finish::stop;
  if (end == End::caller && !text.stream.stopped()) how = abort_as_;
  if (end == End::failed) how = Reply::Finish::failed;
  ++own_.finished[static_cast<int>(how)];
  own_.new_tokens += text.tokens;
  {  // before its client hears of the end, and asks again
    const std::scoped_lock lock(mutex_);
    --texts_;
  }
  text.reply->finish(text.number, text.stream.finish(), how, text.tokens,
                     end == End::failed ? why.message() : std::string_view(abort_why_));
}

void Worker::abort(Reply& reply, Reply::Finish how, std::string_view why) {
  abort_as_ = how;
  abort_why_ = why;
  for (const index rank : reply.ranks_) server_.abort(rank);
  abort_as_ = Reply::Finish::aborted;
  abort_why_.clear();
}

void Worker::step() {
  Status status;
  own_.step_seconds += measure::seconds([&] { status = server_.step(); });
  ++own_.steps;
  if (status.ok()) return;
  // A backend that fails once would fail for ever: all texts are still there.
  for (const auto& each : replies_) abort(*each, Reply::Finish::failed, status.message());
}

void Worker::publish() {
  const exec::Batcher& batcher = server_.batcher();
  own_.running = batcher.running();
  own_.waiting = server_.texts() - batcher.running();
  own_.preemptions = batcher.preemptions();
  own_.swaps = batcher.swaps();
  own_.prompt_tokens = server_.prompt_tokens_computed();
  own_.reused = batcher.reused();
  const std::scoped_lock lock(mutex_);
  counts_ = own_;
}

}  // namespace inlay::tools
