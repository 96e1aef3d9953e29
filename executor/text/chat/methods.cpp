// The methods of strings and dicts.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/evaluation.hpp"

namespace inlay::exec::chat {

using Kind = Value::Kind;

namespace {

// Characters that are stripped; none: white space.
using Stripped = std::optional<std::set<std::string_view>>;

Stripped characters_of(const Text* text) {
  if (text == nullptr) return {};
  std::set<std::string_view> all;
  for (std::string_view rest = text->bytes; !rest.empty(); rest.remove_prefix(first_character(rest)))
    all.insert(rest.substr(0, first_character(rest)));
  return all;
}

// Bytes of what is stripped at either end.
std::size_t leading_of(std::string_view text, const Stripped& set) {
  if (!set) return leading_space(text);
  std::string_view rest = text;
  while (!rest.empty() && set->contains(rest.substr(0, first_character(rest))))
    rest.remove_prefix(first_character(rest));
  return text.size() - rest.size();
}
std::size_t trailing_of(std::string_view text, const Stripped& set) {
  if (!set) return trailing_space(text);
  std::string_view rest = text;
  while (!rest.empty() && set->contains(rest.substr(rest.size() - last_character(rest))))
    rest.remove_suffix(last_character(rest));
  return text.size() - rest.size();
}

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

// The string that the method is called on; the evaluation has failed where it is none.
const Text* subject(const Call& call) {
  if (call.subject.is(Kind::string)) {
    call.run.spend(call.at, call.subject.text().size() / 16);
    return call.run.ok() ? &call.subject.text() : nullptr;
  }
  call.fail("of " + std::string(call.subject.type()));
  return nullptr;
}
// An argument that must be a string; null where it was not given, or is none.
const Text* argument(const Call& call, std::size_t i) {
  if (!call.given[i] || call.values[i].is(Kind::none)) return nullptr;
  if (call.values[i].is(Kind::string)) return &call.values[i].text();
  call.fail("with an argument that is " + std::string(call.values[i].type()));
  return nullptr;
}

Value stripped(const Call& call, bool left, bool right) {
  const Text* const text = subject(call);
  const Text* const set = argument(call, 0);
  if (!text || !call.run.ok()) return {};
  if (set && !call.run.spend(call.at, set->size() / 4)) return {};
  const Stripped characters = characters_of(set);
  const std::size_t begin = left ? leading_of(text->bytes, characters) : 0;
  const std::string_view rest = std::string_view(text->bytes).substr(begin);
  const std::size_t end = right ? trailing_of(rest, characters) : 0;
  return call.run.make(call.at, text->substr(begin, rest.size() - end));
}
Value strip(const Call& call) { return stripped(call, true, true); }
Value lstrip(const Call& call) { return stripped(call, true, false); }
Value rstrip(const Call& call) { return stripped(call, false, true); }

// `change(before, c)`: the letter that stands for c behind another one, 0 at the beginning.
template <class Change> Value changed(const Call& call, const Change& change) {
  const Text* const text = subject(call);
  if (!text) return {};
  if (!is_ascii(text->bytes)) return call.run.refuse(call.at, quote(call.builtin.name) + " of letters outside ASCII");
  Text result = *text;
  char before = 0;
  for (char& c : result.bytes) {
    const char old = c;
    c = change(before, c);
    before = old;
  }
  return call.run.make(call.at, std::move(result));
}
char to_upper(char c) { return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c; }
char to_lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }
Value upper(const Call& call) {
  return changed(call, [](char, char c) { return to_upper(c); });
}
Value lower(const Call& call) {
  return changed(call, [](char, char c) { return to_lower(c); });
}
Value title(const Call& call) {
  return changed(call,
                 [](char before, char c) { return is_lower(before) || is_upper(before) ? to_lower(c) : to_upper(c); });
}
Value capitalize(const Call& call) {
  bool first = true;
  return changed(call, [&](char, char c) { return std::exchange(first, false) ? to_upper(c) : to_lower(c); });
}

// A whole number that was given, or -1.
std::int64_t limit(const Call& call, std::size_t i) {
  if (!call.given[i]) return -1;
  if (!call.values[i].is_number()) call.fail("with a count that is " + std::string(call.values[i].type()));
  return call.values[i].is_number() ? call.values[i].integer() : -1;
}

Value replace(const Call& call) {
  const Text* const text = subject(call);
  const Text* const old = argument(call, 0);
  const Text* const with = argument(call, 1);
  const std::int64_t most = limit(call, 2);
  if (!text || !call.run.ok()) return {};
  if (!old || !with) return call.fail("with an argument that is none");
  if (old->bytes.empty()) return call.run.refuse(call.at, "'replace' of an empty string");
  Text result;
  std::size_t done = 0;
  for (std::int64_t count = 0; count != most; ++count) {
    const std::size_t at = find_text(text->bytes, old->bytes, done);
    if (at == std::string::npos || !call.run.spend(call.at, 1 + with->size() / 16)) break;
    result.append(*text, done, at - done);
    result.append(*with);
    done = at + old->size();
  }
  result.append(*text, done);
  return call.run.make(call.at, std::move(result));
}

Value split(const Call& call) {
  const Text* const text = subject(call);
  const Text* const by = argument(call, 0);
  std::int64_t most = limit(call, 1);
  if (!text || !call.run.ok()) return {};
  if (by && by->bytes.empty()) return call.fail("with an empty separator");
  List parts;
  const std::string_view bytes = text->bytes;
  std::size_t done = by ? 0 : leading_space(bytes);
  const auto add = [&](std::size_t end) {
    parts.items.push_back(call.run.make(call.at, text->substr(done, end - done)));
    return call.run.spend(call.at);
  };
  if (by) {
    for (std::size_t at = 0; most-- != 0 && (at = find_text(bytes, by->bytes, done)) != std::string::npos && add(at);)
      done = at + by->size();
    add(bytes.size());
    return call.run.make(call.at, std::move(parts));
  }
  while (done < bytes.size() && most-- != 0) {
    std::size_t end = done;
    while (end < bytes.size() && leading_space(bytes.substr(end)) == 0) end += first_character(bytes.substr(end));
    if (!add(end)) return {};
    done = end + leading_space(bytes.substr(end));
  }
  if (done < bytes.size()) add(bytes.size());
  return call.run.make(call.at, std::move(parts));
}

Value at_end(const Call& call, bool begin) {
  const Text* const text = subject(call);
  if (!text) return {};
  const Value& wanted = call.values[0];
  std::span<const Value> all(&wanted, 1);
  if (wanted.is(Kind::list) && wanted.list().form == List::Form::tuple) all = wanted.list().items;
  for (const Value& each : all) {
    if (!each.is(Kind::string)) return call.fail("with an argument that is " + std::string(each.type()));
    const std::string& bytes = each.text().bytes;
    if (!call.run.spend(call.at) || !call.run.spend_on_both(call.at, bytes, text->bytes)) return {};
    if (begin ? text->bytes.starts_with(bytes) : text->bytes.ends_with(bytes)) return Value::of(true);
  }
  return Value::of(false);
}
Value startswith(const Call& call) { return at_end(call, true); }
Value endswith(const Call& call) { return at_end(call, false); }

Value find(const Call& call) {
  const Text* const text = subject(call);
  const Text* const what = argument(call, 0);
  if (!text || !call.run.ok()) return {};
  if (!what) return call.fail("with an argument that is none");
  const std::size_t at = find_text(text->bytes, what->bytes);
  if (at == std::string::npos) return Value::of(std::int64_t{-1});
  return Value::of(static_cast<std::int64_t>(count_characters(std::string_view(text->bytes).substr(0, at))));
}

Value count(const Call& call) {
  const Text* const text = subject(call);
  const Text* const what = argument(call, 0);
  if (!text || !call.run.ok()) return {};
  if (!what || what->bytes.empty()) return call.run.refuse(call.at, "'count' of an empty string");
  std::int64_t found = 0;
  for (std::size_t at = 0; (at = find_text(text->bytes, what->bytes, at)) != std::string::npos; at += what->size())
    ++found;
  return Value::of(found);
}

Value join(const Call& call) {
  const Text* const between = subject(call);
  std::vector<Value> items;
  if (!between || !call.run.items(call.at, call.values[0], items)) return {};
  Text text;
  for (std::size_t i = 0; i < items.size() && call.run.spend(call.at) && call.run.may_be_made(call.at, text); ++i) {
    if (!items[i].is(Kind::string)) return call.fail("of " + std::string(items[i].type()));
    if (i > 0) text.append(*between);
    text.append(items[i].text());
  }
  return call.run.make(call.at, std::move(text));
}

// The dict that the method is called on; the evaluation has failed where it is none.
const Dict* dict(const Call& call) {
  if (call.subject.is(Kind::dict)) return &call.subject.dict();
  call.fail("of " + std::string(call.subject.type()));
  return nullptr;
}

Value get(const Call& call) {
  const Dict* const members = dict(call);
  if (!members) return {};
  if (call.values[0].is(Kind::list) || call.values[0].is(Kind::dict))
    return call.fail("of " + std::string(call.values[0].type()));
  const bool named = call.values[0].is(Kind::string);
  const Value* found = named ? call.run.member(call.at, *members, call.values[0].text().bytes) : nullptr;
  if (found) return *found;
  return call.given[1] ? call.values[1] : Value::none();
}

Value view(const Call& call, bool keys, bool values) {
  const Dict* const members = dict(call);
  if (!members) return {};
  List all{.form = List::Form::view};
  for (const auto& [key, value] : members->members) {
    if (!call.run.spend(call.at)) return {};
    Value name = keys ? call.run.make(call.at, key) : Value();
    all.items.push_back(!values ? name
                        : !keys ? value
                                : call.run.make(call.at, List{.items = {name, value}, .form = List::Form::tuple}));
  }
  return call.run.make(call.at, std::move(all));
}
Value items(const Call& call) { return view(call, true, true); }
Value keys(const Call& call) { return view(call, true, false); }
Value values(const Call& call) { return view(call, false, true); }

constexpr Builtin methods[] = {
    {"capitalize", {}, 0, capitalize},
    {"count", {"sub"}, 1, count, false},
    {"endswith", {"suffix"}, 1, endswith, false},
    {"find", {"sub"}, 1, find, false},
    {"get", {"key", "default"}, 1, get, false},
    {"items", {}, 0, items},
    {"join", {"iterable"}, 1, join, false},
    {"keys", {}, 0, keys},
    {"lower", {}, 0, lower},
    {"lstrip", {"chars"}, 0, lstrip, false},
    {"replace", {"old", "new", "count"}, 2, replace, false},
    {"rstrip", {"chars"}, 0, rstrip, false},
    {"split", {"sep", "maxsplit"}, 0, split},
    {"startswith", {"prefix"}, 1, startswith, false},
    {"strip", {"chars"}, 0, strip, false},
    {"title", {}, 0, title},
    {"upper", {}, 0, upper},
    {"values", {}, 0, values},
};

constexpr std::string_view of_strings =
    " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii "
    "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip "
    "maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
    "splitlines "
    "startswith strip swapcase title translate upper zfill ";
constexpr std::string_view of_dicts = " clear copy fromkeys get items keys pop popitem setdefault update values ";
constexpr std::string_view of_lists =
    " append clear copy count extend index insert pop remove reverse sort start step stop mapping keys ";
constexpr std::string_view of_numbers =
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag is_integer numerator real to_bytes ";

}  // namespace

const Builtin* find_method(std::string_view name) {
  for (const Builtin& method : methods)
    if (method.name == name) return &method;
  return nullptr;
}

bool is_python_method(Value::Kind kind, std::string_view name) {
  const std::string_view known = kind == Kind::string ? of_strings
                                 : kind == Kind::dict ? of_dicts
                                 : kind == Kind::list ? of_lists
                                                      : of_numbers;
  constexpr std::size_t longest = 16;  // as_integer_ratio
  if (kind == Kind::none || name.size() > longest) return false;
  return known.find(" " + std::string(name) + " ") != std::string_view::npos;
}

}  // namespace inlay::exec::chat
