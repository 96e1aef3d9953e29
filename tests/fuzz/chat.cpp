// A chat template, and behind a zero byte each the texts of messages:
//
//   {{ messages[0].content }}\0Hello<|im_end|>\0Hi
//
// Whatever the template does, what it makes of the messages stays marked, and no token of theirs is special; it makes
// the same of them each time, and takes no more time and memory than its limits say.
#include <inlay/text/chat.hpp>
#include <inlay/text/spm.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "executor/text/chat/evaluation.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

namespace {

// Of bytes, and of tokens that templates write.
const exec::Tokenizer& tokenizer() {
  static const exec::Tokenizer made = [] {
    using Type = exec::TokenizerData::TokenType;
    static std::vector<std::string> names{"<unk>", "<|im_start|>", "<|im_end|>", "<|im_end|>x", "\n\n", "<t>"};
    exec::TokenizerData data{.kind = exec::TokenizerData::Kind::spm};
    data.types = {Type::unknown, Type::control, Type::control, Type::control, Type::user_defined, Type::user_defined};
    for (int b = 0; b < 256; ++b) {
      char name[8];
      std::snprintf(name, sizeof(name), "<0x%02X>", static_cast<unsigned>(b));
      names.emplace_back(name), data.types.push_back(Type::byte);
    }
    names.emplace_back(exec::spm_space), data.types.push_back(Type::normal);
    data.tokens.assign(names.begin(), names.end());
    data.scores.assign(names.size(), 0);
    data.unknown = 0;
    return *exec::Tokenizer::make(data);
  }();
  return made;
}

std::size_t count_in(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

void check_tokens(const exec::ChatTemplate& chat, const exec::ChatPrompt& prompt) {
  const auto ids = exec::encode_chat(tokenizer(), chat, prompt);
  if (!ids) fuzz::broken_promise("every prompt can be tokenized: " + std::string(ids.error().message()));
  // The special tokens that the template can have written: with a zero in place of each typed byte.
  std::string own = prompt.text, back;
  for (std::size_t i = 0; i < prompt.typed.size(); ++i)
    if (prompt.typed[i] != 0) own[i] = '\0';
  std::size_t special = 0;
  for (const exec::Token id : *ids) {
    special += id < 4 ? 1 : 0;
    back += id < 6 ? tokenizer().text_of(id) : tokenizer().piece(id);
  }
  if (back != exec::spm_unescape(prompt.text)) fuzz::broken_promise("the tokens are those of the prompt");
  if (special > count_in(own, "<|im_start|>") + count_in(own, "<|im_end|>") + count_in(own, "<unk>"))
    fuzz::broken_promise("a message writes no special token");
}

// A template may refuse the messages by itself, which is no fault of a file.
void check_refusal(const Status& status) {
  if (!status.message().starts_with("chat template")) fuzz::broken_promise("a refusal says that it is the template's");
  if (status.code() != StatusCode::invalid_argument) fuzz::expect_clean(status);
}

constexpr std::int64_t most_bytes = 1 << 16;

// Strings have marks beside them, and take up to four bytes more for each that is escaped.
void check_cost(const test::Growth& growth, std::size_t size) {
  constexpr std::size_t any_template = 12 * static_cast<std::size_t>(most_bytes) + (std::size_t{1} << 20);
  if (growth.bytes() > any_template + 400 * size)
    fuzz::broken_promise(std::to_string(growth.bytes()) + " bytes of memory for " + std::to_string(size));
  constexpr double longest = 2;
  if (growth.seconds() > longest) fuzz::broken_promise(std::to_string(growth.seconds()) + " seconds");
}

void check_same(const Expected<exec::ChatPrompt>& first, const Expected<exec::ChatPrompt>& second) {
  const bool same = first && second ? first->text == second->text && first->typed == second->typed
                                    : !first && !second && first.error().message() == second.error().message();
  if (!same) fuzz::broken_promise("a template makes the same of the same messages");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  std::string source = input.substr(0, input.find('\0'));
  // A letter that messages alone have.
  const bool lettered = source.find('\\') == std::string::npos;
  for (char& c : source)
    if (lettered && (c == 'Q' || c == 'q')) c = 'k';
  std::vector<exec::ChatMessage> messages;
  for (std::size_t at = source.size(); at < input.size();) {
    const std::size_t end = std::min(input.find('\0', at + 1), input.size());
    messages.push_back({messages.size() % 2 == 0 ? "user" : "assistant", "Q" + input.substr(at + 1, end - at - 1)});
    at = end;
  }
  tokenizer();
  const test::Growth growth;
  const auto chat = exec::ChatTemplate::make(source);
  check_cost(growth, size);
  if (!chat) return check_refusal(chat.error()), 0;
  // Small limits, that a step costs little: what they are is a test's (tests/text/chat.cpp).
  exec::ChatOptions options{.bos = "<s>", .switches = {{"enable_thinking", false}}, .now = 0};
  options.most_steps = 5000, options.most_bytes = most_bytes;
  const auto prompt = chat->render(messages, options);
  check_cost(growth, size);
  if (size % 4 == 0) check_same(prompt, chat->render(messages, options));
  if (!prompt) return check_refusal(prompt.error()), 0;
  if (!prompt->typed.empty() && prompt->typed.size() != prompt->text.size())
    fuzz::broken_promise("every byte of a prompt is marked");
  for (std::size_t i = 0; lettered && i < prompt->text.size(); ++i)
    if (prompt->text[i] == 'Q' && (prompt->typed.empty() || prompt->typed[i] == 0))
      fuzz::broken_promise("what a message says is marked");
  if (prompt->text.size() < 20000) check_tokens(*chat, *prompt);
  return 0;
}
