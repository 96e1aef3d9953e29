// The lines of global memory in the scalar units' caches, where a device does not keep them coherent
// (ScalarReads::coherent): what a program must clean and invalidate itself.
//
//   copy       of a line, a unit's: from its first read or write of it to its invalidate
//   not clean  somebody reads what a unit has written and not cleaned; or it invalidates that, or ends with it
//   stale      a unit reads from a copy that it made before the bytes were written by another unit or a transfer
//   lost       a copy is written whose line another unit, or a transfer, wrote since the copy was made: the line that
//              goes back to memory last has old bytes where the other wrote new ones. 4 bytes of 16 units are such
//
// A clean counts once sync orders the other's copy, or transfer, behind it. Accesses to the same bytes without any
// order are races, and reported as such.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tile_machine/check/clocks.hpp"

namespace inlay::npu {

class ScalarLines {
 public:
  enum class Fault : std::uint8_t { not_clean, stale, lost };
  struct Finding {
    Fault fault;
    std::uint32_t entry, earlier;  // who meets it; who wrote
    std::uint32_t footprint;       // the bytes of `entry`
  };

  ScalarLines(const EventLog& log, const Device& device);

  // Entries come as the clocks run them.
  const std::vector<Finding>& visit(const Clocks& clocks);
  // Behind the last one: what is left in the caches and somebody reads after the run.
  const std::vector<Finding>& end();

 private:
  struct Access {
    std::uint32_t lane, position, entry, footprint;
  };
  struct Clean {
    Access access;
    std::size_t writes;  // of the copy, up to then
  };
  struct Copy {
    std::uint32_t unit;
    bool gone = false;
    std::vector<Access> writes;
    std::vector<Clean> cleans;
    // When it was made: of each other copy the writes that memory had, of the transfers which.
    std::vector<std::size_t> had_of_copy;
    std::vector<bool> had_transfer;
    std::size_t clean() const { return cleans.empty() ? 0 : cleans.back().writes; }
  };
  struct Line {
    std::vector<Copy> copies;
    std::vector<Access> transfers;  // that write
  };

  template <class Visit> void each_line(std::uint32_t footprint, Visit&& visit);
  Copy* copy_of(Line& line, std::uint32_t unit);
  Copy& make_copy(Line& line, const Clocks& clocks, std::uint32_t unit);
  std::size_t cleaned(const Copy& copy, const Clocks& clocks) const;  // writes that memory is known to have
  bool meet(const Access& one, const Access& other) const;
  void read(Line& line, const Clocks& clocks, const Access& access, std::uint32_t unit);
  void write(Line& line, const Clocks& clocks, const Access& access, std::uint32_t unit);
  void move(Line& line, const Clocks& clocks, const Access& access, bool writes);
  void found(Fault fault, const Access& access, const Access& earlier) {
    found_.push_back({fault, access.entry, earlier.entry, access.footprint});
  }

  const EventLog& log_;
  Lanes lanes_;
  std::uint64_t line_bytes_;
  std::map<std::uint64_t, Line> lines_;  // that a scalar unit touches
  std::vector<Finding> found_;
};

}  // namespace inlay::npu
