// llama2.c's checkpoints, version 0, with its tokenizer.bin:
//
//   i32 dim hidden layers heads kv_heads vocab seq_len      a negative vocab: the head is not tied
//   f32 embedding[vocab][dim]  att_norm[layers][dim]  wq wk wv wo [layers][out][in]
//       ffn_norm[layers][dim]  w1 w2 w3 [layers][out][in]  final_norm[dim]
//       two RoPE tables [seq_len][head_dim / 2], which nobody needs  (head[vocab][dim])
//
//   i32 longest  vocab x { f32 score, i32 length, bytes }
//
// RoPE pairs neighbours, as in GGUF's llama, so the matrices go over as they are.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/model/load.hpp>
#include <inlay/model/model_tensors.hpp>
#include <inlay/text/spm.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/gguf/gguf.hpp"

namespace inlay::exec {

namespace {

// The format has no names: ids 0, 1, 2 are <unk>, <s>, </s>, then come the 256 bytes.
Status read_llama2c_tokenizer(const std::string& path, index vocab, TokenizerData& t) {
  using Type = TokenizerData::TokenType;
  auto mapping = Mapping::file(path);
  if (!mapping) return std::move(mapping.error());
  GgufCursor cursor((*mapping)->bytes());
  const auto corrupt = [&](index i) -> Status {
    return {StatusCode::corrupt_data,
            path + ": the file ends within token " + std::to_string(i) + " of " + std::to_string(vocab)};
  };
  std::int32_t longest = 0;
  if (!cursor.read(longest)) return corrupt(0);
  constexpr index first_text = 3 + 256;
  if (vocab < first_text)
    return {StatusCode::unsupported,
            path + ": a vocabulary of " + std::to_string(vocab) + "; it must have <unk>, <s>, </s> and 256 bytes"};
  auto text = std::make_shared<std::vector<std::string>>();
  for (index i = 0; i < vocab; ++i) {
    float score = 0;
    std::int32_t length = 0;
    std::span<const std::byte> raw;
    if (!cursor.read(score) || !cursor.read(length) || length < 0 ||
        !cursor.take(static_cast<std::uint64_t>(length), raw))
      return corrupt(i);
    constexpr const char* first[] = {"<unk>", "<s>", "</s>"};
    text->push_back(i < 3 ? first[i] : spm_escape({reinterpret_cast<const char*>(raw.data()), raw.size()}));
    t.scores.push_back(score);
    t.types.push_back(i == 0 ? Type::unknown : i < 3 ? Type::control : i < first_text ? Type::byte : Type::normal);
    if (t.types.back() == Type::byte && spm_byte(text->back()) != i - 3)
      return {StatusCode::corrupt_data, path + ": token " + std::to_string(i) + " is " + quote(text->back()) +
                                            "; it must be the byte " + std::to_string(i - 3)};
  }
  t.tokens.assign(text->begin(), text->end());
  t.text.push_back(std::move(text));
  t.kind = TokenizerData::Kind::spm;
  t.unknown = 0, t.bos = 1, t.eos = 2;
  t.add_bos = t.add_space_prefix = true;
  return {};
}

}  // namespace

Expected<ModelFile> load_llama2c(const std::string& path, const std::string& tokenizer) {
  auto mapping = Mapping::file(path);
  if (!mapping) return failure(std::move(mapping.error()));
  GgufCursor cursor((*mapping)->bytes());
  std::int32_t header[7] = {};
  constexpr std::int32_t versioned_magic = 0x616b3432;  // "ak42", from version 1 on
  if (!cursor.read(header)) return failure(StatusCode::corrupt_data, path + ": the file ends within the header");
  if (header[0] == versioned_magic)
    return failure(StatusCode::unsupported,
                   path + ": a llama2.c checkpoint of version " + std::to_string(header[1]) + "; it must be version 0");
  ModelFile file;
  file.path = path;
  ModelConfig& c = file.config;
  c.architecture = "llama";
  c.dim = header[0], c.hidden = header[1], c.layers = header[2], c.heads = header[3], c.kv_heads = header[4];
  c.tie_embeddings = header[5] > 0;
  c.vocab = std::abs(static_cast<index>(header[5]));
  c.context = header[6];
  if (c.heads < 1 || c.dim < 1 || c.dim % c.heads != 0)
    return failure(StatusCode::corrupt_data, path + ": " + std::to_string(c.heads) + " heads do not divide a dim of " +
                                                 std::to_string(c.dim) + " (is this a llama2.c checkpoint?)");
  c.head_dim = c.ropes[0].dim = c.dim / c.heads;
  c.ropes[0].pairing = RopeConfig::Pairing::interleaved;
  if (Status status = check_config(c, path); !status) return failure(std::move(status));

  std::vector<WeightTensor> tensors;
  Status status;
  const auto skip = [&](const std::string& name, std::initializer_list<index> extents) -> const std::byte* {
    index bytes = 4;
    bool fits = true;  // the header may claim anything
    for (const index extent : extents) fits = fits && !__builtin_mul_overflow(bytes, extent, &bytes);
    std::span<const std::byte> raw;
    if (status && (!fits || !cursor.take(static_cast<std::uint64_t>(bytes), raw)))
      status = Status(StatusCode::corrupt_data, path + ": the file ends within " + name);
    return raw.data();
  };
  const auto take = [&](Part part, index layer = -1) {
    const TensorFacts facts = tensor_facts(c, part, layer);
    WeightTensor tensor{.name = facts.name, .rank = facts.rank, .extents = facts.extents};
    tensor.data = skip(facts.name, {facts.extents[0], std::max<index>(facts.extents[1], 1)});
    tensor.bytes = 4 * tensor.size();
    if (status) tensors.push_back(std::move(tensor));
  };
  take(Part::embedding);
  for (const Part part :
       {Part::attn_norm, Part::q, Part::k, Part::v, Part::output, Part::ffn_norm, Part::gate, Part::down, Part::up})
    for (index layer = 0; layer < c.layers && status; ++layer) take(part, layer);
  take(Part::output_norm);
  skip("the RoPE tables", {2, c.context, c.head_dim / 2});
  if (!c.tie_embeddings) take(Part::head);
  if (status && cursor.left() > 0)
    status = Status(StatusCode::corrupt_data,
                    path + ": " + std::to_string(cursor.left()) +
                        " bytes follow the last tensor (is this a llama2.c checkpoint of version 0?)");
  if (status && !tokenizer.empty()) status = read_llama2c_tokenizer(tokenizer, c.vocab, file.tokenizer);
  if (!status) return failure(std::move(status));
  file.set_tensors(std::move(tensors), {*mapping});
  if (status = check_model(file); !status) return failure(std::move(status));
  return file;
}

}  // namespace inlay::exec
