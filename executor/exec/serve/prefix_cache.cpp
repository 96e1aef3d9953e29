#include <inlay/exec/serve/prefix_cache.hpp>

#include <algorithm>

namespace inlay::exec {

// Steele et al., 2014 (splitmix64): every bit of the token reaches every bit of the hash.
std::uint64_t PrefixCache::mixed(std::uint64_t hash, Token token) {
  hash += 0x9e3779b97f4a7c15u + static_cast<std::uint32_t>(token);
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
  return hash ^ hash >> 31;
}

template <class Visit> void PrefixCache::walk(std::span<const Token> prompt, Visit&& visit) const {
  const auto size = static_cast<std::size_t>(pool_->shape().block_size);
  std::uint64_t hash = 0;
  for (std::size_t begin = 0; begin + size < prompt.size(); begin += size) {
    const auto tokens = prompt.subspan(begin, size);
    for (const Token token : tokens) hash = hash_(hash, token);
    if (!visit(hash, tokens)) return;
  }
}

bool PrefixCache::is(const Entry& entry, const BlockPool::Content& before, std::span<const Token> tokens) const {
  return pool_->holds(entry.content) && entry.before == before &&
         std::equal(tokens.begin(), tokens.end(), entry.tokens.begin(), entry.tokens.end());
}

PrefixCache::Match PrefixCache::find(std::span<const Token> prompt) const {
  Match match;
  BlockPool::Content before;
  walk(prompt, [&](std::uint64_t hash, std::span<const Token> tokens) {
    const auto found = entries_.find(hash);
    if (found == entries_.end() || !is(found->second, before, tokens)) return false;
    match.is_pending = !found->second.computed;
    if (match.is_pending) return false;
    before = found->second.content;
    match.blocks.push_back(before.block);
    return true;
  });
  return match;
}

void PrefixCache::announce(std::span<const Token> prompt, const Sequence& sequence) {
  // Entries whose blocks hold something else by now.
  if (static_cast<index>(entries_.size()) > 2 * pool_->shape().blocks)
    std::erase_if(entries_, [&](const auto& each) { return !pool_->holds(each.second.content); });
  BlockPool::Content before;
  auto block = sequence.blocks.begin();
  walk(prompt, [&](std::uint64_t hash, std::span<const Token> tokens) {
    const BlockPool::Content content = pool_->content(*block++);
    Entry& entry = entries_[hash];
    // Another block of the same tokens stays: texts may share it.
    if (pool_->holds(entry.content) && entry.content != content) return false;
    if (entry.content != content) entry = {content, before, {tokens.begin(), tokens.end()}};
    before = content;
    return true;
  });
}

void PrefixCache::publish(std::span<const Token> prompt, const Sequence& sequence) {
  index computed = 0;
  walk(prompt, [&](std::uint64_t hash, std::span<const Token> tokens) {
    computed += static_cast<index>(tokens.size());
    if (computed > sequence.length) return false;
    const std::int32_t block = sequence.blocks[static_cast<std::size_t>(computed / pool_->shape().block_size - 1)];
    const auto found = entries_.find(hash);
    if (found == entries_.end() || found->second.content != pool_->content(block)) return false;
    if (!found->second.computed) pool_->keep(block);
    found->second.computed = true;
    return true;
  });
}

}  // namespace inlay::exec
