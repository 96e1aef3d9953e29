// The statements of a template; expression_parser.cpp has its expressions.
#include <algorithm>
#include <utility>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/expression_parser.hpp"

namespace inlay::exec::chat {
namespace {

using Type = Token::Type;

class Parser : ExpressionParser {
 public:
  Parser(Program& program, std::vector<Token> tokens) : ExpressionParser(program, std::move(tokens)) {}

  Status run() {
    find_macros();
    program_.body = block({});
    return take_status();
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  // Up to a statement of one of these names, which stays to be read; without names to the end.
  Block block(Ends ends) {
    Block statements;
    if (++block_depth_ > deepest_block) refuse(peek(), "blocks deeper than " + std::to_string(deepest_block));
    while (ok()) {
      const Token& token = peek();
      if (token.type == Type::end) {
        if (ends.size() > 0) fail(token, "the template ends within a block; " + quote(*ends.begin()) + " is missing");
        break;
      }
      if (token.type == Type::data) {
        Statement data{.kind = Statement::Kind::data, .at = token.at, .text = token.text};
        program_.literals.emplace_back(token.text);
        statements.push_back(std::move(data));
        next();
      } else if (token.type == Type::output_begin) {
        next();
        Statement output{.kind = Statement::Kind::output, .at = token.at};
        output.value = expression();
        if (is(",")) refuse(peek(), "a tuple in {{ }}");
        expect(Type::output_end, "'}}'");
        statements.push_back(std::move(output));
      } else {
        if (std::find(ends.begin(), ends.end(), peek(1).text) != ends.end()) break;
        next();
        statement(statements);
      }
    }
    --block_depth_;
    return statements;
  }

  // The name of a block's end, and behind it the end of the tag.
  void end_block(std::string_view name) {
    next();  // {%
    if (ok() && peek().text != name)
      fail(peek(), "unexpected " + quote(peek().text) + "; " + quote(name) + " is missing");
    next();
    end_tag();
  }
  void end_tag() { expect(Type::block_end, "'%}'"); }

  void statement(Block& statements) {
    const Token token = peek();
    if (token.type != Type::name) return fail(token, "a statement is missing");
    next();
    Statement made{.at = token.at};
    if (token.text == "if")
      if_statement(made);
    else if (token.text == "for")
      for_statement(made);
    else if (token.text == "set")
      set_statement(made);
    else if (token.text == "macro")
      macro_statement(made, token);
    else if (token.text == "generation")
      scope_statement(made);
    else if (token.text == "break" || token.text == "continue")
      jump_statement(made, token);
    else if (token.text.starts_with("end") || token.text == "else" || token.text == "elif")
      fail(token, "unexpected " + quote(token.text));
    else
      refuse(token, "the statement " + quote(token.text));
    statements.push_back(std::move(made));
  }

  void if_statement(Statement& made) {
    made.kind = Statement::Kind::if_;
    for (bool more = true; more && ok();) {
      Branch branch;
      branch.condition = tuple_or_expression(false);
      end_tag();
      branch.body = block({"endif", "else", "elif"});
      made.branches.push_back(std::move(branch));
      more = ok() && peek(1).text == "elif";
      if (more) next(), next();
    }
    if (ok() && peek(1).text == "else") {
      end_block("else");
      made.branches.push_back({{}, block({"endif"})});
    }
    end_block("endif");
  }

  void for_statement(Statement& made) {
    made.kind = Statement::Kind::for_;
    made.targets = target();
    if (ok() && !is("in")) fail(peek(), "unexpected " + quote(peek().text) + "; 'in' is missing");
    next();
    made.value = tuple_or_expression(false);
    names_.enter();
    set_names(made.targets);
    if (is("recursive")) refuse(peek(), "'recursive'");
    if (is("if")) {
      next();
      made.filter = expression();
    }
    end_tag();
    const bool outer = std::exchange(uses_loop_, false);
    ++loops_, ++scopes_;
    made.body = block({"endfor", "else"});
    --loops_, --scopes_;
    names_.leave();
    made.uses_loop = uses_loop_;
    uses_loop_ = uses_loop_ || outer;
    if (ok() && peek(1).text == "else") {
      end_block("else");
      ++scopes_;
      names_.enter();
      made.branches.push_back({{}, block({"endfor"})});
      names_.leave();
      --scopes_;
    }
    end_block("endfor");
  }

  void set_statement(Statement& made) {
    made.kind = Statement::Kind::set;
    const Token first = peek();
    made.targets = target();
    if (ok() && is(".")) {
      next();
      made.text = name("the name of an attribute");
      if (made.targets.size() > 1) refuse(first, "an attribute among several targets");
      if (made.text.starts_with("_")) refuse(first, "an attribute with a leading underscore");
    }
    if (is("=")) {
      next();
      made.value = tuple_or_expression(true);
      if (made.text.empty())
        set_names(made.targets);
      else
        names_.read(made.targets[0]);
      return end_tag();
    }
    if (is("|")) refuse(peek(), "a filter of a block that is set");
    if (made.targets.size() > 1) return fail(peek(), "'=' is missing");
    made.kind = Statement::Kind::set_block;
    end_tag();
    inner(made, "endset");
    if (made.text.empty()) set_names(made.targets);
  }

  void macro_statement(Statement& made, const Token& token) {
    if (scopes_ > 0) refuse(token, "a macro within a for, a macro or a block");
    made.kind = Statement::Kind::macro;
    made.text = name("the name of the macro");
    set_names({made.text});
    expect_symbol("(");
    while (ok() && !is(")")) {
      made.targets.push_back(name("the name of a parameter"));
      if (is("=")) {
        next();
        made.defaults.push_back(expression());
      } else if (!made.defaults.empty()) {
        fail(peek(), "a parameter without a default follows one with");
      }
      if (is(","))
        next();
      else
        break;
    }
    expect_symbol(")");
    end_tag();
    const int loops = std::exchange(loops_, 0);
    inner(made, "endmacro");
    loops_ = loops;
  }

  void scope_statement(Statement& made) {
    made.kind = Statement::Kind::scope;
    end_tag();
    const int loops = std::exchange(loops_, 0);
    inner(made, "endgeneration");
    loops_ = loops;
  }

  void set_names(const std::vector<std::string_view>& targets) {
    for (const std::string_view target : targets)
      if (names_.set(target)) program_.late.push_back(target);
  }

  // A block with names of its own, and `targets` among them: the parameters of a macro.
  void inner(Statement& made, std::string_view end) {
    ++scopes_;
    names_.enter();
    if (made.kind == Statement::Kind::macro) set_names(made.targets);
    made.body = block({end});
    names_.leave();
    --scopes_;
    end_block(end);
  }

  void jump_statement(Statement& made, const Token& token) {
    if (loops_ == 0) fail(token, quote(token.text) + " stands in no for");
    made.kind = token.text == "break" ? Statement::Kind::break_ : Statement::Kind::continue_;
    end_tag();
  }

  // One name, or several: a, b
  std::vector<std::string_view> target() {
    std::vector<std::string_view> names;
    const bool bracket = is("(");
    if (bracket) next();
    do {
      if (!names.empty()) next();
      const Token token = peek();
      names.push_back(name("a name"));
      if (names.back() == "loop") refuse(token, "a value for 'loop'");
    } while (ok() && is(","));
    if (bracket) expect_symbol(")");
    return names;
  }

  int block_depth_ = 0, loops_ = 0, scopes_ = 0;
};

}  // namespace

Expected<Program> parse(std::string_view source) {
  if (source.size() > longest_template)
    return failure(StatusCode::unsupported, "the chat template has " + std::to_string(source.size()) +
                                                " bytes; it must have at most " + std::to_string(longest_template));
  Program program{.source = std::make_shared<const std::string>(with_unix_lines(source))};
  auto tokens = tokenize(*program.source);
  if (!tokens) return failure(std::move(tokens.error()));
  if (Status status = Parser(program, std::move(*tokens)).run(); !status.ok()) return failure(std::move(status));
  return program;
}

}  // namespace inlay::exec::chat
