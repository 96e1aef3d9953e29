// Cuts text into the words that BPE merges inside, by the expressions of one pre-tokenizer.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <inlay/core/status.hpp>

namespace inlay::exec {

class WordSplitter {
 public:
  // By a name of pre_tokenizer.hpp.
  static Expected<WordSplitter> make(std::string_view pre);

  // The words of `text` in order, without gaps. A byte that is no UTF-8 is a word of its own.
  Status split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Expression;  // compiled

  Status split_valid(std::string_view text, std::size_t level, std::vector<std::string_view>& words) const;

  std::vector<std::shared_ptr<const Expression>> expressions_;
};

}  // namespace inlay::exec
