#include "executor/text/special_tokens.hpp"

#include <algorithm>
#include <numeric>

#include "executor/text/characters.hpp"

namespace inlay::exec {
namespace {

std::uint64_t branch(std::uint32_t state, char letter) {
  return static_cast<std::uint64_t>(state) << 8 | static_cast<unsigned char>(letter);
}

std::uint32_t count(const auto& list) { return static_cast<std::uint32_t>(list.size()); }

}  // namespace

SpecialTokens::SpecialTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  for (const Entry& each : entries_) has_sides_ = has_sides_ || each.lstrip || each.rstrip || each.single_word;
  first_.fill(nowhere);
  link(add_chains());
}

std::vector<SpecialTokens::Chain> SpecialTokens::add_chains() {
  std::vector<std::uint32_t> order(entries_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::string &x = entries_[a].text, &y = entries_[b].text;
    return std::lexicographical_compare(x.rbegin(), x.rend(), y.rbegin(), y.rend());
  });
  letter_.push_back(0), chained_.push_back(false);  // the root
  std::vector<Chain> chains;
  std::vector<State> path{root};  // the states of the text before
  std::string_view before;
  for (const std::uint32_t each : order) {
    const Entry& entry = entries_[each];
    if (entry.text != before || chains.empty()) {
      const auto differ = std::mismatch(entry.text.rbegin(), entry.text.rend(), before.rbegin(), before.rend()).first;
      const auto shared = static_cast<std::size_t>(differ - entry.text.rbegin());
      path.resize(shared + 1);
      chains.push_back({.shared = static_cast<std::uint32_t>(shared),
                        .length = count(entry.text),
                        .text = count(texts_),
                        .parent = path.back(),
                        .first = count(letter_)});
      texts_.push_back({.entry = each, .found = {none, none, none, none}});
      for (auto letter = differ; letter != entry.text.rend(); ++letter) {
        const State state = count(letter_), parent = path.back();
        if (parent == root)
          first_[static_cast<unsigned char>(*letter)] = state;
        else if (parent + 1 == state)
          chained_[parent] = true;
        else
          branches_.emplace_back(branch(parent, *letter), state);
        letter_.push_back(*letter), chained_.push_back(false), path.push_back(state);
      }
      before = entry.text;
    }
    for (const bool parse : {false, true})
      if (std::uint32_t& found = texts_.back().found[which(parse, entry.normalized)];
          found == none && (parse || entry.always))
        found = each;
  }
  std::sort(branches_.begin(), branches_.end());
  return chains;
}

// Shorter endings first: a state's own shorter ending is known before it.
void SpecialTokens::link(std::vector<Chain> chains) {
  shorter_.assign(letter_.size(), root);
  text_.assign(letter_.size(), none);
  std::stable_sort(chains.begin(), chains.end(), [](const Chain& a, const Chain& b) { return a.shared < b.shared; });
  std::vector<std::uint32_t> active;
  std::size_t waiting = 0;
  for (std::uint32_t depth = 0; waiting < chains.size() || !active.empty(); ++depth) {
    std::erase_if(active, [&](std::uint32_t i) { return chains[i].length <= depth; });
    for (; waiting < chains.size() && chains[waiting].shared == depth; ++waiting)
      active.push_back(static_cast<std::uint32_t>(waiting));
    for (const std::uint32_t i : active) {
      const Chain& chain = chains[i];
      const State state = chain.first + (depth - chain.shared);
      const State parent = depth == chain.shared ? chain.parent : state - 1;
      if (parent != root) shorter_[state] = next(shorter_[parent], letter_[state]);
      text_[state] = text_[shorter_[state]];
      if (depth + 1 == chain.length) {
        inherit(chain.text, text_[state]);
        text_[state] = chain.text;
      }
    }
  }
}

void SpecialTokens::inherit(std::uint32_t text, std::uint32_t shorter) {
  if (shorter == none) return;
  for (std::size_t i = 0; i < texts_[text].found.size(); ++i)
    if (texts_[text].found[i] == none) texts_[text].found[i] = texts_[shorter].found[i];
}

SpecialTokens::State SpecialTokens::child(State state, char letter) const {
  if (state == root) return first_[static_cast<unsigned char>(letter)];
  if (chained_[state] && letter_[state + 1] == letter) return state + 1;
  const std::pair<std::uint64_t, State> wanted(branch(state, letter), 0);
  const auto at = std::lower_bound(branches_.begin(), branches_.end(), wanted);
  return at != branches_.end() && at->first == wanted.first ? at->second : nowhere;
}

// The longest ending of what is read that some text ends with.
SpecialTokens::State SpecialTokens::next(State state, char letter) const {
  for (;; state = shorter_[state]) {
    const State to = child(state, letter);
    if (to != nowhere) return to;
    if (state == root) return root;
  }
}

// The longest that begins at `at`, where the walk is in `state`.
void SpecialTokens::add(std::vector<Found>& all, State state, std::size_t at, std::size_t kind) const {
  if (text_[state] == none) return;
  const std::uint32_t found = texts_[text_[state]].found[kind];
  if (found != none) all.push_back({at, at + entries_[found].text.size(), entries_[found].id, found});
}

// Of those that begin at one place the longest first.
std::vector<SpecialTokens::Found> SpecialTokens::find_all(std::string_view text, bool parse, bool normalized,
                                                          const TypedBytes& typed) const {
  std::vector<Found> all;
  const std::size_t kind = which(parse, normalized);
  State state = root;
  for (std::size_t at = text.size(); at-- > 0;) {
    state = next(state, text[at]);
    if (typed.empty()) add(all, state, at, kind);
  }
  if (!typed.empty()) {
    // Within what one of them wrote, and then those that reach from one to the other: white space, no control token.
    State within = root;
    state = root;
    for (std::size_t at = text.size(); at-- > 0;) {
      const bool is_typed = typed.typed[at] != 0;
      if (at + 1 < text.size() && is_typed != (typed.typed[at + 1] != 0)) within = root;
      within = next(within, text[at]), state = next(state, text[at]);
      const std::size_t before = all.size();
      add(all, within, at, which(parse && !is_typed, normalized));
      if (all.size() > before && is_typed && typed.guards(all.back().id)) all.pop_back();
      const std::size_t one = all.size();
      add(all, state, at, which(false, normalized));
      if (all.size() == one) continue;
      const Found& both = all.back();
      const std::string_view marks = typed.typed.substr(at, both.end - at);
      if (marks.find_first_not_of(marks[0]) == std::string_view::npos || typed.guards(both.id))
        all.pop_back();
      else if (one > before && all[one - 1].end < both.end)
        std::swap(all[one - 1], all[one]);
    }
  }
  std::reverse(all.begin(), all.end());
  return all;
}

std::vector<SpecialTokens::Found> SpecialTokens::find(std::string_view text, bool parse, bool normalized,
                                                      const TypedBytes& typed) const {
  if (entries_.empty()) return {};
  std::vector<Found> all = find_all(text, parse, normalized, typed);
  // Those that begin within one that was taken go.
  std::size_t end = 0;
  std::erase_if(all, [&](const Found& each) {
    if (each.begin < end) return true;
    end = each.end;
    return false;
  });
  if (has_sides_) take_sides(text, all);
  return all;
}

// As Hugging Face's `tokenizers`: one within a word is dropped, and another that it hid is not looked for. White space
// between two that would have it goes to the first. One that lies in what another swallowed is found all the same, and
// the text goes on behind it; but not where it swallows what is before it, since nothing of it is left then.
void SpecialTokens::take_sides(std::string_view text, std::vector<Found>& all) const {
  std::erase_if(all, [&](const Found& each) {
    return entries_[each.entry].single_word &&
           (ends_with_word(text.substr(0, each.begin)) || begins_with_word(text.substr(each.end)));
  });
  std::size_t done = 0, space_begin = 0, space_end = 0;  // of the white space that was walked over last
  std::erase_if(all, [&](Found& each) {
    if (entries_[each.entry].lstrip) {
      each.begin = std::max(each.begin, done);
      each.begin -= trailing_white_space(text.substr(done, each.begin - done));
    }
    if (entries_[each.entry].rstrip) {
      if (each.end < space_begin || each.end > space_end)
        space_begin = each.end, space_end = each.end + leading_white_space(text.substr(each.end));
      each.end = space_end;
    }
    if (each.begin >= each.end) return true;
    done = each.end;
    return false;
  });
}

std::int32_t SpecialTokens::find(std::string_view text) const {
  State state = root;
  for (auto letter = text.rbegin(); letter != text.rend() && state != nowhere; ++letter) state = child(state, *letter);
  if (text.empty() || state == nowhere || text_[state] == none) return -1;
  const Entry& entry = entries_[texts_[text_[state]].entry];
  return entry.text.size() == text.size() ? entry.id : -1;
}

}  // namespace inlay::exec
