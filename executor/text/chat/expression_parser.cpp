#include "executor/text/chat/expression_parser.hpp"

#include <algorithm>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/builtins.hpp"

namespace inlay::exec::chat {

using NodeKind = Node::Kind;
using Type = Token::Type;

void ExpressionParser::stop(const Token& token, StatusCode code, const std::string& what) {
  if (status_.ok()) status_ = {code, place(*program_.source, token.at) + what};
}

void ExpressionParser::expect(Type type, const char* what) {
  if (ok() && peek().type != type)
    fail(peek(), peek().type == Type::end ? std::string(what) + " is missing"
                                          : "unexpected " + quote(peek().text) + "; " + what + " is missing");
  next();
}

void ExpressionParser::expect_symbol(std::string_view symbol) {
  if (ok() && !is(symbol)) fail(peek(), "unexpected " + quote(peek().text) + "; " + quote(symbol) + " is missing");
  next();
}

std::string_view ExpressionParser::name(const char* what) {
  const std::string_view text = peek().text;
  expect(Type::name, what);
  return text;
}

void ExpressionParser::find_macros() {
  for (std::size_t i = 0; i + 2 < tokens_.size(); ++i)
    if (tokens_[i].type == Type::block_begin && tokens_[i + 1].text == "macro") macros_.push_back(tokens_[i + 2].text);
}

NodePtr ExpressionParser::make(NodeKind kind, const Token& token, std::vector<NodePtr> parts) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->at = token.at;
  node->text = token.text;
  for (const NodePtr& part : parts)
    if (part) node->depth = std::max(node->depth, part->depth + 1);
  if (node->depth > deepest_expression)
    refuse(token, "an expression deeper than " + std::to_string(deepest_expression));
  node->parts = std::move(parts);
  return node;
}

NodePtr ExpressionParser::expression() {
  if (++depth_ > deepest_expression) refuse(peek(), "an expression deeper than " + std::to_string(deepest_expression));
  NodePtr node = condition();
  --depth_;
  return node;
}

NodePtr ExpressionParser::tuple_or_expression(bool conditions) {
  const Token token = peek();
  const auto item = [&] { return conditions ? expression() : or_(); };
  NodePtr first = item();
  if (!is(",")) return first;
  std::vector<NodePtr> items = nodes(std::move(first));
  while (ok() && is(",")) {
    next();
    if (peek().type == Type::block_end || is(")")) break;
    items.push_back(item());
  }
  return make(NodeKind::tuple, token, std::move(items));
}

NodePtr ExpressionParser::condition() {
  NodePtr node = or_();
  while (ok() && is("if")) {
    const Token token = peek();
    next();
    NodePtr condition = or_(), otherwise;
    if (is("else")) {
      next();
      otherwise = expression();
    }
    node = make(NodeKind::condition, token, nodes(std::move(node), std::move(condition), std::move(otherwise)));
  }
  return node;
}

NodePtr ExpressionParser::or_() {
  NodePtr node = and_();
  while (ok() && is("or")) {
    const Token token = peek();
    next();
    NodePtr right = and_();
    node = make(NodeKind::or_, token, nodes(std::move(node), std::move(right)));
  }
  return node;
}

NodePtr ExpressionParser::and_() {
  NodePtr node = not_();
  while (ok() && is("and")) {
    const Token token = peek();
    next();
    NodePtr right = not_();
    node = make(NodeKind::and_, token, nodes(std::move(node), std::move(right)));
  }
  return node;
}

NodePtr ExpressionParser::not_() {
  std::vector<Token> nots;
  for (; ok() && is("not"); next()) nots.push_back(peek());
  NodePtr node = comparison();
  for (; !nots.empty(); nots.pop_back()) node = make(NodeKind::not_, nots.back(), nodes(std::move(node)));
  return node;
}

NodePtr ExpressionParser::comparison() {
  const Token token = peek();
  std::vector<NodePtr> parts = nodes(sum());
  std::vector<std::string_view> operators;
  for (bool more = true; more && ok();) {
    more = false;
    for (const std::string_view symbol : {"==", "!=", "<", "<=", ">", ">=", "in"})
      if (!more && is(symbol)) operators.push_back(symbol), more = true, next();
    if (!more && is("not") && peek(1).text == "in") operators.push_back("not in"), more = true, next(), next();
    if (more) parts.push_back(sum());
  }
  if (operators.empty()) return std::move(parts[0]);
  NodePtr node = make(NodeKind::compare, token, std::move(parts));
  node->names = std::move(operators);
  return node;
}

NodePtr ExpressionParser::binary(NodePtr (ExpressionParser::*operand)(),
                                 std::initializer_list<std::string_view> operators) {
  NodePtr node = (this->*operand)();
  while (ok()) {
    const Token token = peek();
    if (token.type != Type::symbol || std::find(operators.begin(), operators.end(), token.text) == operators.end())
      break;
    next();
    if (token.text == "/") refuse(token, "the division '/'");
    NodePtr right = (this->*operand)();
    node = make(NodeKind::binary, token, nodes(std::move(node), std::move(right)));
  }
  return node;
}

NodePtr ExpressionParser::sum() { return binary(&ExpressionParser::concatenation, {"+", "-"}); }

NodePtr ExpressionParser::concatenation() {
  const Token token = peek();
  std::vector<NodePtr> parts = nodes(product());
  while (ok() && is("~")) {
    next();
    parts.push_back(product());
  }
  return parts.size() == 1 ? std::move(parts[0]) : make(NodeKind::concat, token, std::move(parts));
}

NodePtr ExpressionParser::product() { return binary(&ExpressionParser::factor, {"*", "/", "//", "%"}); }

NodePtr ExpressionParser::factor() {
  NodePtr node = unary(true);
  if (is("**")) refuse(peek(), "the power '**'");
  return node;
}

NodePtr ExpressionParser::unary(bool filters) {
  const Token token = peek();
  NodePtr node;
  if (is("-") || is("+")) {
    if (++depth_ > deepest_expression) refuse(token, "an expression deeper than " + std::to_string(deepest_expression));
    next();
    node = unary(false);
    --depth_;
    node = make(token.text == "-" ? NodeKind::minus : NodeKind::plus, token, nodes(std::move(node)));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return filters ? filters_and_tests(std::move(node)) : std::move(node);
}

}  // namespace inlay::exec::chat
