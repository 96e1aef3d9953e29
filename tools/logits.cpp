// inlay logits: what a model computes, for whoever compares it with another program.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <inlay/model/load.hpp>

#include "files/whole_file.hpp"
#include "tools/commands.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

struct LogitsOptions {
  ModelOptions model;
  std::vector<exec::Token> ids;
  std::string prompt, out;
};

// The header of NumPy's format 1.0: magic, two bytes of length, a dictionary, padded so that the data begin at 64.
std::string npy_header(index rows, index columns) {
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                     std::to_string(columns) + "), }";
  constexpr std::size_t magic = 10, alignment = 64;
  text.append(alignment - (magic + text.size() + 1) % alignment, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

// A chunk at a time: the logits of a long text are larger than the model.
Status write(std::FILE* file, const LogitsOptions& options, const std::vector<exec::Token>& ids,
             exec::Session& session) {
  const auto put = [&](const void* data, std::size_t bytes) -> Status {
    if (std::fwrite(data, 1, bytes, file) == bytes) return {};
    return {StatusCode::internal, options.out + ": cannot be written"};
  };
  const index count = static_cast<index>(ids.size()), chunk = options.model.chunk, vocab = session.config().vocab;
  const std::string header = npy_header(count, vocab);
  if (Status status = put(header.data(), header.size()); !status.ok()) return status;
  Progress progress("computing");
  for (index begin = 0; begin < count; begin += chunk) {
    const index size = std::min(chunk, count - begin);
    if (Status status = session.append({ids.begin() + begin, ids.begin() + begin + size}, size); !status.ok())
      return status;
    const auto logits = session.logits();
    if (!logits) return Status(logits.error().code(), std::string(logits.error().message()));
    const auto bytes = static_cast<std::size_t>(byte_size(DType::f32, size * vocab));
    if (Status status = put(logits->data, bytes); !status.ok()) return status;
    progress(begin + size, count);
  }
  return {};
}

int logits(const LogitsOptions& options) {
  if (options.ids.empty() == options.prompt.empty()) return wrong("either --ids or --prompt must be given");
  auto loaded = exec::load_model(options.model.model.empty() ? default_model() : options.model.model);
  if (!loaded) return wrong(loaded.error());
  const auto file = std::make_shared<const exec::ModelFile>(std::move(*loaded));
  std::vector<exec::Token> ids = options.ids;
  if (ids.empty()) {  // a model of ids alone needs no tokenizer
    auto tokenizer = exec::Tokenizer::make(file->tokenizer);
    if (!tokenizer) return wrong(tokenizer.error());
    auto encoded = tokenizer->encode(options.prompt);
    if (!encoded) return wrong(encoded.error());
    ids = std::move(*encoded);
  }
  auto session = make_session(options.model, file, options.model.backend);
  if (!session) return wrong(session.error());
  if (static_cast<index>(ids.size()) > session->context())
    return wrong("there are " + std::to_string(ids.size()) + " tokens; there must be at most the context of " +
                 std::to_string(session->context()));
  Status status = files::write_whole(options.out, [&](std::FILE* out) { return write(out, options, ids, *session); });
  if (!status.ok()) return wrong(status);
  std::fprintf(stderr, "%s: logits of %zu tokens, [%zu, %ld] f32\n", options.out.c_str(), ids.size(), ids.size(),
               static_cast<long>(session->config().vocab));
  return 0;
}

}  // namespace

void add_logits(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<LogitsOptions>();
  CLI::App& command = *app.add_subcommand("logits", "Write the logits of every token of a text as a NumPy file");
  options->model.add_to(command);
  command.add_option("--ids", options->ids, "The text as ids: 1,2,3")->delimiter(',');
  command.add_option("--prompt", options->prompt, "The text; BOS comes before it where the vocabulary wants it");
  command.add_option("-o,--output", options->out, "The .npy file to write: [tokens, vocabulary] f32")->required();
  command.callback([options, &chosen] { chosen = [options] { return logits(*options); }; });
}

}  // namespace inlay::tools
