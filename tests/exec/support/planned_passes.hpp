// Passes that are captured before what they read is there, and what lies where they read nothing.
#pragma once

#include <vector>

#include <inlay/exec/batch.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {

inline constexpr int nan_byte = 0xff;  // NaN of every float, and no block or slot
inline constexpr int far_byte = 0x7f;  // ids and lengths that reach nowhere
inline constexpr index max_tokens = 64, block_size = 4, blocks = 40;

struct Part {
  int text;
  index count;
  bool is_prompt = false;
};
// Two prompts; a token of each beside a third prompt; a token of the first text, then of the second one, whose table
// is as wide, 8, and shorter.
inline const std::vector<std::vector<Part>> passes = {
    {{0, 27, true}, {1, 16, true}}, {{0, 1}, {1, 1}, {2, 13, true}}, {{0, 2}}, {{1, 2}}};

class Texts {
 public:
  explicit Texts(BlockPool& pool) : pool_(pool) {}

  Batch next() {
    Batch batch;
    for (const Part& part : passes[pass_]) {
      Sequence& text = texts_[part.text];
      const auto more = tokens(part.count, tiny().vocab);
      EXPECT_TRUE(inlay::test::ok(part.is_prompt ? batch.add_prompt(pool_, text, more, 1)
                                                 : batch.add_generated(pool_, text, more)));
    }
    for (const Part& part : passes[pass_]) texts_[part.text].length += part.count;
    ++pass_;
    return batch;
  }

 private:
  BlockPool& pool_;
  Sequence texts_[3];
  std::size_t pass_ = 0;
};

}  // namespace inlay::exec::test
