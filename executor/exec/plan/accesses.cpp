#include <inlay/exec/plan/accesses.hpp>

#include <algorithm>
#include <array>

namespace inlay::exec {
namespace {

struct Dimension {
  std::ptrdiff_t step;  // bits
  index extent;
};

std::ptrdiff_t floor_divide(std::ptrdiff_t a, std::ptrdiff_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

Access access_of(std::ptrdiff_t first, const Layout& view) {
  const std::ptrdiff_t width = bits(view.dtype);
  std::array<Dimension, Layout::max_rank> dimensions{};
  std::size_t count = 0;
  std::ptrdiff_t low = 0;
  for (int d = 0; d < view.rank; ++d) {
    if (view.extents[d] <= 1 || view.strides[d] == 0) continue;
    const std::ptrdiff_t step = view.strides[d] * width;
    if (step < 0) low += step * (view.extents[d] - 1);
    dimensions[count++] = {step < 0 ? -step : step, view.extents[d]};
  }
  std::sort(dimensions.begin(), dimensions.begin() + static_cast<std::ptrdiff_t>(count),
            [](const Dimension& a, const Dimension& b) { return a.step < b.step; });
  // Dimensions that continue one another are one; those that continue an element make the run of a row.
  std::ptrdiff_t run = width;
  std::size_t kept = 0;
  for (std::size_t d = 0; d < count; ++d) {
    const Dimension& each = dimensions[d];
    if (kept == 0 && each.step == run)
      run *= each.extent;
    else if (kept > 0 && each.step == dimensions[kept - 1].step * dimensions[kept - 1].extent)
      dimensions[kept - 1].extent *= each.extent;
    else
      dimensions[kept++] = each;
  }
  Access access;
  access.begin = first + floor_divide(low, 8);
  access.dense = kept <= 1 && run % 8 == 0;
  std::ptrdiff_t within = run, all = run;
  for (std::size_t d = 0; d < kept; ++d) {
    const std::ptrdiff_t reach = dimensions[d].step * (dimensions[d].extent - 1);
    all += reach;
    if (d + 1 < kept) within += reach;
  }
  const Dimension row = kept == 0 ? Dimension{run, 1} : dimensions[kept - 1];
  if (row.step % 8 == 0 && within <= row.step) {
    access.period = row.step / 8;
    access.span = (within + 7) / 8;
    access.rows = row.extent;
  } else {  // rows that meet, or no whole bytes: all between the first and the last
    access.period = access.span = (all + 7) / 8;
    access.dense = false;
  }
  return access;
}

bool overlap(const Access& a, const Access& b) {
  if (a.begin >= b.end() || b.begin >= a.end()) return false;
  const Access &few = a.rows <= b.rows ? a : b, &many = a.rows <= b.rows ? b : a;
  for (index row = 0; row < few.rows; ++row) {
    const std::ptrdiff_t begin = few.begin + row * few.period, end = begin + few.span;
    // The first of the other's rows that ends behind `begin`.
    const index met = std::max<index>(0, floor_divide(begin - many.span - many.begin, many.period) + 1);
    if (met < many.rows && many.begin + met * many.period < end) return true;
  }
  return false;
}

Hazards hazards(const Accesses& earlier, const Accesses& later) {
  Hazards found;
  for (const Access& a : earlier)
    for (const Access& b : later) {
      if (!(a.writes || b.writes) || !overlap(a, b)) continue;
      found.read_after_write = found.read_after_write || (a.writes && b.reads);
      found.write_after_read = found.write_after_read || (a.reads && b.writes);
      found.write_after_write = found.write_after_write || (a.writes && b.writes);
    }
  return found;
}

}  // namespace inlay::exec
