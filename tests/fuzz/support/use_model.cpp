#include "tests/fuzz/support/use_model.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/engine.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/model/weights.hpp>

#include "tests/fuzz/support/promise.hpp"

namespace inlay::fuzz {

void use_tokenizer(const exec::TokenizerData& data, std::string_view text, bool exact) {
  const auto tokenizer = exec::Tokenizer::make(data);
  if (!tokenizer) return expect_clean(tokenizer.error());
  use_tokenizer(*tokenizer, text, exact);
}

void use_tokenizer(const exec::Tokenizer& tokenizer, std::string_view text, bool exact) {
  for (const bool special : {true, false}) {
    const auto ids = tokenizer.encode(text, {.add_special = special, .parse_special = special});
    if (!ids) {
      expect_clean(ids.error());
      continue;
    }
    std::string streamed;
    exec::StreamDecoder stream(tokenizer, true);
    for (const exec::Token id : *ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) broken_promise("an id is one of the vocabulary");
      streamed += stream.push(id);
    }
    streamed += stream.finish();
    const std::string decoded = tokenizer.decode(*ids);
    if (streamed != decoded) broken_promise("a stream says what decode says");
    if (exact && !special && decoded != text) broken_promise("decode(encode(text)) is the text");
  }
  (void)tokenizer.find(text), (void)tokenizer.stops(tokenizer.eos());
}

void run_tokens(exec::ModelFile model) {
  const exec::ModelConfig config = model.config;
  auto weights = exec::load_weights(std::make_shared<const exec::ModelFile>(std::move(model)), serial());
  if (!weights) return;  // a rope that has no frequencies
  constexpr index tokens = 2;
  const exec::EngineOptions options{
      .max_tokens = tokens, .context = config.context, .cache = exec::cache_shape(config, DType::f32, 2, 4)};
  auto engine = exec::make_engine(config, std::move(*weights), exec::Chain(Reference{}), options);
  if (!engine) broken_promise("what was loaded runs: " + std::string(engine.error().message()));
  exec::Sequence sequence;
  const std::int32_t last = static_cast<std::int32_t>(config.vocab - 1);
  const auto pass = [&](auto add, std::vector<std::int32_t> ids) {
    exec::Batch batch;
    Status status = (batch.*add)((*engine)->blocks(), sequence, ids, 1);
    if (status.ok()) status = (*engine)->reserve_logits(1);
    if (status.ok()) status = (*engine)->forward(batch, 0);
    if (!status.ok()) broken_promise("what was loaded runs: " + std::string(status.message()));
    sequence.length += batch.size();
  };
  pass(&exec::Batch::add_prompt, {0, last});
  pass(&exec::Batch::add_generated, {last});
}

}  // namespace inlay::fuzz
