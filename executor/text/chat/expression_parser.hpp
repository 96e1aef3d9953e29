// The expressions of a template, by recursive descent; who parses the statements derives from this. The first problem
// is kept, and from then on every token is the end.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/text/chat/lexer.hpp"
#include "executor/text/chat/name_scopes.hpp"
#include "executor/text/chat/syntax.hpp"

namespace inlay::exec::chat {

// {a, b, ..} as a vector.
template <class... Parts> std::vector<NodePtr> nodes(Parts... parts) {
  std::vector<NodePtr> all;
  (all.push_back(std::move(parts)), ...);
  return all;
}

class ExpressionParser {
 protected:
  ExpressionParser(Program& program, std::vector<Token> tokens) : program_(program), tokens_(std::move(tokens)) {}

  bool ok() const { return status_.ok(); }
  Status take_status() { return std::move(status_); }
  void fail(const Token& token, const std::string& what) { stop(token, StatusCode::corrupt_data, what); }
  void refuse(const Token& token, const std::string& what) {
    stop(token, StatusCode::unsupported, what + " is not supported");
  }

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[status_.ok() && at_ + ahead < tokens_.size() ? at_ + ahead : tokens_.size() - 1];
  }
  void next() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  // Whether a name or a symbol of this spelling comes next.
  bool is(std::string_view text) const {
    return (peek().type == Token::Type::name || peek().type == Token::Type::symbol) && peek().text == text;
  }
  void expect(Token::Type type, const char* what);
  void expect_symbol(std::string_view symbol);
  std::string_view name(const char* what);

  // Macros by name, wherever they stand: what else is called must be a function.
  void find_macros();

  NodePtr expression();
  // Several with commas between are a tuple. `conditions`: a if b else c may stand there without brackets.
  NodePtr tuple_or_expression(bool conditions);

  Program& program_;
  NameScopes names_;
  bool uses_loop_ = false;  // whether the name `loop` came up

 private:
  void stop(const Token& token, StatusCode code, const std::string& what);
  NodePtr make(Node::Kind kind, const Token& token, std::vector<NodePtr> parts = {});

  NodePtr condition();
  NodePtr or_();
  NodePtr and_();
  NodePtr not_();
  NodePtr comparison();
  NodePtr sum();
  NodePtr concatenation();
  NodePtr product();
  NodePtr factor();
  NodePtr unary(bool filters);
  NodePtr primary();
  NodePtr string();
  NodePtr list(const Token& token);
  NodePtr dict(const Token& token);
  NodePtr bracketed(const Token& token);
  NodePtr postfix(NodePtr node);
  NodePtr attribute(NodePtr subject);
  NodePtr subscript(NodePtr subject);
  NodePtr call(NodePtr callee);
  NodePtr filters_and_tests(NodePtr node);
  NodePtr filter(NodePtr subject);
  NodePtr test(NodePtr subject);
  NodePtr binary(NodePtr (ExpressionParser::*operand)(), std::initializer_list<std::string_view> operators);

  struct Argument {
    std::string_view name;  // empty: by position
    Token token;
    NodePtr value;
  };
  std::vector<Argument> arguments();
  // Puts the arguments in the places of the builtin's parameters, behind the subject.
  void bind(Node& node, const Builtin& builtin, std::vector<Argument> arguments, const Token& token);
  void take_inner(Node& node, std::vector<Argument>& arguments);

  std::vector<Token> tokens_;
  std::vector<std::string_view> macros_;
  std::size_t at_ = 0;
  int depth_ = 0;
  Status status_;
};

}  // namespace inlay::exec::chat
