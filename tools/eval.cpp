// inlay eval: how well a model predicts a text.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "tools/commands.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct EvalOptions {
  ModelOptions model;
  std::string text;
  index window = 0;  // 0: 512, or the context of a smaller model
};

// Documents between "<|endoftext|>", without the white space around them; empty ones do not count.
std::vector<std::string> documents(const std::string& text) {
  constexpr std::string_view separator = "<|endoftext|>", space = " \t\r\n";
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    if (const std::size_t first = part.find_first_not_of(space); first != std::string::npos)
      result.push_back(part.substr(first, part.find_last_not_of(space) - first + 1));
    begin = end + separator.size();
  }
  return result;
}

// -ln p(token), in double over the f32 logits.
double loss(const float* logits, index vocab, exec::Token token) {
  double highest = logits[0], sum = 0;
  for (index i = 1; i < vocab; ++i) highest = std::fmax(highest, logits[i]);
  for (index i = 0; i < vocab; ++i) sum += std::exp(logits[i] - highest);
  return std::log(sum) + highest - logits[token];
}

int eval(const EvalOptions& options) {
  std::ifstream file(options.text, std::ios::binary);
  if (!file) return wrong(options.text + ": cannot be read");
  std::stringstream content;
  content << file.rdbuf();
  const std::vector<std::string> texts = documents(content.str());
  if (texts.empty()) return wrong(options.text + ": holds no text");

  auto model = open_model(options.model);
  if (!model) return wrong(model.error());
  auto session = make_session(options.model, model->file, options.model.backend);
  if (!session) return wrong(session.error());
  if (options.window > session->context())
    return wrong("--window is " + std::to_string(options.window) + "; it must be at most the context of " +
                 std::to_string(session->context()));
  const index window = options.window > 0 ? options.window : std::min<index>(512, session->context());

  double nats = 0;
  index predictions = 0, bytes = 0, done = 0;
  Progress progress("reading");
  for (const std::string& text : texts) {
    auto tokens = model->tokenizer.encode(text, {.add_special = false, .parse_special = false});
    if (!tokens) return wrong(tokens.error());
    if (model->tokenizer.bos() != exec::TokenizerData::no_token)
      tokens->insert(tokens->begin(), model->tokenizer.bos());
    if (static_cast<index>(tokens->size()) > window) tokens->resize(static_cast<std::size_t>(window));
    const index count = static_cast<index>(tokens->size()) - 1;
    if (count < 1) continue;
    session->reset();
    const std::vector<exec::Token> seen(tokens->begin(), tokens->end() - 1);
    if (Status status = session->append(seen, count); !status.ok()) return wrong(status);
    const auto logits = session->logits();
    if (!logits) return wrong(logits.error());
    const index vocab = logits->extents[1];
    for (index i = 0; i < count; ++i) {
      const exec::Token next = (*tokens)[i + 1];
      nats += loss(logits->as<float>() + i * vocab, vocab, next);
      if (std::isnan(nats))
        return wrong(options.text + ": the model's logits behind token " + std::to_string(i) + " of document " +
                     std::to_string(done) + " are no numbers");
    }
    // Decoded, not piece by piece: the blank that SPM puts before a text is no byte of it. The first token is given.
    bytes += static_cast<index>(model->tokenizer.decode(*tokens).size() -
                                model->tokenizer.decode({tokens->data(), 1}).size());
    predictions += count;
    progress(++done, static_cast<index>(texts.size()));
  }
  if (predictions == 0 || bytes == 0) return wrong(options.text + ": has nothing to predict within the window");
  std::printf("bits_per_byte: %.4f\nperplexity: %.4f\n", nats / std::log(2.0) / static_cast<double>(bytes),
              std::exp(nats / static_cast<double>(predictions)));
  std::fprintf(stderr, "%zu documents, %ld predictions, %ld bytes, %.4f nats a token\n", texts.size(),
               static_cast<long>(predictions), static_cast<long>(bytes), nats / static_cast<double>(predictions));
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App& command = *app.add_subcommand("eval", "Bits per byte and perplexity of a text under a model");
  options->model.add_to(command);
  command.get_option("model")->required();
  command.add_option("text", options->text, "Text file; documents are separated by <|endoftext|>")->required();
  command
      .add_option("--window", options->window,
                  "Tokens of each document that count, BOS included (512, or a smaller context)")
      ->check(CLI::Range(2, 1 << 20));
  command.callback([options, &chosen] { chosen = [options] { return eval(*options); }; });
}

}  // namespace inlay::tools
