// A tiny model of every family of models that is read, with the logits that transformers computes (families/make.py):
// in one pass, in chunks and by decoding, on each backend, from the checkpoint and from the GGUF file made of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <inlay/exec/eager.hpp>
#include <inlay/exec/session.hpp>
#include <inlay/model/convert.hpp>
#include <inlay/model/load.hpp>
#include <inlay/model/weights.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/model/support/checkpoint.hpp"
#include "tests/support/backends.hpp"
#ifdef INLAY_HAS_CL
#include "tests/support/cl_devices.hpp"
#endif
#include "tests/support/files.hpp"
#include "tests/support/handed_out.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec::test {
namespace {

constexpr index text_length = 24, rows[] = {11, 23};  // as in make.py

const Json& cases() {
  static const Json all = Json::parse(read_text(inlay::test::source_path("tests/exec/families/families.json")));
  return all;
}

// make.py's weight().
std::vector<float> weights_of(const std::string& name, const std::vector<index>& shape, bool gemma) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  const auto ends_with = [&](std::string_view end) { return std::string_view(name).ends_with(end); };
  std::size_t size = 1;
  for (const index extent : shape) size *= static_cast<std::size_t>(extent);
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::uint64_t x = (hash + i + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    const double u = static_cast<double>(x >> 40) * 0x1p-23 - 1;
    double value = u;
    if (ends_with(".bias"))
      value = 0.3 * u;
    else if (shape.empty())
      value = 0.25 * u - 0.25;
    else if (shape.size() == 1)
      value = (gemma ? 0 : 1) + 0.25 * u;
    else if (name.find("embed_tokens") == std::string::npos)
      value = u * (1.7 / std::sqrt(static_cast<double>(shape[1])));
    values[i] = static_cast<float>(value);
  }
  return values;
}

// What "layers.[0,2].mlp.experts.[0,1].up_proj.weight" stands for: layers.0.mlp.experts.0.up_proj.weight and so on.
std::vector<std::string> names_of(const std::string& together) {
  const std::size_t begin = together.find('['), end = together.find(']');
  if (begin == std::string::npos) return {together};
  std::vector<std::string> names;
  for (const Json& number : Json::parse(together.substr(begin, end + 1 - begin)))
    for (const std::string& name :
         names_of(together.substr(0, begin) + std::to_string(number.get<index>()) + together.substr(end + 1)))
      names.push_back(name);
  return names;
}

// The checkpoint of one case, in `directory`.
void write_checkpoint(const Json& each, const std::string& directory) {
  const Json& config = each["config"];
  const std::string type = config["model_type"];
  const bool gemma = (type.starts_with("gemma") && type != "gemma4_text") || type == "nemotron";  // norms of 1 + w
  Shard shard;
  const auto add = [&](const std::string& name, const std::vector<index>& shape) {
    const std::vector<float> values = weights_of(name, shape, gemma);
    const std::size_t begin = shard.data.size();
    shard.data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    shard.header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, shard.data.size()}}};
  };
  for (const auto& [together, shape] : each["tensors"].items())
    for (const std::string& name : names_of(together)) add(name, shape.get<std::vector<index>>());
  write_text(directory + "/config.json", config.dump());
  write_text(directory + "/model.safetensors", shard.bytes());
}

std::vector<Token> text() {
  std::vector<Token> ids;
  for (index i = 0; i < text_length; ++i) ids.push_back(static_cast<Token>((i * 37 + 11) % 40));
  return ids;
}

struct Backend {
  std::string name;
  std::function<Expected<Session>(std::shared_ptr<const ModelFile>, const Session::Options&)> make;
};

// Each level of the CPU once, and what else there is.
std::vector<Backend> backends() {
  using File = std::shared_ptr<const ModelFile>;
  std::vector<Backend> all;
  const auto add = [&](const std::string& name, const auto& run) {
    all.push_back({name, [run](const File& file, const Session::Options& options) {
                     return Session::make(file, Eager(run), options);
                   }});
  };
  add("reference", Reference{});
  for (const Isa isa : available_isas()) {
    const Cpu cpu(isa, inlay::test::handed_out(2));
    add(inlay::test::name(cpu), cpu);
  }
#ifdef INLAY_HAS_NPU
  all.push_back({"npu", [](const File& file, const Session::Options& options) {
                   return Session::make(file, Eager(std::move(*Npu::make({.device = "hexagon-htp-like"})), Cpu{}),
                                        options);
                 }});
#endif
#ifdef INLAY_HAS_CL
  if (!inlay::test::cl_devices_to_test().empty())
    all.push_back({"cl", [](const File& file, const Session::Options& options) -> Expected<Session> {
                     auto weights = load_weights(file, serial());
                     if (!weights) return failure(std::move(weights.error()));
                     Cl& cl = inlay::test::cl_devices_to_test().front().cl();
                     return Session::make(file->config, std::move(*weights), Chain(std::ref(cl)), options);
                   }});
#endif
  return all;
}

// The largest difference from transformers' logits, as a share of the largest of them, by how a text was taken.
struct Differences {
  double whole = 0, chunks = 0, decoded = 0;
};

void expect_row(const Json& logits, index row, const std::vector<float>& got, const std::string& how, double& most) {
  const auto expected = logits[std::to_string(row)].get<std::vector<float>>();
  const double difference = distance(got, expected) / magnitude(expected);
  EXPECT_LE(difference, 1e-5) << "row " << row << " " << how;
  most = std::max(most, difference);
}

// By every way that a text may take: whole, in chunks of 7, and from the half on token by token.
void expect_logits(const std::shared_ptr<const ModelFile>& file, const Json& logits, const Backend& backend,
                   Differences& most) {
  SCOPED_TRACE(backend.name);
  const std::vector<Token> ids = text();
  const index vocab = file->config.vocab;
  for (const index chunk : {text_length, index{7}}) {
    auto session = backend.make(file, {.chunk = chunk, .kv_type = DType::f32});
    ASSERT_TRUE(session.has_value()) << session.error().message();
    const std::vector<float> got = all(*session, session->append(ids, text_length));
    for (const index row : rows)
      expect_row(logits, row, {got.begin() + row * vocab, got.begin() + (row + 1) * vocab},
                 "in chunks of " + std::to_string(chunk), chunk == 7 ? most.chunks : most.whole);
  }
  auto session = backend.make(file, {.kv_type = DType::f32});
  ASSERT_TRUE(session.has_value()) << session.error().message();
  constexpr std::size_t half = text_length / 2;
  std::vector<float> got = all(*session, session->append({ids.begin(), ids.begin() + half}));
  expect_row(logits, 11, got, "behind the first half", most.whole);
  for (std::size_t i = half; i < ids.size(); ++i) got = all(*session, session->decode(ids[i]));
  expect_row(logits, 23, got, "decoded", most.decoded);
}

std::shared_ptr<const ModelFile> loaded(const std::string& path) {
  auto file = load_model(path);
  EXPECT_TRUE(file.has_value()) << file.error().message();
  return file ? std::make_shared<const ModelFile>(std::move(*file)) : nullptr;
}

// For docs/families.md: --gtest_output=json:FILE has it.
void record(const std::string& name, const Differences& most) {
  char row[64];
  std::snprintf(row, sizeof row, "%.1e %.1e %.1e", most.whole, most.chunks, most.decoded);
  testing::Test::RecordProperty(name, row);
}

TEST(families, every_one_computes_what_transformers_does) {
  ASSERT_GE(cases().size(), 40u);
  for (const auto& [name, each] : cases().items()) {
    SCOPED_TRACE(name);
    const TemporaryDirectory d;
    write_checkpoint(each, d.string());
    const auto file = loaded(d.string());
    if (!file) continue;
    Differences most;
    for (const Backend& backend : backends()) expect_logits(file, each["logits"], backend, most);
    record(name, most);
  }
}

// What is written is the same model. Refused is what GGUF has no architecture for or fuses, GELU in a Llama, scores of
// Gemma 3 that are scaled by something else than a head, windows in some layers, another jitter than
// Phi-3.5-MoE's, layers without experts between those that have them, and halves of a head's end that turn.
TEST(families, gguf_holds_the_same_model_or_is_refused) {
  std::vector<std::string> refused;
  for (const auto& [name, each] : cases().items()) {
    SCOPED_TRACE(name);
    const TemporaryDirectory d;
    write_checkpoint(each, d.string());
    const auto report = convert(d.string(), d / "m.gguf");
    if (!report) {
      EXPECT_EQ(report.error().code(), StatusCode::unsupported) << report.error().message();
      EXPECT_FALSE(std::filesystem::exists(d / "m.gguf"));
      refused.push_back(name);
      continue;
    }
    const auto file = loaded(d / "m.gguf");
    Differences most;
    if (file) expect_logits(file, each["logits"], backends().front(), most);
  }
  EXPECT_EQ(refused, (std::vector<std::string>{"cwm",
                                               "deepseek_v3, halves",
                                               "flex_olmo",
                                               "flex_olmo, renormalized",
                                               "gemma2, without caps",
                                               "gemma3",
                                               "glm",
                                               "glm4",
                                               "granite 4, experts",
                                               "granite 4, still",
                                               "helium",
                                               "llama, biases and gelu",
                                               "ministral",
                                               "ministral3",
                                               "nanochat",
                                               "phi3",
                                               "phi3, longrope",
                                               "phi3, part of a head",
                                               "phimoe",
                                               "qwen3_moe, windows",
                                               "seed_oss",
                                               "youtu"}));
}

}  // namespace
}  // namespace inlay::exec::test
