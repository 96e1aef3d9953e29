#include "executor/text/chat/value.hpp"

#include <algorithm>

namespace inlay::exec::chat {

Value Value::of(List list) {
  for (const Value& item : list.items) list.depth = std::max(list.depth, item.depth() + 1);
  if (list.form == List::Form::iterator && !list.is_used) list.is_used = std::make_shared<bool>(false);
  return Value(Data(std::make_shared<const List>(std::move(list))));
}

Value Value::of(Dict dict) {
  for (const auto& [key, value] : dict.members) dict.depth = std::max(dict.depth, value.depth() + 1);
  return Value(Data(std::make_shared<const Dict>(std::move(dict))));
}

bool Value::is_true() const {
  switch (kind()) {
    case Kind::undefined:
    case Kind::none: return false;
    case Kind::boolean: return boolean();
    case Kind::integer: return integer() != 0;
    case Kind::string: return text().size() > 0;
    case Kind::list: return list().form == List::Form::iterator || !list().items.empty();
    case Kind::dict: return !dict().members.empty();
    case Kind::name_space:
    case Kind::loop:
    case Kind::function: return true;
  }
  return false;
}

int Value::depth() const { return is(Kind::list) ? list().depth : is(Kind::dict) ? dict().depth : 0; }

std::string_view Value::type() const {
  constexpr std::string_view names[] = {"undefined", "none",   "a boolean",   "an integer", "a string",
                                        "a list",    "a dict", "a namespace", "a loop",     "a function"};
  return names[static_cast<int>(kind())];
}

}  // namespace inlay::exec::chat
