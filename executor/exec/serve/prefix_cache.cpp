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

PrefixCache::PrefixCache(BlockPool& pool, std::string_view model, Hash hash)
    : pool_(&pool), hash_(hash), first_(salted(0, Tag::model, model)) {
  const char type = static_cast<char>(pool.shape().dtype);
  first_ = salted(first_, Tag::kv_type, {&type, 1});
}

// The tag and the length before the bytes: no two lists of salts are the same bytes.
std::uint64_t PrefixCache::salted(std::uint64_t hash, Tag tag, std::string_view bytes) const {
  hash = hash_(hash, static_cast<Token>(tag));
  hash = hash_(hash, static_cast<Token>(bytes.size()));
  hash = hash_(hash, static_cast<Token>(static_cast<std::uint64_t>(bytes.size()) >> 32));
  for (const char byte : bytes) hash = hash_(hash, static_cast<unsigned char>(byte));
  return hash;
}

template <class Visit> void PrefixCache::walk(const Text& text, Visit&& visit) const {
  const index size = pool_->shape().block_size, known = static_cast<index>(text.known.size());
  std::uint64_t hash = salted(first_, Tag::salt, text.salt);
  for (index begin = 0; begin + size <= known; begin += size) {
    Block block{.tokens = text.known.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size)),
                .salt = begin == 0 ? text.salt : std::string_view()};
    if (begin + size > text.prompt) {
      block.prompt = text.prompt;
      // The first that holds generated tokens.
      if (begin <= text.prompt)
        hash = salted(hash, Tag::generated, {reinterpret_cast<const char*>(&text.prompt), sizeof text.prompt});
    }
    for (const Token token : block.tokens) hash = hash_(hash, token);
    if (!visit(hash, block)) return;
  }
}

bool PrefixCache::is(const Entry& entry, const BlockPool::Content& before, const Block& block) const {
  return pool_->holds(entry.content) && entry.before == before && entry.salt == block.salt &&
         entry.prompt == block.prompt &&
         std::equal(block.tokens.begin(), block.tokens.end(), entry.tokens.begin(), entry.tokens.end());
}

PrefixCache::Match PrefixCache::find(const Text& text) const {
  Match match;
  if (text.known.empty()) return match;
  BlockPool::Content before;
  Text all_but_last = text;
  all_but_last.known = text.known.first(text.known.size() - 1);
  walk(all_but_last, [&](std::uint64_t hash, const Block& block) {
    const auto found = entries_.find(hash);
    if (found == entries_.end() || !is(found->second, before, block)) return false;
    match.is_pending = !found->second.computed;
    if (match.is_pending) return false;
    before = found->second.content;
    match.blocks.push_back(before.block);
    return true;
  });
  return match;
}

void PrefixCache::announce(const Text& text, const Sequence& sequence) {
  Text prompt = text;
  prompt.known = text.known.first(static_cast<std::size_t>(text.prompt));
  enter(prompt, sequence, false);
}

void PrefixCache::publish(const Text& text, const Sequence& sequence) {
  Text computed = text;
  computed.known = text.known.first(static_cast<std::size_t>(sequence.length));
  enter(computed, sequence, true);
}

void PrefixCache::enter(const Text& text, const Sequence& sequence, bool computed) {
  // Entries whose blocks hold something else by now.
  if (static_cast<index>(entries_.size()) > 2 * pool_->shape().blocks)
    std::erase_if(entries_, [&](const auto& each) { return !pool_->holds(each.second.content); });
  BlockPool::Content before;
  auto next = sequence.blocks.begin();
  walk(text, [&](std::uint64_t hash, const Block& block) {
    const BlockPool::Content content = pool_->content(*next++);
    Entry& entry = entries_[hash];
    if (!pool_->holds(entry.content))
      entry = {.content = content,
               .before = before,
               .tokens = {block.tokens.begin(), block.tokens.end()},
               .salt = std::string(block.salt),
               .prompt = block.prompt};
    else if (!is(entry, before, block))
      return false;  // another text of the same hash
    // Another block of the same tokens stays: texts may share it.
    if (computed && entry.content == content) {
      pool_->keep(content.block);
      entry.computed = true;
    }
    before = entry.content;
    return true;
  });
}

}  // namespace inlay::exec
