// Operands: names and constants, what is called or looked up on them, filters and tests.
#include <algorithm>
#include <charconv>
#include <set>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/builtins.hpp"
#include "executor/text/chat/expression_parser.hpp"

namespace inlay::exec::chat {

using NodeKind = Node::Kind;
using Type = Token::Type;

NodePtr ExpressionParser::primary() {
  const Token token = peek();
  if (token.type == Type::string) return string();
  if (token.type == Type::integer) {
    next();
    std::int64_t value = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    NodePtr node = make(NodeKind::constant, token);
    node->constant = Value::of(value);
    return node;
  }
  if (token.type == Type::name) {
    next();
    NodePtr node = make(NodeKind::constant, token);
    if (token.text == "true" || token.text == "True") {
      node->constant = Value::of(true);
    } else if (token.text == "false" || token.text == "False") {
      node->constant = Value::of(false);
    } else if (token.text == "none" || token.text == "None") {
      node->constant = Value::none();
    } else {
      node->kind = NodeKind::name;
      for (const std::string_view known :
           {"lipsum", "cycler", "joiner", "self", "super", "caller", "varargs", "kwargs"})
        if (token.text == known) refuse(token, "the name " + quote(known));
      for (const std::string_view word : {"and", "or", "not", "if", "else", "in", "is", "for", "elif"})
        if (token.text == word) fail(token, "unexpected " + quote(word));
      uses_loop_ = uses_loop_ || token.text == "loop";
      names_.read(token.text);
    }
    return node;
  }
  if (is("(")) return bracketed(token);
  if (is("[")) return list(token);
  if (is("{")) return dict(token);
  if (ok())
    fail(token, token.type == Type::end ? std::string("a value is missing") : "unexpected " + quote(token.text));
  return make(NodeKind::constant, token);
}

// Strings that follow one another are one.
NodePtr ExpressionParser::string() {
  NodePtr node = make(NodeKind::constant, peek());
  std::string all;
  for (; ok() && peek().type == Type::string; next()) {
    auto text = unquote(*program_.source, peek());
    if (text)
      all += *text;
    else
      status_ = std::move(text.error());
  }
  program_.literals.push_back(all);
  node->constant = Value::of(std::string_view(all));
  return node;
}

NodePtr ExpressionParser::bracketed(const Token& token) {
  next();
  if (is(")")) refuse(token, "an empty tuple");
  if (++depth_ > deepest_expression) refuse(token, "an expression deeper than " + std::to_string(deepest_expression));
  NodePtr node = tuple_or_expression(true);
  --depth_;
  expect_symbol(")");
  return node;
}

NodePtr ExpressionParser::list(const Token& token) {
  std::vector<NodePtr> items;
  next();
  while (ok() && !is("]")) {
    items.push_back(expression());
    if (!is(",")) break;
    next();
  }
  expect_symbol("]");
  return make(NodeKind::list, token, std::move(items));
}

NodePtr ExpressionParser::dict(const Token& token) {
  std::vector<NodePtr> members;
  next();
  while (ok() && !is("}")) {
    members.push_back(expression());
    expect_symbol(":");
    members.push_back(expression());
    if (!is(",")) break;
    next();
  }
  expect_symbol("}");
  return make(NodeKind::dict, token, std::move(members));
}

NodePtr ExpressionParser::postfix(NodePtr node) {
  while (ok()) {
    if (is("."))
      node = attribute(std::move(node));
    else if (is("["))
      node = subscript(std::move(node));
    else if (is("("))
      node = call(std::move(node));
    else
      break;
  }
  return node;
}

NodePtr ExpressionParser::attribute(NodePtr subject) {
  next();
  const Token token = peek();
  if (token.type == Type::integer) {
    NodePtr index = primary();
    return make(NodeKind::item, token, nodes(std::move(subject), std::move(index)));
  }
  name("the name of an attribute");
  if (token.text.starts_with("_")) refuse(token, "an attribute with a leading underscore");
  if (!is("(")) return make(NodeKind::attribute, token, nodes(std::move(subject)));
  const Builtin* method = find_method(token.text);
  if (method == nullptr) {
    refuse(token, "the method " + quote(token.text));
    return subject;
  }
  NodePtr node = make(NodeKind::method, token, nodes(std::move(subject)));
  bind(*node, *method, arguments(), token);
  return node;
}

NodePtr ExpressionParser::subscript(NodePtr subject) {
  const Token token = peek();
  next();
  std::vector<NodePtr> parts = nodes(std::move(subject));
  bool slice = false;
  for (std::size_t i = 0; i < 3 && ok(); ++i) {
    parts.push_back(is(":") || is("]") ? NodePtr() : expression());
    if (!is(":") || i == 2) break;
    slice = true;
    next();
  }
  if (is(",")) refuse(peek(), "an index of several values");
  if (!slice && ok() && !parts.back()) fail(token, "the index is missing");
  expect_symbol("]");
  if (slice) parts.resize(4);
  return make(slice ? NodeKind::slice : NodeKind::item, token, std::move(parts));
}

std::vector<ExpressionParser::Argument> ExpressionParser::arguments() {
  std::vector<Argument> all;
  expect_symbol("(");
  while (ok() && !is(")")) {
    Argument argument{.name = {}, .token = peek(), .value = {}};
    if (is("*") || is("**")) refuse(peek(), "an argument with " + quote(peek().text));
    if (peek().type == Type::name && peek(1).type == Type::symbol && peek(1).text == "=") {
      argument.name = peek().text;
      next(), next();
    } else if (!all.empty() && !all.back().name.empty()) {
      fail(peek(), "an argument by position follows one by name");
    }
    argument.value = expression();
    all.push_back(std::move(argument));
    if (!is(",")) break;
    next();
  }
  expect_symbol(")");
  return all;
}

NodePtr ExpressionParser::call(NodePtr callee) {
  Token token = peek();
  token.at = callee->at;
  if (callee->kind != NodeKind::name) {
    refuse(token, "a call of anything but a name or a method");
    return callee;
  }
  const std::string_view called = callee->text;
  const bool maker = called == "namespace" || called == "dict";
  if (!maker && find_function(called) == nullptr && std::find(macros_.begin(), macros_.end(), called) == macros_.end())
    refuse(token, "the function " + quote(called));
  std::vector<Argument> given = arguments();
  std::vector<NodePtr> parts;
  std::vector<std::string_view> names;
  std::set<std::string_view> known;
  for (Argument& argument : given) {
    if (maker && argument.name.empty()) refuse(argument.token, "an argument of " + quote(called) + " without a name");
    if (called == "namespace" && argument.name.starts_with("_"))
      refuse(argument.token, "an attribute with a leading underscore");
    if (!argument.name.empty() && !known.insert(argument.name).second)
      fail(argument.token, "the argument " + quote(argument.name) + " is given twice");
    if (!argument.name.empty()) names.push_back(argument.name);
    parts.push_back(std::move(argument.value));
  }
  NodePtr node = make(called == "namespace" ? NodeKind::name_space
                      : called == "dict"    ? NodeKind::make_dict
                                            : NodeKind::call,
                      token, std::move(parts));
  node->text = called;
  node->names = std::move(names);
  return node;
}

NodePtr ExpressionParser::filters_and_tests(NodePtr node) {
  while (ok()) {
    if (is("|"))
      node = filter(std::move(node));
    else if (is("is"))
      node = test(std::move(node));
    else if (is("("))
      node = call(std::move(node));
    else
      break;
  }
  return node;
}

void ExpressionParser::bind(Node& node, const Builtin& builtin, std::vector<Argument> given, const Token& token) {
  node.builtin = &builtin;
  node.parts.resize(1 + builtin.count());
  std::size_t position = 0;
  for (Argument& argument : given) {
    std::size_t at = position++;
    if (!argument.name.empty()) {
      at = 0;
      while (at < builtin.count() && builtin.parameters[at] != argument.name) ++at;
    }
    if (at >= builtin.count() || (!argument.name.empty() && !builtin.by_name))
      return refuse(argument.token, argument.name.empty()
                                        ? "argument " + std::to_string(at + 1) + " of " + quote(builtin.name)
                                        : "the argument " + quote(argument.name) + " of " + quote(builtin.name));
    if (node.parts[at + 1]) return fail(argument.token, "an argument of " + quote(builtin.name) + " is given twice");
    if (argument.value) node.depth = std::max(node.depth, argument.value->depth + 1);
    node.parts[at + 1] = std::move(argument.value);
  }
  for (std::size_t i = 0; i < builtin.required; ++i)
    if (!node.parts[i + 1])
      return fail(token, "the argument " + quote(builtin.parameters[i]) + " of " + quote(builtin.name) + " is missing");
  if (node.depth > deepest_expression) refuse(token, "an expression deeper than " + std::to_string(deepest_expression));
}

// The name of the test or filter that a filter applies to each item: it must stand there as a string.
void ExpressionParser::take_inner(Node& node, std::vector<Argument>& given) {
  const bool map = node.text == "map";
  const std::size_t at = node.text.ends_with("attr") ? 1 : 0;
  if (given.size() <= at || !given[at].name.empty()) return;
  const Argument argument = std::move(given[at]);
  given.erase(given.begin() + static_cast<std::ptrdiff_t>(at));
  if (!ok()) return;
  if (argument.value->kind != NodeKind::constant || !argument.value->constant.is(Value::Kind::string))
    return refuse(argument.token, std::string("the name of a ") + (map ? "filter" : "test") + " that is no string");
  const std::string& named = argument.value->constant.text().bytes;
  node.inner = map ? find_filter(named) : find_test(named);
  if (node.inner == nullptr)
    return refuse(argument.token, std::string(map ? "the filter " : "the test ") + quote(named));
  if (node.inner->required > (map ? 0 : 1))
    return refuse(argument.token, std::string(map ? "the filter " : "the test ") + quote(named) + " for each item");
}

NodePtr ExpressionParser::filter(NodePtr subject) {
  next();
  const Token token = peek();
  name("the name of a filter");
  const Builtin* builtin = find_filter(token.text);
  if (builtin == nullptr) {
    refuse(token, "the filter " + quote(token.text));
    return subject;
  }
  NodePtr node = make(NodeKind::filter, token, nodes(std::move(subject)));
  std::vector<Argument> given;
  if (is("(")) given = arguments();
  for (const std::string_view each : {"map", "select", "reject", "selectattr", "rejectattr"})
    if (token.text == each) take_inner(*node, given);
  bind(*node, *builtin, std::move(given), token);
  return node;
}

NodePtr ExpressionParser::test(NodePtr subject) {
  next();
  const bool negated = is("not");
  if (negated) next();
  const Token token = peek();
  name("the name of a test");
  const Builtin* builtin = find_test(token.text);
  if (builtin == nullptr) {
    refuse(token, "the test " + quote(token.text));
    return subject;
  }
  NodePtr node = make(NodeKind::test, token, nodes(std::move(subject)));
  std::vector<Argument> given;
  const Type type = peek().type;
  if (is("(")) {
    given = arguments();
  } else if (is("is")) {
    fail(peek(), "a test of a test");
  } else if (type == Type::string || type == Type::integer || is("[") || is("{") ||
             (type == Type::name && !is("else") && !is("or") && !is("and"))) {
    Argument argument{.name = {}, .token = peek(), .value = {}};
    argument.value = postfix(primary());
    given.push_back(std::move(argument));
  }
  bind(*node, *builtin, std::move(given), token);
  return negated ? make(NodeKind::not_, token, nodes(std::move(node))) : std::move(node);
}

}  // namespace inlay::exec::chat
