// A cache of lines, grouped in pages of 64: masks say which lines of a page are there and which are dirty. The pages
// that were used least recently make room. Where all addresses fit at once, nobody asks which those are.
#pragma once

#include <cstdint>
#include <vector>

namespace inlay::npu {

class LineCache {
 public:
  // Of global memory's addresses below `end`.
  LineCache(std::uint64_t bytes, std::uint32_t line, std::uint64_t end);

  struct Lines {  // of a run: how many were there, how many were not
    std::uint64_t there = 0, missing = 0;
  };
  Lines read(std::uint64_t first_line, std::uint64_t last_line, bool keep);
  // `outlives`: what is written is read after the run. missing: lines that became dirty, where it does.
  Lines write(std::uint64_t first_line, std::uint64_t last_line, bool outlives);
  // Lines of workspaces that were pushed out since the last call: they must be written back.
  std::uint64_t take_evicted();

 private:
  static constexpr std::uint32_t nowhere = 0xffffffffu;
  struct Page {
    std::uint64_t number = 0, there = 0, dirty = 0;
    std::uint64_t owed = 0;  // of the dirty ones: write-backs that are not paid for
    std::uint32_t newer = nowhere, older = nowhere;
  };
  template <class Each> void each_page(std::uint64_t first_line, std::uint64_t last_line, Each&& each);
  Page& use(std::uint64_t number);  // it is the most recent one now
  void unlink(std::uint32_t slot);
  void link(std::uint32_t slot);
  void make_room();

  std::uint64_t max_lines_, lines_ = 0, evicted_ = 0;
  bool roomy_;                          // all addresses fit: page number i is in slot i
  std::vector<std::uint32_t> slot_of_;  // by page number, unless roomy
  std::vector<Page> pages_;
  std::vector<std::uint32_t> free_;
  std::uint32_t newest_ = nowhere, oldest_ = nowhere;
};

}  // namespace inlay::npu
