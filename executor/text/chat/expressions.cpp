// What expressions come to, by Python's rules.
#include <algorithm>
#include <optional>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/evaluation.hpp"

namespace inlay::exec::chat {

using NodeKind = Node::Kind;

Value Evaluation::evaluate(const Node& node) {
  const Depth depth(*this, node.at);
  if (!spend(node.at)) return {};
  switch (node.kind) {
    case NodeKind::constant: return node.constant;
    case NodeKind::name: return named(node.text);
    case NodeKind::list:
    case NodeKind::tuple: return evaluate_list(node);
    case NodeKind::dict: return evaluate_dict(node);
    case NodeKind::not_: return Value::of(!evaluate(*node.parts[0]).is_true());
    case NodeKind::minus:
    case NodeKind::plus: {
      const Value value = evaluate(*node.parts[0]);
      if (!value.is_number()) return fail(node.at, "the sign of " + std::string(value.type()));
      std::int64_t result = 0;
      if (__builtin_sub_overflow(std::int64_t{0}, value.integer(), &result))
        return refuse(node.at, "so large a number");
      return Value::of(node.kind == NodeKind::minus ? result : value.integer());
    }
    case NodeKind::binary: return evaluate_binary(node);
    case NodeKind::concat: return evaluate_concat(node);
    case NodeKind::compare: return evaluate_compare(node);
    case NodeKind::and_:
    case NodeKind::or_: {
      Value left = evaluate(*node.parts[0]);
      return left.is_true() == (node.kind == NodeKind::or_) ? left : evaluate(*node.parts[1]);
    }
    case NodeKind::condition: {
      const bool first = evaluate(*node.parts[1]).is_true();
      const NodePtr& chosen = node.parts[first ? 0 : 2];
      return chosen ? evaluate(*chosen) : Value();
    }
    case NodeKind::attribute: return attribute(node.at, evaluate(*node.parts[0]), node.text);
    case NodeKind::item: {
      const Value of = evaluate(*node.parts[0]);
      return item(node.at, of, evaluate(*node.parts[1]));
    }
    case NodeKind::slice: return evaluate_slice(node);
    case NodeKind::filter:
    case NodeKind::test:
    case NodeKind::method: return evaluate_builtin(node);
    case NodeKind::call: return evaluate_call(node);
    case NodeKind::name_space:
    case NodeKind::make_dict: return evaluate_names(node);
  }
  return {};
}

Value Evaluation::named(std::string_view name) {
  if (const Value* value = find(name)) return *value;
  const Builtin* builtin = find_function(name);
  if (builtin == nullptr) return {};
  return Value::of(&functions_.try_emplace(builtin, Function{builtin->name, builtin, nullptr}).first->second);
}

Value Evaluation::evaluate_list(const Node& node) {
  List list{.form = node.kind == NodeKind::tuple ? List::Form::tuple : List::Form::list};
  for (const NodePtr& part : node.parts) list.items.push_back(evaluate(*part));
  return make(node.at, std::move(list));
}

Value Evaluation::evaluate_dict(const Node& node) {
  Dict dict;
  for (std::size_t i = 0; i < node.parts.size() && ok(); i += 2) {
    const Value key = evaluate(*node.parts[i]);
    if (!key.is(Value::Kind::string)) return refuse(node.parts[i]->at, "a key of a dict that is no string");
    Value value = evaluate(*node.parts[i + 1]);
    if (!spend_on_lookup(node.at, dict, key.text().bytes)) return {};
    dict.set(key.text(), std::move(value));
  }
  return make(node.at, std::move(dict));
}

Value Evaluation::evaluate_binary(const Node& node) {
  const Value a = evaluate(*node.parts[0]), b = evaluate(*node.parts[1]);
  if (!ok()) return {};
  if (node.text == "+") return add(node, a, b);
  if (node.text == "*") return times(node, a, b);
  if (node.text == "%" && a.is(Value::Kind::string)) return refuse(node.at, "formatting by '%'");
  if (!a.is_number() || !b.is_number())
    return fail(node.at, quote(node.text) + " of " + std::string(a.type()) + " and " + std::string(b.type()));
  const std::int64_t x = a.integer(), y = b.integer();
  std::int64_t result = 0;
  if (node.text == "-")
    return __builtin_sub_overflow(x, y, &result) ? refuse(node.at, "so large a number") : Value::of(result);
  if (y == 0) return fail(node.at, "a division by zero");
  if (y == -1 && x == INT64_MIN) return refuse(node.at, "so large a number");
  const bool down = x % y != 0 && (x % y < 0) != (y < 0);  // Python rounds towards minus infinity
  return Value::of(node.text == "%" ? x % y + (down ? y : 0) : x / y - (down ? 1 : 0));
}

Value Evaluation::add(const Node& node, const Value& a, const Value& b) {
  using List = chat::List;
  if (a.is(Value::Kind::string) && b.is(Value::Kind::string)) {
    Text text = a.text();
    text.append(b.text());
    return make(node.at, std::move(text));
  }
  if (a.is(Value::Kind::list) && b.is(Value::Kind::list) && a.list().form == b.list().form &&
      a.list().form <= List::Form::tuple) {
    if (!spend(node.at, a.list().items.size() + b.list().items.size())) return {};
    List both{.items = a.list().items, .form = a.list().form};
    both.items.insert(both.items.end(), b.list().items.begin(), b.list().items.end());
    return make(node.at, std::move(both));
  }
  if (!a.is_number() || !b.is_number())
    return fail(node.at, "'+' of " + std::string(a.type()) + " and " + std::string(b.type()));
  std::int64_t sum = 0;
  return __builtin_add_overflow(a.integer(), b.integer(), &sum) ? refuse(node.at, "so large a number") : Value::of(sum);
}

Value Evaluation::times(const Node& node, const Value& a, const Value& b) {
  if (a.is_number() && !b.is_number()) return times(node, b, a);
  if (a.is(Value::Kind::string) && b.is_number()) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(b.integer(), 0));
    if (a.text().size() > 0 && count > static_cast<std::size_t>(left_.bytes) / a.text().size())
      return fail(node.at, "the template makes more text than is allowed");
    Text text;
    for (std::size_t i = 0; i < count && a.text().size() > 0 && spend(node.at); ++i) text.append(a.text());
    return make(node.at, std::move(text));
  }
  if (a.is(Value::Kind::list) && b.is_number() && a.list().form <= List::Form::tuple) {
    List many{.form = a.list().form};
    if (!a.list().items.empty())
      for (std::int64_t i = 0; i < b.integer() && spend(node.at, a.list().items.size()); ++i)
        many.items.insert(many.items.end(), a.list().items.begin(), a.list().items.end());
    return make(node.at, std::move(many));
  }
  if (!a.is_number() || !b.is_number())
    return fail(node.at, "'*' of " + std::string(a.type()) + " and " + std::string(b.type()));
  std::int64_t product = 0;
  return __builtin_mul_overflow(a.integer(), b.integer(), &product) ? refuse(node.at, "so large a number")
                                                                    : Value::of(product);
}

Value Evaluation::evaluate_concat(const Node& node) {
  Text text;
  for (const NodePtr& part : node.parts) {
    text.append(str(part->at, evaluate(*part)));
    if (!may_be_made(part->at, text)) return {};
  }
  return make(node.at, std::move(text));
}

Value Evaluation::evaluate_compare(const Node& node) {
  Value left = evaluate(*node.parts[0]);
  for (std::size_t i = 0; i < node.names.size(); ++i) {
    const Value right = evaluate(*node.parts[i + 1]);
    if (!ok()) return {};
    const std::string_view op = node.names[i];
    const bool holds = op == "=="   ? equal(node.at, left, right)
                       : op == "!=" ? !equal(node.at, left, right)
                       : op == "<"  ? less(node.at, left, right)
                       : op == ">"  ? less(node.at, right, left)
                       : op == "<=" ? !less(node.at, right, left)
                       : op == ">=" ? !less(node.at, left, right)
                       : op == "in" ? contains(node.at, right, left)
                                    : !contains(node.at, right, left);
    if (!holds) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

Value Evaluation::evaluate_builtin(const Node& node) {
  Call call{
      .run = *this, .at = node.at, .builtin = *node.builtin, .subject = evaluate(*node.parts[0]), .inner = node.inner};
  for (std::size_t i = 1; i < node.parts.size(); ++i)
    if (node.parts[i]) call.values[i - 1] = evaluate(*node.parts[i]), call.given[i - 1] = true;
  return ok() ? node.builtin->call(call) : Value();
}

Value Evaluation::evaluate_names(const Node& node) {
  Dict dict;
  for (std::size_t i = 0; i < node.parts.size(); ++i)  // no name is there twice
    dict.members.emplace_back(Text{std::string(node.names[i])}, evaluate(*node.parts[i]));
  if (node.kind == NodeKind::make_dict || !ok()) return make(node.at, std::move(dict));
  auto made = std::make_shared<Namespace>();
  for (auto& [name, value] : dict.members) {
    if (!may_be_kept(node.at, value)) return {};
    made->attributes.emplace_back(name.bytes, std::move(value));
  }
  return Value::of(std::move(made));
}

Value Evaluation::evaluate_call(const Node& node) {
  const Value callee = named(node.text);
  if (!callee.is(Value::Kind::function))
    return fail(node.at, quote(node.text) + " is " + std::string(callee.type()) + "; only functions can be called");
  std::vector<Value> values;
  for (const NodePtr& part : node.parts) values.push_back(evaluate(*part));
  if (!ok()) return {};
  const Function& function = callee.function();
  if (function.macro != nullptr) return evaluate_macro(node, *function.macro, std::move(values));
  const Builtin& builtin = *function.builtin;
  if (builtin.call == nullptr || !node.names.empty() || values.size() < builtin.required ||
      values.size() > builtin.count())
    return refuse(node.at, "such arguments of " + quote(node.text));
  Call call{.run = *this, .at = node.at, .builtin = builtin, .subject = {}};
  for (std::size_t i = 0; i < values.size(); ++i) call.values[i] = std::move(values[i]), call.given[i] = true;
  return builtin.call(call);
}

Value Evaluation::evaluate_macro(const Node& node, const Statement& macro, std::vector<Value> values) {
  const std::size_t count = macro.targets.size(), positional = values.size() - node.names.size();
  if (positional > count) return fail(node.at, "the macro " + quote(macro.text) + " has no parameter for an argument");
  if (!spend(node.at, count * (1 + node.names.size() / 8))) return {};
  std::vector<std::optional<Value>> given(count);
  for (std::size_t i = 0; i < positional; ++i) given[i] = std::move(values[i]);
  for (std::size_t i = 0; i < node.names.size(); ++i) {
    const auto at = std::find(macro.targets.begin(), macro.targets.end(), node.names[i]) - macro.targets.begin();
    if (static_cast<std::size_t>(at) == count || given[static_cast<std::size_t>(at)])
      return fail(node.at, "the macro " + quote(macro.text) + " cannot take the argument " + quote(node.names[i]));
    given[static_cast<std::size_t>(at)] = std::move(values[positional + i]);
  }
  Text outer = std::exchange(output_, {});
  scopes_.emplace_back();
  scopes_.back().of_macro = true;
  const std::size_t first_default = count - macro.defaults.size();
  for (std::size_t i = 0; i < count; ++i)
    assign(macro.targets[i], given[i]             ? std::move(*given[i])
                             : i >= first_default ? evaluate(*macro.defaults[i - first_default])
                                                  : Value());
  run(macro.body);
  scopes_.pop_back();
  return make(node.at, std::exchange(output_, std::move(outer)));
}

}  // namespace inlay::exec::chat
