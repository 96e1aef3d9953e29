// Bugs that a kernel may have, planted into the reference: how many of them would the cases have told that a kernel
// computed? They are made from the operator's list of fields, so that a new field is a new bug.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <inlay/core/backend.hpp>

#include "measure/cases/compare.hpp"
#include "measure/cases/draw.hpp"

namespace inlay::tools {

// Which of an operator's bugs a case has told so far.
struct Score {
  struct Bug {
    std::string name;
    bool arose = false;  // a case had another result
    bool told = false;   // beyond the bound
  };
  std::vector<Bug> bugs;

  std::size_t told() const {
    std::size_t count = 0;
    for (const Bug& bug : bugs) count += bug.told ? 1 : 0;
    return count;
  }
};

namespace planted {

// Changes a call as the bug would; false where this call does not show it.
template <class Op> struct Bug {
  std::string name;
  std::function<bool(Op&)> plant;
};

// How work is cut and in which order changes no result that the cases could tell.
inline bool changes_results(std::string_view field) { return field != "partition" && field != "deterministic"; }

template <class Op, class V> bool read_first_row(Op& op, V Op::*member) {
  V& view = op.*member;
  if (!view.present() || view.empty() || view.extents[0] < 2 || view.strides[0] == 0) return false;
  view.strides[0] = 0;
  return true;
}

// Forgotten strides stay within the operand where they only become smaller.
template <class Op, class V> bool read_contiguous(Op& op, V Op::*member) {
  V& view = op.*member;
  if (!view.present() || view.empty() || view.contiguous()) return false;
  index step = 1;
  for (std::size_t d = view.strides.size(); d-- > 0;) {
    if (view.strides[d] < step && view.extents[d] > 1) return false;
    view.strides[d] = step;
    step *= view.extents[d];
  }
  return true;
}

template <class Op> std::vector<Bug<Op>> bugs_of() {
  std::vector<Bug<Op>> bugs;
  const Op left_out{};
  for_each_field(left_out, [&](const auto& field, const auto& initial) {
    using T = std::remove_cvref_t<decltype(initial)>;
    const std::string name(field.name);
    const auto member = field.member;
    if constexpr (ViewLike<T>) {
      if (field.role == Role::optional_in)
        bugs.push_back({"ignores " + name, [member](Op& op) {
                          if (!(op.*member).present()) return false;
                          op.*member = {};
                          return true;
                        }});
      if (field.is_written() || T::rank < 2) return;  // of one dimension the elements lie side by side
      bugs.push_back(
          {"reads the first row of " + name + " only", [member](Op& op) { return read_first_row(op, member); }});
      bugs.push_back({"ignores the strides of " + name, [member](Op& op) { return read_contiguous(op, member); }});
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      if (!changes_results(field.name)) return;
      bugs.push_back({"ignores " + name, [member, initial](Op& op) {
                        if (op.*member == initial) return false;
                        op.*member = initial;
                        return true;
                      }});
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
        bugs.push_back({"takes one more for " + name, [member](Op& op) { return ++(op.*member), true; }});
      else if constexpr (std::is_floating_point_v<T>)
        bugs.push_back({"takes " + name + " twice", [member](Op& op) { return (op.*member) += (op.*member), true; }});
    }
  });
  return bugs;
}

}  // namespace planted

template <class Op> Score score_of() {
  Score score;
  for (const auto& bug : planted::bugs_of<Op>()) score.bugs.push_back({bug.name});
  const Op left_out{};
  for_each_field(left_out, [&](const auto& field, const auto&) {
    if (field.is_written()) score.bugs.push_back({"leaves out the last element of " + std::string(field.name)});
  });
  return score;
}

// Marks those that this case tells. `expected`: what the reference wrote; the operands are restored before each call.
template <class Op> void tell(Score& score, cases::Draw& d, const Op& op, const std::vector<cases::Written>& expected) {
  static const std::vector<planted::Bug<Op>> bugs = planted::bugs_of<Op>();
  const auto note = [&](Score::Bug& bug, const std::vector<cases::Written>& got) {
    const cases::Distance distance = cases::distance(expected, got, cases::nearness(op));
    bug.arose = bug.arose || distance.worst > 0;
    bug.told = bug.told || !distance.words.empty();
  };
  for (std::size_t i = 0; i < bugs.size(); ++i) {
    Op changed = op;
    if (score.bugs[i].told || !bugs[i].plant(changed)) continue;
    d.restore();
    if (inlay::run(Reference{}, changed).ok()) note(score.bugs[i], cases::written(op));
  }
  d.restore();
  const std::vector<cases::Written> before = cases::written(op);
  for (std::size_t v = 0; v < expected.size(); ++v) {
    std::vector<cases::Written> got = expected;
    std::size_t last = got[v].values.size();
    while (last > 0 && before[v].values[last - 1] == expected[v].values[last - 1]) --last;
    if (last == 0) continue;  // nothing has changed there
    got[v].values[last - 1] = before[v].values[last - 1];
    for (std::size_t i = bugs.size(); i < score.bugs.size(); ++i)
      if (score.bugs[i].name.ends_with(" " + std::string(expected[v].name))) note(score.bugs[i], got);
  }
}

}  // namespace inlay::tools
