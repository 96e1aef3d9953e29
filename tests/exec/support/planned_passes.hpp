// Passes that are captured before what they read is there, and what lies where they read nothing.
#pragma once

#include <optional>
#include <string>
#include <utility>
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

// Of two lines of one model: the memory of `poisoned` is NaN where nothing is written, and captures with nothing of a
// pass there replay to the bits of `clean`, which captures nothing.
template <class Line> void expect_dead_contents_to_change_nothing(Line& clean, Line& poisoned) {
  Texts expected(clean.pool()), got(poisoned.pool());
  poisoned.poison();
  std::optional<decltype(poisoned.capture(Batch()))> plan;
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    SCOPED_TRACE("pass " + std::to_string(pass));
    const Batch batch = got.next();
    if (pass < 3) plan.emplace(poisoned.capture(batch));  // the last pass has the shapes of the one before it
    EXPECT_EQ(poisoned.replay(*plan, batch), clean.eager(expected.next()));
  }
}

}  // namespace inlay::exec::test
