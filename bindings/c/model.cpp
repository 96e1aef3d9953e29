// Models for C: prompts go to exec::Server, which writes all of them together.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/text_stream.hpp>
#include <inlay/model/load.hpp>
#include <inlay/ops/sampling.hpp>

#include "bindings/c/code.hpp"
#include "bindings/c/model.hpp"
#include "bindings/c/row.hpp"
#include "bindings/c/sized.hpp"

namespace inlay::c {

namespace {

using exec::TextRequest;
using exec::Token;

constexpr index most_requests = 1 << 20, most_tokens = index{1} << 30;

// One prompt's text while it is written.
struct Writing {
  exec::TextStream stream;
  inlay_on_text on_text;
  void* user;
  std::size_t number;
  inlay_text result{};

  bool say(const std::string& text, Token token) {
    return on_text == nullptr || on_text(user, number, text.data(), text.size(), token) != 0;
  }
  bool push(Token token) {
    ++result.tokens;
    const bool wanted = say(stream.push(token), token);
    return wanted && !stream.stopped();
  }
  void finish(TextRequest::End how) {
    result.end = static_cast<std::int32_t>(how) + INLAY_END_TOKENS;
    if (stream.stopped()) result.end = INLAY_END_STOP;
    if (result.end == INLAY_END_CALLER) return;
    if (const std::string rest = stream.finish(); !rest.empty()) say(rest, -1);
  }
};

constexpr bool is(int in_c, TextRequest::End end) { return in_c == static_cast<int>(end) + INLAY_END_TOKENS; }
static_assert(is(INLAY_END_TOKENS, TextRequest::End::tokens) && is(INLAY_END_STOP, TextRequest::End::stop) &&
              is(INLAY_END_CONTEXT, TextRequest::End::context) && is(INLAY_END_CALLER, TextRequest::End::caller) &&
              is(INLAY_END_FAILED, TextRequest::End::failed));

Status read_sampling(const inlay_request& request, Sampling<Host>& sampling) {
  if (request.sampling == nullptr && request.sampling_count > 0)
    return invalid("sampling is null; it must point to " + number(request.sampling_count));
  Rebound<Sampling<Host>> bound;
  bound.op.temperature = 0;
  const Arguments given(request.sampling, request.sampling_count);
  if (Status status = set_fields(detail::field_rows<Sampling<Host>>, given, &bound); !status.ok())
    return about("sampling", status);
  Status tensors;
  for_each_field(bound.op, [&](const auto& field, const auto& value) {
    if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>)
      if (value.present()) tensors = invalid("sampling: " + Text(field.name) + " is given; it must be a scalar");
  });
  sampling = bound.op;
  return tensors;
}

Status read_prompt(const exec::Tokenizer& tokenizer, const inlay_prompt& prompt, std::vector<Token>& tokens) {
  if ((prompt.text == nullptr) == (prompt.tokens == nullptr))
    return invalid(Text("has ") + (prompt.text == nullptr ? "neither text nor tokens" : "text and tokens") +
                   "; it must have one of them");
  if (prompt.text == nullptr) {
    tokens.assign(prompt.tokens, prompt.tokens + prompt.count);
    return {};
  }
  auto encoded = tokenizer.encode({prompt.text, prompt.bytes});
  if (!encoded) return std::move(encoded.error());
  tokens = std::move(*encoded);
  return {};
}

Expected<exec::StopStrings> read_stops(const inlay_request& request) {
  if (request.stops == nullptr && request.stop_count > 0)
    return failure(invalid("stops is null; it must point to " + number(request.stop_count)));
  std::vector<std::string> stops;
  for (std::size_t i = 0; i < request.stop_count; ++i) {
    if (request.stops[i] == nullptr) return failure(invalid("stops[" + number(i) + "] is null; it must be a string"));
    stops.emplace_back(request.stops[i]);
  }
  return exec::StopStrings::make(std::move(stops));
}

// Texts that were given to the server and have not ended are taken back, whatever ends the call.
struct Submitted {
  exec::Server& server;
  std::vector<index> numbers;
  ~Submitted() {
    for (const index number : numbers) server.abort(number);
  }
};

Status generate(inlay_model& model, const inlay_request& request, inlay_on_text on_text, void* user,
                inlay_text* texts) {
  if (request.prompts == nullptr && request.prompt_count > 0)
    return invalid("prompts is null; it must point to " + number(request.prompt_count));
  if (request.tokens < 1 || request.tokens > most_tokens)
    return invalid("tokens is " + number(request.tokens) + "; it must be in 1.." + number(most_tokens));
  if ((request.ignore_eos | 1) != 1)
    return invalid("ignore_eos is " + number(request.ignore_eos) + "; it must be 0 or 1");
  if (request.reserved != 0) return invalid("reserved is " + number(request.reserved) + "; it must be 0");
  Sampling<Host> sampling;
  if (Status status = read_sampling(request, sampling); !status.ok()) return status;
  auto stops = read_stops(request);
  if (!stops) return about("stops", stops.error());

  std::vector<std::unique_ptr<Writing>> writings;
  std::vector<std::vector<Token>> prompts(request.prompt_count);
  for (std::size_t i = 0; i < request.prompt_count; ++i)
    if (Status status = read_prompt(model.tokenizer, request.prompts[i], prompts[i]); !status.ok())
      return about(Text("prompts[") + number(i) + "]", status);

  Status failed;
  Submitted submitted{model.server, {}};
  for (std::size_t i = 0; i < request.prompt_count; ++i) {
    Writing& writing = *writings.emplace_back(
        std::make_unique<Writing>(Writing{exec::TextStream(model.tokenizer, *stops), on_text, user, i, {}}));
    const auto number_of =
        model.server.submit({.prompt = std::move(prompts[i]),
                             .tokens = request.tokens,
                             .ignore_eos = request.ignore_eos == 1,
                             .sampling = sampling,
                             .emit = [&writing](index, Token token) { return writing.push(token); },
                             .ended =
                                 [&writing, &failed](index, TextRequest::End end, const Status& status) {
                                   writing.finish(end);
                                   if (end == TextRequest::End::failed && failed.ok())
                                     failed = Status(status.code(), status.message());
                                 }});
    if (!number_of) return about(Text("prompts[") + number(i) + "]", number_of.error());
    submitted.numbers.push_back(*number_of);
  }
  while (!model.server.idle())
    if (Status status = model.server.step(); !status.ok()) return status;
  submitted.numbers.clear();
  if (texts != nullptr)
    for (std::size_t i = 0; i < writings.size(); ++i) texts[i] = writings[i]->result;
  if (!failed.ok()) return failed;
  return model.threads != nullptr ? model.threads->outcome() : Status();
}

// One call at a time.
class Busy {
 public:
  explicit Busy(inlay_model& model) : model_(model), taken_(model.busy.exchange(true)) {}
  ~Busy() {
    if (!taken_) model_.busy = false;
  }
  bool taken() const { return taken_; }

 private:
  inlay_model& model_;
  bool taken_;
};

Expected<DType> kv_type(const char* given, const exec::ModelFile& file) {
  if (given == nullptr) return file.kv_type();
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    if (inlay::name(type) == given) return type;
  if (std::string_view(given) == "int8") return DType::i8;
  return failure(invalid("kv_type is " + Text(quote(given)) + "; it must be 'f32', 'f16', 'bf16' or 'int8'"));
}

Status check_options(const inlay_model_options& options) {
  const auto within = [](const char* name, index value, index most) {
    return value >= 0 && value <= most
               ? Status()
               : invalid(Text(name) + " is " + number(value) + "; it must be in 0.." + number(most));
  };
  if (Status status = within("context", options.context, most_tokens); !status.ok()) return status;
  if (Status status = within("cache_tokens", options.cache_tokens, most_tokens); !status.ok()) return status;
  if (Status status = within("batch", options.batch, most_requests); !status.ok()) return status;
  return within("reserved", options.reserved, 0);
}

Status open(const char* path, const inlay_model_options* given, inlay_model** result) {
  if (result == nullptr) return invalid("model is null; it must be where the model is put");
  *result = nullptr;
  if (path == nullptr) return invalid("path is null; it must name a file or a directory");
  inlay_model_options options{};
  using O = inlay_model_options;
  if (Status status = read_sized("inlay_model_options", given, options,
                                 {INLAY_MEMBER(O, size), INLAY_MEMBER(O, backend), INLAY_MEMBER(O, kv_type),
                                  INLAY_MEMBER(O, context), INLAY_MEMBER(O, cache_tokens), INLAY_MEMBER(O, batch),
                                  INLAY_MEMBER(O, reserved), INLAY_MEMBER(O, on_progress), INLAY_MEMBER(O, user)});
      !status.ok())
    return status;
  if (Status status = check_options(options); !status.ok()) return status;

  auto loaded = exec::load_model(path);
  if (!loaded) return std::move(loaded.error());
  auto tokenizer = exec::Tokenizer::make(loaded->tokenizer);
  if (!tokenizer) return std::move(tokenizer.error());
  const auto file = std::make_shared<const exec::ModelFile>(std::move(*loaded));
  const auto type = kv_type(options.kv_type, *file);
  if (!type) return Status(type.error().code(), type.error().message());

  std::unique_ptr<CallersThreads> threads;
  const auto runner = [&]() -> exec::Eager {
    if (options.backend == nullptr) return exec::Eager(Cpu());
    if (!options.backend->is_cpu) return exec::Eager(Reference{});
    if (options.backend->run == nullptr) return exec::Eager(Cpu(options.backend->isa, options.backend->own));
    threads = std::make_unique<CallersThreads>(*options.backend);
    return exec::Eager(Cpu(options.backend->isa, threads->parallel()));
  };
  exec::Server::Options of_server{.context = options.context, .cache_tokens = options.cache_tokens, .kv_type = *type};
  if (options.batch > 0) {
    of_server.batch.requests = options.batch;
    of_server.batch.tokens = std::max(of_server.batch.tokens, index{2} * options.batch);
  }
  const auto progress = [&](index done, index all) {
    if (options.on_progress != nullptr) options.on_progress(options.user, done, all);
  };
  auto server = exec::Server::make(file, runner(), *tokenizer, of_server, progress);
  if (!server) return std::move(server.error());
  *result = new inlay_model(std::move(threads), std::move(*tokenizer), std::move(*server));
  return {};
}

Status run_generate(inlay_model* model, const inlay_request* given, inlay_on_text on_text, void* user,
                    inlay_text* texts) {
  if (model == nullptr) return invalid("model is null; it must be one that inlay_model_open gave");
  if (given == nullptr) return invalid("request is null; it must be a request");
  inlay_request request{};
  using R = inlay_request;
  if (Status status = read_sized(
          "inlay_request", given, request,
          {INLAY_MEMBER(R, size), INLAY_MEMBER(R, prompts), INLAY_MEMBER(R, prompt_count), INLAY_MEMBER(R, tokens),
           INLAY_MEMBER(R, sampling), INLAY_MEMBER(R, sampling_count), INLAY_MEMBER(R, stops),
           INLAY_MEMBER(R, stop_count), INLAY_MEMBER(R, ignore_eos), INLAY_MEMBER(R, reserved)});
      !status.ok())
    return status;
  const Busy busy(*model);
  if (busy.taken()) return invalid("model is in another call; it must serve one at a time");
  return generate(*model, request, on_text, user, texts);
}

}  // namespace

}  // namespace inlay::c

inlay_code inlay_model_open(const char* path, const inlay_model_options* options, inlay_model** model) {
  return inlay::c::guarded([&] { return inlay::c::open(path, options, model); });
}
void inlay_model_close(inlay_model* model) { delete model; }
inlay_code inlay_model_generate(inlay_model* model, const inlay_request* request, inlay_on_text on_text, void* user,
                                inlay_text* texts) {
  return inlay::c::guarded([&] { return inlay::c::run_generate(model, request, on_text, user, texts); });
}
