// A text as its tokens come: what can be printed of it, up to where one of its stop strings stands.
//
//   for (..) std::cout << text.push(token);     // until text.stopped()
//   std::cout << text.finish();
#pragma once

#include <string>
#include <utility>

#include <inlay/exec/stop_strings.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

class TextStream {
 public:
  // `text_start`: the first token opens a text (StreamDecoder).
  TextStream(const Tokenizer& tokenizer, StopStrings stops, bool text_start = false)
      : stream_(tokenizer, text_start), stops_(std::move(stops)) {}

  std::string push(Token token) { return stops_.push(stream_.push(token)); }
  bool stopped() const { return stops_.stopped(); }
  // What was held back, and is no longer awaited: behind a stop string nothing.
  std::string finish() {
    if (stopped()) return {};
    std::string rest = stops_.push(stream_.finish());
    return rest + stops_.finish();
  }

 private:
  StreamDecoder stream_;
  StopStrings stops_;
};

}  // namespace inlay::exec
