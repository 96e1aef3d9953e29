// The memory that an operator reads and writes, by its list of fields: no operator is asked, and none knows of it.
//
//   | span |......| span |......| span |        rows of `span` bytes, one each `period` bytes
//   ^ begin
//
// That is what views of fused rows are, exactly. Of a view with more holes (dimensions within a row that do not touch)
// the row is taken whole, and `dense` is false: it is touched in part. Contents that decide at replay where an operator
// writes (slot_mapping, for example) are not looked at: a cache is touched wherever its views reach, a layer whole.
//
// An optional output counts as read as well: rms_norm's residual is, and a cache is written in part.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <vector>

#include <inlay/core/fields.hpp>
#include <inlay/core/layout.hpp>
#include <inlay/core/space.hpp>

namespace inlay::exec {

struct Access {
  std::string_view field;
  bool reads = false, writes = false;
  std::ptrdiff_t begin = 0, period = 0, span = 0;
  index rows = 1;
  bool dense = true;

  std::ptrdiff_t end() const { return begin + period * (rows - 1) + span; }
};
// Of one operator, in the order of its fields: one for each view that has elements.
using Accesses = std::vector<Access>;

// Where the elements of a view lie whose first one is at `first`.
Access access_of(std::ptrdiff_t first, const Layout& view);

template <class Op> Accesses accesses_of(const Op& op) {
  Accesses list;
  for_each_field(op, [&]<class Value>(const auto& field, const Value& view) {
    static_assert(!ListOfViews<Value>, "a list of views is somebody else's memory, which is gone when a step runs");
    if constexpr (ViewLike<Value>) {
      static_assert(std::is_same_v<typename Value::space, Host>, "only host memory is one allocation");
      if (!view.present() || view.empty()) return;
      Access access = access_of(SpacePointer<Host>::byte_offset(view.data), view);
      access.field = field.name;
      access.writes = field.is_written();
      access.reads = field.role != Role::out;
      list.push_back(access);
    }
  });
  return list;
}

// Do they touch a common byte of their rows?
bool overlap(const Access& a, const Access& b);

// Why one step must stay behind an earlier one.
struct Hazards {
  bool read_after_write = false, write_after_read = false, write_after_write = false;

  bool any() const { return read_after_write || write_after_read || write_after_write; }
};
Hazards hazards(const Accesses& earlier, const Accesses& later);

}  // namespace inlay::exec
