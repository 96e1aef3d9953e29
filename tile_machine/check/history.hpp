// Who touched which bytes: finds the earlier accesses that conflict with an entry and are not known to be
// complete when it starts.
//
// Every memory of every stream is cut into pages. A page keeps, for each lane, the accesses that touch it in
// the order of that lane. As clocks count completed prefixes, the accesses without an order are the tail of
// each such list: a look-up walks back until it meets a completed one. Pages that nobody writes keep nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "tile_machine/check/clocks.hpp"
#include "tile_machine/events/overlap.hpp"
#include "tile_machine/events/report.hpp"

namespace inlay::npu {

// Two accesses without an order, in order of issue. Kinds of one pair are merged: RAW before WAR before WAW.
struct Race {
  ReportKind kind = ReportKind::race_raw;
  std::uint32_t first = 0, second = 0;                      // entries
  std::uint32_t first_footprint = 0, second_footprint = 0;  // index into EventLog::footprints
};

class History {
 public:
  // At most `limit` conflicts of one entry with one list of one page are returned.
  explicit History(const EventLog& log, const Device& device,
                   std::size_t limit = std::numeric_limits<std::size_t>::max());

  // Races of the entry that `clocks` has just run with those before it; then keeps its accesses.
  const std::vector<Race>& visit(const Clocks& clocks);

 private:
  struct Item {
    std::uint32_t position, entry, footprint;
  };
  struct Accesses {  // of one lane, in its order
    std::uint32_t lane;
    std::vector<Item> items;
  };
  struct Page {
    std::vector<Accesses> reads, writes;
  };
  struct Region {  // the touched part of one memory of one stream
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
    std::int64_t extents = 0, longest = 0, count = 0;  // of its footprints
    int shift = 0;                                     // a page has 2^shift bytes
    std::vector<std::uint32_t> slots;                  // by page: index into pages_, or none
  };

  Region& region(const Footprint& footprint, std::uint32_t stream);
  template <class Visit> void each_page(Region& region, const Runs& runs, Visit&& visit);
  void look(const std::vector<Accesses>& of_lanes, const Clocks& clocks, std::uint32_t footprint, const Runs& runs);

  const EventLog& log_;
  Lanes lanes_;
  std::size_t memories_, limit_;
  std::vector<Region> regions_;
  std::vector<Page> pages_;
  std::vector<Race> found_;
};

}  // namespace inlay::npu
