#include "executor/text/merge_table.hpp"

#include <inlay/core/quote.hpp>

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace inlay::exec {
namespace {

using Type = TokenizerData::TokenType;

std::uint64_t key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

Expected<MergeTable> MergeTable::make(const TokenizerData& data) {
  MergeTable table;
  // Where letters are bytes, "<0x0A>" is a text as others.
  const bool has_bytes = data.kind == TokenizerData::Kind::character_bpe;
  std::vector<bool> added(data.tokens.size());
  for (const std::int32_t id : data.added)
    if (id >= 0 && static_cast<std::size_t>(id) < added.size()) added[static_cast<std::size_t>(id)] = true;
  std::size_t count = 0;
  for (const Type type : data.types) count += type == Type::normal || type == Type::user_defined || type == Type::byte;
  table.ids_.reserve(count);
  for (std::size_t i = 0; i < data.tokens.size(); ++i) {
    const Type type = data.types[i];
    if (type == Type::normal || (type == Type::user_defined && !added[i]) || (type == Type::byte && has_bytes))
      table.ids_.emplace(data.tokens[i], static_cast<std::int32_t>(i));
  }
  // Made when a merge asks for one, as hardly any does.
  std::optional<std::unordered_set<std::string_view, SeededHash>> controls;
  const auto is_control = [&](std::string_view text) {
    if (!controls) {
      controls.emplace();
      for (std::size_t i = 0; i < data.tokens.size(); ++i)
        if (data.types[i] == Type::control || data.types[i] == Type::unknown) controls->insert(data.tokens[i]);
    }
    return controls->contains(text);
  };
  table.merges_.reserve(data.merges.size());
  std::string both;
  for (std::size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const std::size_t space = merge.find(' ', 1);
    std::int32_t left = TokenizerData::no_token, right = left, merged = left;
    bool control = false;
    if (space != std::string_view::npos) {
      const auto find = [&](std::string_view text) {
        const std::int32_t id = table.find(text);
        control = control || (id < 0 && is_control(text));
        return id;
      };
      left = find(merge.substr(0, space));
      right = find(merge.substr(space + 1));
      both.assign(merge.substr(0, space)).append(merge.substr(space + 1));
      merged = find(both);
    }
    if (control) continue;  // no letters merge into a control token
    if (left < 0 || right < 0 || merged < 0)
      return failure(StatusCode::corrupt_data, "the merge " + quote(merge) + " is not of two tokens that make a third");
    // Of a merge that is listed twice the last rank counts, as in Hugging Face's tokenizers.
    table.merges_.insert_or_assign(key(left, right), Rank{static_cast<std::int32_t>(rank), merged});
  }
  return table;
}

std::int32_t MergeTable::find(std::string_view text) const {
  const auto at = ids_.find(text);
  return at == ids_.end() ? TokenizerData::no_token : at->second;
}

Merge MergeTable::merge(const Symbol& left, const Symbol& right) const {
  const auto found = merges_.find(key(left.token, right.token));
  if (found == merges_.end()) return {0, TokenizerData::no_token};
  return {-static_cast<double>(found->second.rank), found->second.token};
}

void MergeTable::merge_all(std::vector<Symbol>& symbols, std::vector<std::int32_t>& out) const {
  symbols.back().next = -1;
  merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) { return merge(left, right); });
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next)
    out.push_back(symbols[static_cast<std::size_t>(i)].token);
}

Status add_byte(std::string_view text, std::size_t at, const std::array<std::int32_t, 256>& bytes,
                std::vector<Symbol>& symbols) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (bytes[byte] < 0)
    return {StatusCode::corrupt_data, "the vocabulary has no token for the byte " + std::to_string(byte)};
  add_symbol(at, 1, bytes[byte], symbols);
  return {};
}

}  // namespace inlay::exec
