// A program that lets a model write: it links inlay::exec and knows of nothing beneath it.
#include <cstdio>
#include <memory>
#include <string>

#include <inlay/exec/eager.hpp>
#include <inlay/exec/generate.hpp>
#include <inlay/model/load.hpp>

namespace {

using namespace inlay;

Expected<std::string> write(const std::shared_ptr<const exec::ModelFile>& file, exec::Eager run) {
  auto tokenizer = exec::Tokenizer::make(file->tokenizer);
  if (!tokenizer) return failure(std::move(tokenizer.error()));
  auto session = exec::Session::make(file, std::move(run), {.context = 64});
  if (!session) return failure(std::move(session.error()));
  std::string text;
  exec::StreamDecoder stream(*tokenizer, true);
  const auto done = exec::generate(*session, *tokenizer, {tokenizer->bos()}, 16,
                                   {.logits = {}, .tokens = {}, .temperature = 0}, [&](exec::Token token) {
                                     text += stream.push(token);
                                     return true;
                                   });
  if (!done) return failure(done.error().code(), std::string(done.error().message()));
  return text + stream.finish();
}

}  // namespace

int main() {
  auto loaded = exec::load_model(MODEL);
  if (!loaded) return std::printf("%s\n", loaded.error().message().data()), 1;
  const auto file = std::make_shared<const exec::ModelFile>(std::move(*loaded));
  const auto fast = write(file, exec::Eager(Cpu())), exact = write(file, exec::Eager(Reference()));
  for (const auto* text : {&fast, &exact})
    if (!*text) return std::printf("%s\n", text->error().message().data()), 1;
  if (fast->rfind("Once upon a time", 0) != 0) return std::printf("it wrote: %s\n", fast->c_str()), 1;
  if (*fast != *exact) return std::printf("%s\nis not\n%s\n", fast->c_str(), exact->c_str()), 1;
  return 0;
}
