// The filters of templates.
#include <charconv>
#include <cstdlib>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/evaluation.hpp"

namespace inlay::exec::chat {

using Kind = Value::Kind;

Value Call::fail(const std::string& what) const { return run.fail(at, quote(builtin.name) + " " + what); }

namespace {

// Filters of strings take what is no string by its str().
Value of_string(const Call& call, const char* method) {
  Call of = call;
  of.subject = call.run.make(call.at, call.run.str(call.at, call.subject));
  return call.run.ok() ? find_method(method)->call(of) : Value();
}
Value upper(const Call& call) { return of_string(call, "upper"); }
Value lower(const Call& call) { return of_string(call, "lower"); }
Value capitalize(const Call& call) { return of_string(call, "capitalize"); }
Value trim(const Call& call) { return of_string(call, "strip"); }
Value string(const Call& call) { return call.run.make(call.at, call.run.str(call.at, call.subject)); }

// The first letter of each word, and words are between blanks, hyphens and opening brackets.
Value title(const Call& call) {
  Text text = call.run.str(call.at, call.subject);
  if (!is_ascii(text.bytes)) return call.run.refuse(call.at, "'title' of letters outside ASCII");
  bool begins = true;
  for (char& c : text.bytes) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter && begins) c = static_cast<char>(c & ~0x20);
    if (letter && !begins) c = static_cast<char>(c | 0x20);
    begins = std::string_view("-({[< \t\n\v\f\r\x1c\x1d\x1e\x1f").find(c) != std::string_view::npos;
  }
  return call.run.make(call.at, std::move(text));
}

Value replace(const Call& call) {
  Call of = call;
  for (std::size_t i = 0; i < 2; ++i) of.values[i] = call.run.make(call.at, call.run.str(call.at, call.values[i]));
  if (of.values[2].is(Kind::none)) of.given[2] = false;
  return of_string(of, "replace");
}

Value length(const Call& call) {
  const Value& of = call.subject;
  switch (of.kind()) {
    case Kind::undefined: return Value::of(std::int64_t{0});
    case Kind::string:
      call.run.spend(call.at, of.text().size() / 16);
      return Value::of(static_cast<std::int64_t>(count_characters(of.text().bytes)));
    case Kind::dict: return Value::of(static_cast<std::int64_t>(of.dict().members.size()));
    case Kind::list:
      if (of.list().form == List::Form::iterator) break;
      return Value::of(static_cast<std::int64_t>(of.list().items.size()));
    default: break;
  }
  return call.fail("of " + std::string(of.is(Kind::list) ? "what a filter gives" : of.type()));
}

Value default_(const Call& call) {
  const bool missing = call.subject.is(Kind::undefined) || (call.values[1].is_true() && !call.subject.is_true());
  if (!missing) return call.subject;
  return call.given[0] ? call.values[0] : call.run.make(call.at, Text());
}

Value first(const Call& call) {
  std::vector<Value> items;
  return call.run.items(call.at, call.subject, items) && !items.empty() ? items.front() : Value();
}

Value last(const Call& call) {
  if (call.subject.is(Kind::list) && call.subject.list().form == List::Form::iterator)
    return call.fail("of what a filter gives");
  std::vector<Value> items;
  return call.run.items(call.at, call.subject, items) && !items.empty() ? items.back() : Value();
}

Value reverse(const Call& call) {
  std::vector<Value> items;
  if (!call.run.items(call.at, call.subject, items)) return {};
  if (call.subject.is(Kind::string)) {
    Text text;
    for (auto item = items.rbegin(); item != items.rend(); ++item) text.append(item->text());
    return call.run.make(call.at, std::move(text));
  }
  const bool twice = call.subject.is(Kind::list) && call.subject.list().form == List::Form::iterator;
  return call.run.make(
      call.at, List{.items = {items.rbegin(), items.rend()}, .form = twice ? List::Form::list : List::Form::iterator});
}

Value list(const Call& call) {
  std::vector<Value> items;
  if (!call.run.items(call.at, call.subject, items)) return {};
  return call.run.make(call.at, List{.items = std::move(items)});
}

Value items(const Call& call) {
  List pairs{.form = List::Form::iterator};
  if (!call.subject.is(Kind::dict) && !call.subject.is(Kind::undefined))
    return call.fail("of " + std::string(call.subject.type()));
  if (call.subject.is(Kind::dict))
    for (const auto& [key, value] : call.subject.dict().members)
      pairs.items.push_back(
          call.run.make(call.at, List{.items = {call.run.make(call.at, key), value}, .form = List::Form::tuple}));
  return call.run.make(call.at, std::move(pairs));
}

// a.b.0 of each
Value path(const Call& call, Value value, std::string_view names) {
  while (call.run.ok()) {
    const std::string_view name = names.substr(0, names.find('.'));
    if (!call.run.spend(call.at, 1 + name.size() / Evaluation::bytes_of_step)) return {};
    std::int64_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool digits =
        !name.empty() && name[0] != '-' && read.ec == std::errc() && read.ptr == name.data() + name.size();
    value = call.run.item(call.at, value, digits ? Value::of(index) : Value::of(name));
    if (name.size() == names.size()) break;
    names.remove_prefix(name.size() + 1);
  }
  return value;
}

Value join(const Call& call) {
  std::vector<Value> items;
  if (!call.run.items(call.at, call.subject, items)) return {};
  const Text between = call.given[0] ? call.run.str(call.at, call.values[0]) : Text();
  if (call.given[1] && !call.values[1].is(Kind::string)) return call.fail("by an attribute that is no string");
  Text text;
  for (std::size_t i = 0; i < items.size() && call.run.spend(call.at) && call.run.may_be_made(call.at, text); ++i) {
    if (i > 0) text.append(between);
    if (call.given[1]) items[i] = path(call, items[i], call.values[1].text().bytes);
    text.append(call.run.str(call.at, items[i]));
  }
  return call.run.make(call.at, std::move(text));
}

Value tojson(const Call& call) {
  const Value &ascii = call.values[0], &indent = call.values[1];
  std::int64_t blanks = -1;
  if (indent.is(Kind::integer)) {
    blanks = indent.integer();
    if (blanks < 0 || blanks > 16) return call.fail("with an indent of " + std::to_string(blanks));
  } else if (call.given[1] && !indent.is(Kind::none)) {
    return call.fail("with an indent that is " + std::string(indent.type()));
  }
  return call.run.make(call.at, call.run.json(call.at, call.subject, blanks, ascii.is_true()));
}

Value int_(const Call& call) {
  if (call.subject.is_number()) return Value::of(call.subject.integer());
  if (call.subject.is(Kind::undefined)) return call.fail("of an undefined value");
  const Value otherwise = call.given[0] ? call.values[0] : Value::of(std::int64_t{0});
  if (!call.subject.is(Kind::string)) return otherwise;
  std::string_view text = call.subject.text().bytes;
  if (!call.run.spend(call.at, text.size() / 16)) return {};
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  if (!is_ascii(text) || text.find('_') != std::string_view::npos)
    return call.run.refuse(call.at, "'int' of " + quote(text));
  const std::string digits(text.starts_with("+") && !text.starts_with("+-") ? text.substr(1) : text);
  std::int64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end) return Value::of(value);
  char* stop = nullptr;
  std::strtod(digits.c_str(), &stop);
  if (!digits.empty() && stop == end) return call.run.refuse(call.at, "'int' of " + quote(text));
  return otherwise;
}

Value abs(const Call& call) {
  if (!call.subject.is_number()) return call.fail("of " + std::string(call.subject.type()));
  const std::int64_t value = call.subject.integer();
  if (value == INT64_MIN) return call.run.refuse(call.at, "so large a number");
  return Value::of(value < 0 ? -value : value);
}

// Applies the test or filter that the call names to one value.
Value apply(const Call& call, Value value, std::size_t first) {
  if (call.inner == nullptr) return value;
  Call each{.run = call.run, .at = call.at, .builtin = *call.inner, .subject = std::move(value)};
  for (std::size_t i = 0; i < call.inner->count() && first + i < most_parameters; ++i)
    each.values[i] = call.values[first + i], each.given[i] = call.given[first + i];
  return call.inner->call(each);
}

Value map(const Call& call) {
  List mapped{.form = List::Form::iterator};
  std::vector<Value> items;
  if (!call.subject.is_true()) return call.run.make(call.at, std::move(mapped));
  if (call.given[0] == (call.inner != nullptr))
    return call.run.refuse(call.at, "'map' without an attribute or a filter");
  if (call.given[0] && !call.values[0].is(Kind::string))
    return call.run.refuse(call.at, "an attribute that is no string");
  if (!call.run.items(call.at, call.subject, items)) return {};
  for (Value& item : items) {
    if (!call.run.spend(call.at)) return {};
    mapped.items.push_back(call.given[0] ? path(call, std::move(item), call.values[0].text().bytes)
                                         : apply(call, std::move(item), 1));
  }
  return call.run.make(call.at, std::move(mapped));
}

Value choose(const Call& call, bool wanted, bool by_attribute) {
  List chosen{.form = List::Form::iterator};
  std::vector<Value> items;
  if (!call.subject.is_true()) return call.run.make(call.at, std::move(chosen));
  if (by_attribute && !call.values[0].is(Kind::string))
    return call.run.refuse(call.at, "an attribute that is no string");
  const std::size_t first = by_attribute ? 1 : 0;
  if (call.inner == nullptr && call.given[first])
    return call.run.refuse(call.at, "such arguments of " + quote(call.builtin.name));
  if (call.inner != nullptr && call.inner->required > 0 && !call.given[first])
    return call.fail("lacks an argument of its test");
  if (call.inner != nullptr && call.inner->count() == 0 && call.given[first])
    return call.fail("has an argument too many");
  if (!call.run.items(call.at, call.subject, items)) return {};
  for (Value& item : items) {
    if (!call.run.spend(call.at)) return {};
    const Value tested = apply(call, by_attribute ? path(call, item, call.values[0].text().bytes) : item, first);
    if (tested.is_true() == wanted) chosen.items.push_back(std::move(item));
  }
  return call.run.make(call.at, std::move(chosen));
}
Value select(const Call& call) { return choose(call, true, false); }
Value reject(const Call& call) { return choose(call, false, false); }
Value selectattr(const Call& call) { return choose(call, true, true); }
Value rejectattr(const Call& call) { return choose(call, false, true); }

constexpr Builtin filters[] = {
    {"abs", {}, 0, abs},
    {"capitalize", {}, 0, capitalize},
    {"count", {}, 0, length},
    {"d", {"default_value", "boolean"}, 0, default_},
    {"default", {"default_value", "boolean"}, 0, default_},
    {"first", {}, 0, first},
    {"int", {"default"}, 0, int_},
    {"items", {}, 0, items},
    {"join", {"d", "attribute"}, 0, join},
    {"last", {}, 0, last},
    {"length", {}, 0, length},
    {"list", {}, 0, list},
    {"lower", {}, 0, lower},
    {"map", {"attribute"}, 0, map},
    {"reject", {"argument"}, 0, reject, false},
    {"rejectattr", {"attribute", "argument"}, 1, rejectattr, false},
    {"replace", {"old", "new", "count"}, 2, replace},
    {"reverse", {}, 0, reverse},
    {"select", {"argument"}, 0, select, false},
    {"selectattr", {"attribute", "argument"}, 1, selectattr, false},
    {"string", {}, 0, string},
    {"title", {}, 0, title},
    {"tojson", {"ensure_ascii", "indent"}, 0, tojson},
    {"trim", {"chars"}, 0, trim},
    {"upper", {}, 0, upper},
};

}  // namespace

const Builtin* find_filter(std::string_view name) {
  for (const Builtin& filter : filters)
    if (filter.name == name) return &filter;
  return nullptr;
}

}  // namespace inlay::exec::chat
