// What lies in values: attributes, items, and how values compare.
#include <algorithm>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/evaluation.hpp"

namespace inlay::exec::chat {

using Kind = Value::Kind;

namespace {

std::int64_t size_of(const List& list) { return static_cast<std::int64_t>(list.items.size()); }

// `at` counted from the end where it is negative; -1 where it lies outside.
std::int64_t position(std::int64_t at, std::int64_t size) {
  if (at < 0) at += size;
  return at < 0 || at >= size ? -1 : at;
}

}  // namespace

Value Evaluation::attribute(std::uint32_t at, const Value& of, std::string_view name) {
  if (!ok()) return {};
  switch (of.kind()) {
    case Kind::undefined: return fail(at, "the attribute " + quote(name) + " of an undefined value");
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::string:
    case Kind::list: break;
    case Kind::dict:
      if (is_python_method(of.kind(), name)) break;
      if (const Value* value = member(at, of.dict(), name)) return *value;
      return {};
    case Kind::name_space:
      if (in_filter_) return refuse(at, "a namespace in the 'if' of a for");
      spend(at, of.name_space().attributes.size() / 8);
      for (const auto& [known, value] : of.name_space().attributes)
        if (known == name) return value;
      return {};
    case Kind::loop: {
      const Loop& loop = of.loop();
      const auto size = static_cast<std::int64_t>(loop.items.size()), index = static_cast<std::int64_t>(loop.at);
      if (name == "index") return Value::of(index + 1);
      if (name == "index0") return Value::of(index);
      if (name == "revindex") return Value::of(size - index);
      if (name == "revindex0") return Value::of(size - index - 1);
      if (name == "first") return Value::of(index == 0);
      if (name == "last") return Value::of(index + 1 == size);
      if (name == "length") return Value::of(size);
      if (name == "previtem") return index > 0 ? loop.items[loop.at - 1] : Value();
      if (name == "nextitem") return index + 1 < size ? loop.items[loop.at + 1] : Value();
      return refuse(at, "the attribute " + quote(name) + " of a loop");
    }
    case Kind::function: return refuse(at, "an attribute of a function");
  }
  if (is_python_method(of.kind(), name)) return refuse(at, "the method " + quote(name) + " without a call");
  return {};
}

Value Evaluation::item(std::uint32_t at, const Value& of, const Value& key) {
  if (!ok()) return {};
  if (of.is(Kind::undefined)) return fail(at, "an item of an undefined value");
  if (of.is(Kind::dict) && key.is(Kind::string))
    if (const Value* value = member(at, of.dict(), key.text().bytes)) return *value;
  if (of.is(Kind::name_space) || of.is(Kind::loop) || of.is(Kind::function))
    return refuse(at, "an item of " + std::string(of.type()));
  if (key.is(Kind::string)) {
    const std::string& name = key.text().bytes;
    return is_python_method(of.kind(), name) ? refuse(at, "the method " + quote(name) + " without a call") : Value();
  }
  if (!key.is_number()) return {};
  if (of.is(Kind::string)) {
    const std::string_view bytes = of.text().bytes;
    if (!spend(at, bytes.size() / 16)) return {};
    const std::int64_t i = position(key.integer(), static_cast<std::int64_t>(count_characters(bytes)));
    if (i < 0) return {};
    const std::size_t begin = bytes_of_characters(bytes, static_cast<std::size_t>(i));
    return make(at, of.text().substr(begin, first_character(bytes.substr(begin))));
  }
  if (!of.is(Kind::list) || of.list().form > List::Form::range) return {};
  const std::int64_t i = position(key.integer(), size_of(of.list()));
  return i < 0 ? Value() : of.list().items[static_cast<std::size_t>(i)];
}

Slice slice_of(std::size_t size, const Value& begin, const Value& end, std::int64_t step) {
  const auto length = static_cast<std::int64_t>(size), lowest = step < 0 ? std::int64_t{-1} : 0,
             highest = step < 0 ? length - 1 : length;
  const auto bound = [&](const Value& given, std::int64_t otherwise) {
    if (!given.is_number()) return otherwise;
    const std::int64_t at = given.integer() < 0 ? given.integer() + length : given.integer();
    return std::clamp(at, lowest, highest);
  };
  const std::int64_t first = bound(begin, step < 0 ? highest : lowest), last = bound(end, step < 0 ? lowest : highest);
  const std::int64_t pace = std::clamp(step, -length - 1, length + 1), away = step < 0 ? first - last : last - first;
  return {first, pace, away > 0 ? static_cast<std::size_t>((away - 1) / std::abs(pace) + 1) : 0};
}

namespace {

Text sliced(const Text& text, const Slice& slice) {
  const std::string_view bytes = text.bytes;
  Text result;
  std::size_t at = slice.count > 0 ? bytes_of_characters(bytes, static_cast<std::size_t>(slice.first)) : 0;
  for (std::size_t i = 0; i < slice.count; ++i) {
    result.append(text, at, first_character(bytes.substr(at)));
    if (slice.step > 0) at += bytes_of_characters(bytes.substr(at), static_cast<std::size_t>(slice.step));
    for (std::int64_t back = slice.step; back < 0 && at > 0; ++back) at -= last_character(bytes.substr(0, at));
  }
  return result;
}

}  // namespace

Value Evaluation::evaluate_slice(const Node& node) {
  const Value of = evaluate(*node.parts[0]);
  Value bounds[3];
  for (std::size_t i = 0; i < 3; ++i)
    if (node.parts[i + 1]) {
      bounds[i] = evaluate(*node.parts[i + 1]);
      if (!bounds[i].is_number() && !bounds[i].is(Kind::none))
        return fail(node.at, "an end of a slice is " + std::string(bounds[i].type()) + "; it must be a number");
    }
  if (!ok()) return {};
  const std::int64_t step = bounds[2].is_number() ? bounds[2].integer() : 1;
  if (of.is(Kind::undefined)) return fail(node.at, "a slice of an undefined value");
  if (of.is(Kind::name_space) || of.is(Kind::loop) || of.is(Kind::function))
    return refuse(node.at, "a slice of " + std::string(of.type()));
  if (of.is(Kind::string)) {
    if (step == 0) return fail(node.at, "the step of a slice is 0");
    const Text& text = of.text();
    if (!spend(node.at, text.size() / 4)) return {};
    return make(node.at, sliced(text, slice_of(count_characters(text.bytes), bounds[0], bounds[1], step)));
  }
  if (!of.is(Kind::list) || of.list().form > List::Form::range)
    return fail(node.at, "a slice of " + std::string(of.is(Kind::list) ? "what is no list" : of.type()));
  if (step == 0) return fail(node.at, "the step of a slice is 0");
  if (!spend(node.at, of.list().items.size() / 8)) return {};
  List result{.form = of.list().form};
  const Slice slice = slice_of(of.list().items.size(), bounds[0], bounds[1], step);
  for (std::size_t i = 0; i < slice.count; ++i)
    result.items.push_back(
        of.list().items[static_cast<std::size_t>(slice.first + static_cast<std::int64_t>(i) * slice.step)]);
  return make(node.at, std::move(result));
}

bool Evaluation::items(std::uint32_t at, const Value& value, std::vector<Value>& out) {
  if (!ok()) return false;
  if (value.is(Kind::undefined)) return true;
  if (value.is(Kind::list)) {
    const List& list = value.list();
    if (list.form == List::Form::iterator && std::exchange(*list.is_used, true))
      refuse(at, "walking twice over what a filter gives");
    if (!spend(at, list.items.size())) return false;
    out = list.items;
  } else if (value.is(Kind::dict)) {
    for (const auto& member : value.dict().members) out.push_back(make(at, member.first));
  } else if (value.is(Kind::string)) {
    const Text& text = value.text();
    for (std::size_t i = 0, length = 0; i < text.size() && spend(at); i += length) {
      length = first_character(std::string_view(text.bytes).substr(i));
      out.push_back(make(at, text.substr(i, length)));
    }
  } else {
    fail(at, "the items of " + std::string(value.type()) + ", which has none");
  }
  return ok();
}

bool Evaluation::equal(std::uint32_t at, const Value& a, const Value& b) {
  if (!spend(at)) return false;
  if (a.is_number() && b.is_number()) return a.integer() == b.integer();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::string: return spend_on_both(at, a.text().bytes, b.text().bytes) && a.text().bytes == b.text().bytes;
    case Kind::list: {
      const List &x = a.list(), &y = b.list();
      if (x.form > List::Form::tuple || y.form > List::Form::tuple) {
        refuse(at, "comparing what is no list");
        return false;
      }
      if (x.form != y.form || x.items.size() != y.items.size()) return false;
      for (std::size_t i = 0; i < x.items.size(); ++i)
        if (!equal(at, x.items[i], y.items[i])) return false;
      return true;
    }
    case Kind::dict:
      if (a.dict().members.size() != b.dict().members.size()) return false;
      for (const auto& [key, value] : a.dict().members) {
        const Value* other = member(at, b.dict(), key.bytes);
        if (!ok() || other == nullptr || !equal(at, value, *other)) return false;
      }
      return true;
    case Kind::name_space: return &a.name_space() == &b.name_space();
    case Kind::loop: return &a.loop() == &b.loop();
    case Kind::function: return &a.function() == &b.function();
    default: return true;  // undefined or none
  }
}

bool Evaluation::less(std::uint32_t at, const Value& a, const Value& b) {
  if (!ok()) return false;
  if (a.is_number() && b.is_number()) return a.integer() < b.integer();
  if (a.is(Kind::string) && b.is(Kind::string))
    return spend_on_both(at, a.text().bytes, b.text().bytes) && a.text().bytes < b.text().bytes;
  if (a.is(Kind::list) && b.is(Kind::list))
    refuse(at, "the order of lists");
  else
    fail(at, "the order of " + std::string(a.type()) + " and " + std::string(b.type()));
  return false;
}

bool Evaluation::contains(std::uint32_t at, const Value& in, const Value& what) {
  if (!ok()) return false;
  if (in.is(Kind::string)) {
    if (!what.is(Kind::string)) {
      fail(at, "'in' of " + std::string(what.type()) + " and a string");
      return false;
    }
    return spend(at, in.text().size() / 16) && find_text(in.text().bytes, what.text().bytes) != std::string::npos;
  }
  if (in.is(Kind::dict)) {
    if (what.is(Kind::list) || what.is(Kind::dict)) fail(at, "'in' of " + std::string(what.type()) + " and a dict");
    return what.is(Kind::string) && member(at, in.dict(), what.text().bytes) != nullptr;
  }
  std::vector<Value> all;
  if (!items(at, in, all)) return false;
  for (const Value& each : all)
    if (equal(at, each, what)) return true;
  return false;
}

}  // namespace inlay::exec::chat
