// What threads ask memory for while they wait (Parallel::Ahead).
#include "cpu_kernels/threads/ahead.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <inlay/core/threads.hpp>

namespace inlay {
namespace {

using Reader = Announced::Reader;

// Asks for all that there is to ask for: how much that was.
std::size_t asked(Reader& reader, const Announced& what) {
  std::size_t bytes = 0;
  while (reader.ask(what)) bytes += Reader::at_once;
  return bytes;
}

TEST(threads_ahead, each_thread_asks_for_the_beginning_of_its_part) {
  for (const std::size_t parts : {1, 2, 3, 8})
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1000}, 24 * Reader::at_once, 100 * Reader::most}) {
      const std::vector<char> memory(bytes);
      Announced what;
      what.announce(memory.data(), bytes);
      for (std::size_t part = 0; part < parts; ++part) {
        Reader reader(part, parts);
        const std::size_t begin = part * (bytes / parts), count = asked(reader, what);
        const std::size_t whole = bytes / parts / Reader::at_once * Reader::at_once;
        EXPECT_EQ(count, whole < Reader::most ? whole : Reader::most) << part << " of " << parts << ", " << bytes;
        EXPECT_EQ(reader.at(), reinterpret_cast<std::uintptr_t>(memory.data()) + begin + count);
      }
    }
}

TEST(threads_ahead, once_until_the_next_is_announced) {
  const std::vector<char> first(4096), second(8192);
  Announced what;
  Reader reader(1, 2);
  EXPECT_EQ(asked(reader, what), 0u);
  what.announce(first.data(), first.size());
  EXPECT_TRUE(reader.ask(what));
  what.announce(second.data(), second.size());
  EXPECT_EQ(asked(reader, what), 4096u);
  EXPECT_EQ(asked(reader, what), 0u);
}

// Memory that was given back, or that no system would give.
TEST(threads_ahead, the_memory_need_not_be_there) {
  for (const int width : {1, 2, 3}) {
    Threads pool({.width = width});
    const Parallel parallel = pool.parallel();
    for (int round = 0; round < 1000; ++round) {
      const auto nowhere = reinterpret_cast<const void*>(static_cast<std::size_t>(round) << 47);
      parallel.ahead.expect(parallel.ahead.context, nowhere, std::size_t{1} << 40);
      std::atomic<int> ran{0};
      parallel(8, [&](index) { ++ran; });
      ASSERT_EQ(ran, 8);
    }
  }
}

}  // namespace
}  // namespace inlay
