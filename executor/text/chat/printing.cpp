// Values as text: Python's str() and repr(), and JSON as its json.dumps writes it.
#include <algorithm>
#include <cstdio>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/evaluation.hpp"

namespace inlay::exec::chat {

using Kind = Value::Kind;

namespace {

constexpr char digits[] = "0123456789abcdef";

std::string escape(unsigned value, int width, char kind) {
  std::string out{'\\', kind};
  for (int i = width - 1; i >= 0; --i) out += digits[value >> 4 * i & 15];
  return out;
}

std::string plain(const Value& value) {
  if (value.is(Kind::none)) return "None";
  if (value.is(Kind::boolean)) return value.boolean() ? "True" : "False";
  return std::to_string(value.integer());
}

// A character of two bytes or more.
unsigned code_point(std::string_view character) {
  unsigned value = static_cast<unsigned char>(character[0]) & (0xffu >> (character.size() + 1));
  for (const char c : character.substr(1)) value = value << 6 | (static_cast<unsigned char>(c) & 0x3fu);
  return value;
}

}  // namespace

Text Evaluation::str(std::uint32_t at, const Value& value) {
  switch (value.kind()) {
    case Kind::undefined: return {};
    case Kind::none:
    case Kind::boolean:
    case Kind::integer: return {plain(value)};
    case Kind::string: return spend(at, value.text().size() / bytes_of_step) ? value.text() : Text();
    default: break;
  }
  Text out;
  repr(at, value, out);
  return out;
}

// As Python shows a value within a list.
void Evaluation::repr(std::uint32_t at, const Value& value, Text& out) {
  if (!spend(at)) return;
  const auto list = [&](const auto& items, char open, char close, const auto& write) {
    out.append({&open, 1});
    for (std::size_t i = 0; i < items.size() && ok(); ++i) {
      if (i > 0) out.append(", ");
      write(items[i]);
    }
    out.append({&close, 1});
  };
  switch (value.kind()) {
    case Kind::undefined: return out.append("Undefined");
    case Kind::none:
    case Kind::boolean:
    case Kind::integer: return out.append(plain(value));
    case Kind::list:
      if (value.list().form > List::Form::tuple) break;
      if (value.list().form == List::Form::list)
        return list(value.list().items, '[', ']', [&](const Value& item) { repr(at, item, out); });
      list(value.list().items, '(', value.list().items.size() == 1 ? ',' : ')',
           [&](const Value& item) { repr(at, item, out); });
      if (value.list().items.size() == 1) out.append(")");
      return;
    case Kind::dict:
      return list(value.dict().members, '{', '}', [&](const auto& member) {
        repr(at, Value::of(member.first), out);
        out.append(": ");
        repr(at, member.second, out);
      });
    case Kind::string: {
      const Text& text = value.text();
      left_.bytes -= static_cast<std::int64_t>(text.size());
      if (left_.bytes < 0) fail(at, "the template makes more text than is allowed");
      if (!is_ascii(text.bytes)) refuse(at, "printing a list with letters outside ASCII");
      const bool twice = text.bytes.find('\'') != std::string::npos && text.bytes.find('"') == std::string::npos;
      const char mark = twice ? '"' : '\'';
      out.append({&mark, 1});
      for (std::size_t i = 0; i < text.size() && may_be_made(at, out); ++i) {
        const char c = text.bytes[i];
        const std::string_view known = "\n\r\t\\", names = "nrt\\";
        if (const std::size_t n = known.find(c); n != std::string_view::npos)
          out.append(std::string{'\\', names[n]}, text.is_typed(i));
        else if (c == mark)
          out.append(std::string{'\\', c}, text.is_typed(i));
        else if (c < ' ' || c == 0x7f)
          out.append(escape(static_cast<unsigned char>(c), 2, 'x'), text.is_typed(i));
        else
          out.append({&c, 1}, text.is_typed(i));
      }
      return out.append({&mark, 1});
    }
    default: break;
  }
  refuse(at, "printing " + std::string(value.is(Kind::list) ? "what a filter or a method gives" : value.type()));
}

Text Evaluation::json(std::uint32_t at, const Value& value, std::int64_t indent, bool ascii) {
  Text out;
  write_json(at, value, indent, ascii, 0, out);
  return out;
}

// `indent`: blanks of a level; negative: all in one line.
void Evaluation::write_json(std::uint32_t at, const Value& value, std::int64_t indent, bool ascii, int level,
                            Text& out) {
  if (!spend(at)) return;
  const auto list = [&](const auto& items, char open, char close, const auto& write) {
    const auto line = [&](int depth) {
      if (indent < 0) return;
      out.append("\n" + std::string(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' '));
      left_.bytes -= indent * depth;
      if (left_.bytes < 0) fail(at, "the template makes more text than is allowed");
    };
    out.append({&open, 1});
    for (std::size_t i = 0; i < items.size() && ok(); ++i) {
      if (i > 0) out.append(indent < 0 ? ", " : ",");
      line(level + 1);
      write(items[i]);
    }
    if (!items.empty()) line(level);
    out.append({&close, 1});
  };
  switch (value.kind()) {
    case Kind::none: return out.append("null");
    case Kind::boolean: return out.append(value.boolean() ? "true" : "false");
    case Kind::integer: return out.append(std::to_string(value.integer()));
    case Kind::list:
      if (value.list().form > List::Form::tuple) break;
      return list(value.list().items, '[', ']',
                  [&](const Value& item) { write_json(at, item, indent, ascii, level + 1, out); });
    case Kind::dict:
      return list(value.dict().members, '{', '}', [&](const auto& member) {
        write_json(at, Value::of(member.first), indent, ascii, level + 1, out);
        out.append(": ");
        write_json(at, member.second, indent, ascii, level + 1, out);
      });
    case Kind::string: {
      const Text& text = value.text();
      left_.bytes -= static_cast<std::int64_t>(text.size());
      if (left_.bytes < 0) fail(at, "the template makes more text than is allowed");
      out.append("\"");
      for (std::size_t i = 0, length = 0; i < text.size() && may_be_made(at, out); i += length) {
        const std::string_view rest = std::string_view(text.bytes).substr(i);
        length = first_character(rest);
        const char c = rest[0];
        constexpr std::string_view known = "\n\r\t\b\f\\\"", names = "nrtbf\\\"";
        if (const std::size_t n = known.find(c); n != std::string_view::npos) {
          out.append(std::string{'\\', names[n]}, text.is_typed(i));
        } else if (static_cast<unsigned char>(c) < 0x20 || (ascii && c == 0x7f)) {
          out.append(escape(static_cast<unsigned char>(c), 4, 'u'), text.is_typed(i));
        } else if (ascii && length > 1) {
          const unsigned point = code_point(rest.substr(0, length));
          if (point >= 0x10000)
            out.append(escape(0xd800 + (point - 0x10000) / 0x400, 4, 'u') + escape(0xdc00 + (point & 0x3ff), 4, 'u'),
                       text.is_typed(i));
          else
            out.append(escape(point, 4, 'u'), text.is_typed(i));
        } else {
          out.append(rest.substr(0, length), text.is_typed(i));
        }
      }
      return out.append("\"");
    }
    default: break;
  }
  fail(at, "JSON of " + std::string(value.is(Kind::list) ? "what is no list" : value.type()));
}

}  // namespace inlay::exec::chat
