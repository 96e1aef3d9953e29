#include "tile_machine/run/scalar_table.hpp"

#include <algorithm>

namespace inlay::npu {

ScalarTable::ScalarTable(Core& core, std::string_view name, const Tensor& row, index part, Site site)
    : core_(core),
      row_(row),
      part_(std::max<index>(1, part)),
      site_(site),
      ring_(core.ring(name, Space::vector, {1, part_}, row.dtype, {2, Pipe::load_vector, Pipe::scalar}, Layout::nd,
                      site)) {
  load();
  load();
}

void ScalarTable::load() {
  const index first = loaded_ * part_, count = std::min(part_, row_.columns() - first);
  if (count <= 0) return;
  core_.copy(ring_.acquire(site_).slice(0, 1, 0, count), row_.slice(0, 1, first, count), site_);
  ring_.commit(site_);
  ++loaded_;
}

index ScalarTable::at(index i, Site site) {
  if (i < 0 || i >= row_.columns() || i / part_ + 1 < waited_) {
    core_.refuse("ScalarTable::at",
                 "entry " + std::to_string(i) + " of " + std::to_string(row_.columns()) +
                     (i < 0 || i >= row_.columns() ? " is not there" : " lies before the part that was read last"),
                 site);
    return 0;
  }
  // A stream without that memory goes the same way through the program, and reads global memory.
  if (!core_.runs(Pipe::load_vector)) return static_cast<index>(core_.scalar_read(row_, 0, i, site));
  while (waited_ <= i / part_) {
    if (waited_ > 0) {
      ring_.release(site_);
      load();
    }
    tile_ = ring_.wait(site_);
    ++waited_;
  }
  return static_cast<index>(core_.scalar_read(tile_, 0, i % part_, site));
}

ScalarTable::~ScalarTable() {
  if (core_.unwinding()) return;
  if (waited_ > 0) ring_.release(site_);
  for (; waited_ < loaded_; ++waited_) {
    ring_.wait(site_);
    ring_.release(site_);
  }
}

}  // namespace inlay::npu
