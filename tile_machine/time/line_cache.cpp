#include "tile_machine/time/line_cache.hpp"

#include <algorithm>
#include <bit>

namespace inlay::npu {

namespace {

constexpr std::uint64_t page_lines = 64;

std::uint64_t count(std::uint64_t mask) { return static_cast<std::uint64_t>(std::popcount(mask)); }

}  // namespace

LineCache::LineCache(std::uint64_t bytes, std::uint32_t line, std::uint64_t end)
    : max_lines_(std::max<std::uint64_t>(1, bytes / line)), roomy_(end <= bytes) {
  const std::uint64_t pages = end / line / page_lines + 1;
  if (roomy_)
    pages_.resize(pages);
  else
    slot_of_.assign(pages, nowhere);
}

void LineCache::unlink(std::uint32_t slot) {
  Page& page = pages_[slot];
  (page.newer == nowhere ? newest_ : pages_[page.newer].older) = page.older;
  (page.older == nowhere ? oldest_ : pages_[page.older].newer) = page.newer;
}

void LineCache::link(std::uint32_t slot) {
  Page& page = pages_[slot];
  page.newer = nowhere;
  page.older = newest_;
  (newest_ == nowhere ? oldest_ : pages_[newest_].newer) = slot;
  newest_ = slot;
}

LineCache::Page& LineCache::use(std::uint64_t number) {
  if (roomy_) return pages_[number];
  std::uint32_t& slot = slot_of_[number];
  if (slot == nowhere) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(pages_.size()));
      pages_.emplace_back();
    }
    slot = free_.back();
    free_.pop_back();
    pages_[slot] = {.number = number};
    link(slot);
  } else if (slot != newest_) {
    unlink(slot);
    link(slot);
  }
  return pages_[slot];
}

// Whole pages go, but never the one in use.
void LineCache::make_room() {
  while (lines_ > max_lines_ && oldest_ != newest_) {  // never where all fit
    const std::uint32_t slot = oldest_;
    Page& page = pages_[slot];
    lines_ -= count(page.there);
    evicted_ += count(page.owed);
    slot_of_[page.number] = nowhere;
    unlink(slot);
    free_.push_back(slot);
  }
}

template <class Each> void LineCache::each_page(std::uint64_t first, std::uint64_t last, Each&& each) {
  for (std::uint64_t line = first; line <= last;) {
    const std::uint64_t number = line / page_lines, begin = line % page_lines;
    const std::uint64_t end = std::min(page_lines, begin + last - line + 1);
    const std::uint64_t wide = end - begin;
    each(number, (wide == page_lines ? ~std::uint64_t{0} : (std::uint64_t{1} << wide) - 1) << begin, wide);
    line += wide;
  }
}

LineCache::Lines LineCache::read(std::uint64_t first, std::uint64_t last, bool keep) {
  Lines result;
  each_page(first, last, [&](std::uint64_t number, std::uint64_t mask, std::uint64_t wide) {
    if (!keep && !roomy_ && slot_of_[number] == nowhere) {
      result.missing += wide;
      return;
    }
    Page& page = use(number);
    const std::uint64_t lacking = mask & ~page.there;
    const std::uint64_t missing = lacking == 0 ? 0 : lacking == mask ? wide : count(lacking);
    result.there += wide - missing;
    result.missing += missing;
    if (!keep || missing == 0) return;
    page.there |= mask;
    lines_ += missing;
    make_room();
  });
  return result;
}

LineCache::Lines LineCache::write(std::uint64_t first, std::uint64_t last, bool outlives) {
  Lines result;
  each_page(first, last, [&](std::uint64_t number, std::uint64_t mask, std::uint64_t wide) {
    Page& page = use(number);
    const std::uint64_t fresh = outlives ? count(mask & ~page.dirty) : 0;
    result.missing += fresh;
    result.there += wide - fresh;
    lines_ += count(mask & ~page.there);
    if (!outlives) page.owed |= mask & ~page.dirty;
    page.there |= mask;
    page.dirty |= mask;
    make_room();
  });
  return result;
}

std::uint64_t LineCache::take_evicted() {
  const std::uint64_t lines = evicted_;
  evicted_ = 0;
  return lines;
}

}  // namespace inlay::npu
