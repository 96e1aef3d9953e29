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
#pragma once

#include <string>
#include <vector>

#include <inlay/model/check_model.hpp>
#include <inlay/model/gguf.hpp>
#include <inlay/text/spm.hpp>

namespace inlay::exec {

namespace detail {

// The format has no names: ids 0, 1, 2 are <unk>, <s>, </s>, then come the 256 bytes.
inline Status read_llama2c_tokenizer(const std::string& path, index vocab, TokenizerData& t) {
  using Type = TokenizerData::TokenType;
  const auto mapping = Mapping::file(path);
  if (!mapping) return Status(mapping.error().code(), std::string(mapping.error().message()));
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

}  // namespace detail

// An empty `tokenizer` path leaves the tokenizer out.
inline Expected<ModelFile> load_llama2c(const std::string& path, const std::string& tokenizer) {
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
  c.head_dim = c.rope.dim = c.dim / c.heads;
  c.rope.pairing = RopeConfig::Pairing::interleaved;
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
  const auto take = [&](const std::string& name, std::initializer_list<index> extents) {
    WeightTensor tensor{.name = name, .rank = static_cast<int>(extents.size())};
    std::copy(extents.begin(), extents.end(), tensor.extents.begin());
    tensor.data = skip(name, extents);
    tensor.bytes = 4 * tensor.size();
    if (status) tensors.push_back(std::move(tensor));
  };
  const auto take_layers = [&](std::string_view part, std::initializer_list<index> extents) {
    for (index layer = 0; layer < c.layers && status; ++layer) take(block_name(layer, part), extents);
  };
  const index kv = c.kv_heads * c.head_dim;
  take("token_embd.weight", {c.vocab, c.dim});
  take_layers("attn_norm.weight", {c.dim});
  take_layers("attn_q.weight", {c.dim, c.dim});
  take_layers("attn_k.weight", {kv, c.dim});
  take_layers("attn_v.weight", {kv, c.dim});
  take_layers("attn_output.weight", {c.dim, c.dim});
  take_layers("ffn_norm.weight", {c.dim});
  take_layers("ffn_gate.weight", {c.hidden, c.dim});
  take_layers("ffn_down.weight", {c.dim, c.hidden});
  take_layers("ffn_up.weight", {c.hidden, c.dim});
  take("output_norm.weight", {c.dim});
  skip("the RoPE tables", {2, c.context, c.head_dim / 2});
  if (!c.tie_embeddings) take("output.weight", {c.vocab, c.dim});
  if (status && cursor.left() > 0)
    status = Status(StatusCode::corrupt_data,
                    path + ": " + std::to_string(cursor.left()) +
                        " bytes follow the last tensor (is this a llama2.c checkpoint of version 0?)");
  if (status && !tokenizer.empty()) status = detail::read_llama2c_tokenizer(tokenizer, c.vocab, file.tokenizer);
  if (!status) return failure(std::move(status));
  file.set_tensors(std::move(tensors), {*mapping});
  if (status = check_model(file); !status) return failure(std::move(status));
  return file;
}

}  // namespace inlay::exec
