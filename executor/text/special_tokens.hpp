// Tokens that are found in the text as it stands, at the leftmost place, the longest first: any number of them in one
// walk over the text.
//
// An automaton of Aho and Corasick (1975) reads the text from its end, so that at each place it knows the longest token
// that begins there. Its states are the endings of the tokens:
//
//   tokens   <a> <ba>       states    >   a>   <a>        of the first, sorted by their last letters
//                                              ba>  <ba>  of the second: what it does not share
//
// The next state of a chain is the next number; only where a chain branches off another is a row in `branches_`.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace inlay::exec {

// Which bytes of a text may not be special tokens, since whoever wrote them is not trusted with any.
struct TypedBytes {
  std::string_view typed = {};                 // 1 for such a byte; as long as the text, or empty where it has none
  std::span<const std::int32_t> guarded = {};  // sorted: user-defined tokens that they may not be either

  bool empty() const { return typed.empty(); }
  bool guards(std::int32_t id) const { return std::binary_search(guarded.begin(), guarded.end(), id); }
  TypedBytes of(std::size_t begin, std::size_t count) const {
    return {empty() ? typed : typed.substr(begin, count), guarded};
  }
};

class SpecialTokens {
 public:
  struct Entry {
    std::string text;  // not empty
    std::int32_t id;
    bool always;                          // user-defined; control tokens only where the caller parses them
    bool normalized;                      // looked for in what the others left over
    bool lstrip = false, rstrip = false;  // swallows the white space on that side
    bool single_word = false;             // not where a word goes on at either end
  };
  // What lies before `begin` and was not taken yet is text, and text goes on at `end`.
  struct Found {
    std::size_t begin, end;
    std::int32_t id;
    std::uint32_t entry;
  };

  // Of two with the same text the first counts.
  explicit SpecialTokens(std::vector<Entry> entries = {});

  // In the order of the text, with the white space that they swallow. `parse`: control tokens too, but none that a
  // typed byte is a part of.
  std::vector<Found> find(std::string_view text, bool parse, bool normalized, const TypedBytes& typed = {}) const;

  // The token with this text, or -1.
  std::int32_t find(std::string_view text) const;

 private:
  using State = std::uint32_t;
  static constexpr State root = 0, nowhere = ~State{0};
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct Text {
    std::uint32_t entry;                 // the first with this text
    std::array<std::uint32_t, 4> found;  // by which(): of this text, or of the longest that it begins with; none
  };
  // A text's states: those beyond what it shares with the one before it.
  struct Chain {
    std::uint32_t shared, length, text;
    State parent, first;
  };

  static std::size_t which(bool parse, bool normalized) { return (parse ? 0u : 1u) + (normalized ? 2u : 0u); }

  State child(State state, char letter) const;
  State next(State state, char letter) const;
  std::vector<Chain> add_chains();
  void link(std::vector<Chain> chains);
  void inherit(std::uint32_t text, std::uint32_t shorter);
  void take_sides(std::string_view text, std::vector<Found>& all) const;
  void add(std::vector<Found>& all, State state, std::size_t at, std::size_t kind) const;
  std::vector<Found> find_all(std::string_view text, bool parse, bool normalized, const TypedBytes& typed) const;

  std::vector<Entry> entries_;
  bool has_sides_ = false;  // whether one of them looks at what stands beside it
  std::vector<Text> texts_;
  // Of each state: its letter, whether the next number is its child, the state of its longest ending that is another,
  // and the longest text that ends here.
  std::vector<char> letter_;
  std::vector<bool> chained_;
  std::vector<State> shorter_;
  std::vector<std::uint32_t> text_;
  std::array<State, 256> first_;                           // the root's children
  std::vector<std::pair<std::uint64_t, State>> branches_;  // sorted: state and letter, and the child
};

}  // namespace inlay::exec
