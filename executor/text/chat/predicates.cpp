// The tests of templates: `x is defined`.
#include "executor/text/chat/evaluation.hpp"

namespace inlay::exec::chat {
namespace {

using Kind = Value::Kind;

template <Kind kind> Value is_of(const Call& call) { return Value::of(call.subject.is(kind)); }
Value defined(const Call& call) { return Value::of(!call.subject.is(Kind::undefined)); }
Value true_(const Call& call) { return Value::of(call.subject.is(Kind::boolean) && call.subject.boolean()); }
Value false_(const Call& call) { return Value::of(call.subject.is(Kind::boolean) && !call.subject.boolean()); }
Value number(const Call& call) { return Value::of(call.subject.is_number()); }
Value iterable(const Call& call) {
  for (const Kind kind : {Kind::undefined, Kind::string, Kind::list, Kind::dict})
    if (call.subject.is(kind)) return Value::of(true);
  return call.subject.is(Kind::loop) ? call.run.refuse(call.at, "this test of a loop") : Value::of(false);
}
Value sequence(const Call& call) {
  if (call.subject.is(Kind::list)) return Value::of(call.subject.list().form <= List::Form::range);
  return iterable(call);
}

Value even(const Call& call) {
  return call.subject.is_number() ? Value::of(call.subject.integer() % 2 == 0) : call.fail("of what is no number");
}
Value odd(const Call& call) {
  return call.subject.is_number() ? Value::of(call.subject.integer() % 2 != 0) : call.fail("of what is no number");
}
Value divisibleby(const Call& call) {
  if (!call.subject.is_number() || !call.values[0].is_number()) return call.fail("of what is no number");
  const std::int64_t by = call.values[0].integer();
  if (by == 0) return call.fail("by zero");
  return Value::of(by == -1 || call.subject.integer() % by == 0);
}

Value equal(const Call& call) { return Value::of(call.run.equal(call.at, call.subject, call.values[0])); }
Value unequal(const Call& call) { return Value::of(!call.run.equal(call.at, call.subject, call.values[0])); }
Value less(const Call& call) { return Value::of(call.run.less(call.at, call.subject, call.values[0])); }
Value greater(const Call& call) { return Value::of(call.run.less(call.at, call.values[0], call.subject)); }
Value at_most(const Call& call) { return Value::of(!call.run.less(call.at, call.values[0], call.subject)); }
Value at_least(const Call& call) { return Value::of(!call.run.less(call.at, call.subject, call.values[0])); }
Value in(const Call& call) { return Value::of(call.run.contains(call.at, call.values[0], call.subject)); }

constexpr Builtin tests[] = {
    {"!=", {"other"}, 1, unequal},
    {"<", {"other"}, 1, less},
    {"<=", {"other"}, 1, at_most},
    {"==", {"other"}, 1, equal},
    {">", {"other"}, 1, greater},
    {">=", {"other"}, 1, at_least},
    {"boolean", {}, 0, is_of<Kind::boolean>},
    {"defined", {}, 0, defined},
    {"divisibleby", {"num"}, 1, divisibleby},
    {"eq", {"other"}, 1, equal},
    {"equalto", {"other"}, 1, equal},
    {"even", {}, 0, even},
    {"false", {}, 0, false_},
    {"ge", {"other"}, 1, at_least},
    {"greaterthan", {"other"}, 1, greater},
    {"gt", {"other"}, 1, greater},
    {"in", {"seq"}, 1, in},
    {"integer", {}, 0, is_of<Kind::integer>},
    {"iterable", {}, 0, iterable},
    {"le", {"other"}, 1, at_most},
    {"lessthan", {"other"}, 1, less},
    {"lt", {"other"}, 1, less},
    {"mapping", {}, 0, is_of<Kind::dict>},
    {"ne", {"other"}, 1, unequal},
    {"none", {}, 0, is_of<Kind::none>},
    {"number", {}, 0, number},
    {"odd", {}, 0, odd},
    {"sequence", {}, 0, sequence},
    {"string", {}, 0, is_of<Kind::string>},
    {"true", {}, 0, true_},
    {"undefined", {}, 0, is_of<Kind::undefined>},
};

}  // namespace

const Builtin* find_test(std::string_view name) {
  for (const Builtin& test : tests)
    if (test.name == name) return &test;
  return nullptr;
}

}  // namespace inlay::exec::chat
