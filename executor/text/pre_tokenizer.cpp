#include <inlay/text/pre_tokenizer.hpp>

#include <string>

namespace inlay::exec {
namespace {

constexpr std::string_view gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view digit = R"(\p{N})";
// Llama 3 takes up to three digits at a time, Qwen 2 one.
constexpr std::string_view llama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Words end where a small letter is followed by a capital one.
constexpr std::string_view tekken = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
                                    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
                                    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// GPT-4o's, which takes tekken's words with contractions behind them.
constexpr std::string_view o200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Marks belong to the letters before them.
constexpr std::string_view qwen35 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                                    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view ling = R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N})"
                                  R"(| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
// DeepSeek's files have these characters themselves: line breaks, and Chinese, Japanese and Korean letters.
constexpr std::string_view deepseek_v3 = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)"
                                         "\r\n"
                                         R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[)"
                                         "\r\n"
                                         R"(]*|\s*[)"
                                         "\r\n"
                                         R"(]+|\s+(?!\S)|\s+)";

// The letters of DeepSeek LLM and V2 are those with a case of the Unicode of their time.
constexpr std::string_view deepseek_letters =
    "\\s?["
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-"
    "\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
    "]+";
// GPT-4o's, without Chinese characters in words, and those in words of their own.
constexpr std::string_view kimi_k2 =
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view gpt2_splits[] = {gpt2};
constexpr std::string_view smollm_splits[] = {digit, gpt2};
constexpr std::string_view llama3_splits[] = {llama3};
constexpr std::string_view qwen2_splits[] = {qwen2};
constexpr std::string_view tekken_splits[] = {tekken};
constexpr std::string_view o200k_splits[] = {o200k};
constexpr std::string_view qwen35_splits[] = {qwen35};
constexpr std::string_view ling_splits[] = {ling};
constexpr std::string_view deepseek_v3_splits[] = {R"(\p{N}{1,3})", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                                                   deepseek_v3};
constexpr std::string_view deepseek_coder_splits[] = {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                                      "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", digit};
constexpr std::string_view deepseek_llm_splits[] = {"[\r\n]",
                                                    deepseek_letters,
                                                    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                                                    R"(\s+$)",
                                                    "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
                                                    digit};
constexpr std::string_view kimi_k2_splits[] = {kimi_k2};
constexpr std::string_view default_splits[] = {R"([\p{P}\$\+<=>\^~\|]+)", gpt2, R"(\p{N}+)", "[0-9][0-9][0-9]"};

// Where several rows have the same words, a tokenizer.json takes the first with its flags.
//
// Qwen's and its distillates' own tokenizers bring text into NFC first, so their models never saw any other;
// llama.cpp leaves that out.
constexpr PreTokenizer table[] = {
    {.name = "gpt-2", .splits = gpt2_splits},
    {.name = "smollm", .splits = smollm_splits},
    {.name = "llama-bpe", .splits = llama3_splits, .ignore_merges = true, .add_bos = true},
    {.name = "llama3", .splits = llama3_splits, .ignore_merges = true, .add_bos = true},
    {.name = "smaug-bpe", .splits = llama3_splits},
    {.name = "qwen2", .splits = qwen2_splits, .nfc = true},
    {.name = "deepseek-r1-qwen", .splits = qwen2_splits, .nfc = true},
    {.name = "tekken", .splits = tekken_splits, .ignore_merges = true, .add_bos = true},
    {.name = "gpt-4o", .splits = o200k_splits},
    {.name = "qwen35", .splits = qwen35_splits, .nfc = true},
    {.name = "bailingmoe", .splits = ling_splits},
    {.name = "deepseek-v3", .splits = deepseek_v3_splits},
    {.name = "deepseek-coder", .splits = deepseek_coder_splits},
    {.name = "deepseek-llm", .splits = deepseek_llm_splits},
    {.name = "kimi-k2", .splits = kimi_k2_splits, .ignore_merges = true},
    {.name = "default", .splits = default_splits},
};

// Other models' names for the same words, as llama.cpp knows them.
struct Alias {
  std::string_view name, words;
};
constexpr Alias aliases[] = {
    {"llama-v3", "llama-bpe"},    {"falcon3", "llama-bpe"},
    {"falcon-h1", "llama-bpe"},   {"pixtral", "llama-bpe"},
    {"midm-2.0", "llama-bpe"},    {"lfm2", "llama-bpe"},
    {"megrez", "qwen2"},          {"kormo", "qwen2"},
    {"llama4", "gpt-4o"},         {"kanana2", "gpt-4o"},
    {"talkie", "gpt-4o"},         {"minimax-m2", "gpt-4o"},
    {"joyai-llm", "deepseek-v3"}, {"bailingmoe2", "bailingmoe"},
    {"llada-moe", "bailingmoe"},  {"phi-2", "gpt-2"},
    {"a.x-4.0", "gpt-2"},         {"mellum", "gpt-2"},
    {"exaone4", "gpt-2"},         {"hunyuan-dense", "deepseek-v3"},
};

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() { return table; }

// A letter, a number, a space and any other character each have a branch that takes it alone.
bool leaves_nothing(std::string_view split) {
  for (const std::string_view whole : {gpt2, llama3, qwen2, tekken, o200k, qwen35, ling})
    if (split == whole) return true;
  return false;
}

std::string_view gpt2_words() { return gpt2; }

void set_pre_tokenizer(TokenizerData& data, std::string_view name) {
  std::string_view words = name;
  for (const Alias& each : aliases)
    if (each.name == name) words = each.words;
  data.pre = words;
  for (const PreTokenizer& each : table)
    if (each.name == words) data.ignore_merges = each.ignore_merges, data.nfc = each.nfc, data.add_bos = each.add_bos;
  if (words != name) data.nfc = false;  // that is Qwen's own
}

}  // namespace inlay::exec
