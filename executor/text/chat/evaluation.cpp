#include "executor/text/chat/evaluation.hpp"

#include <algorithm>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/lexer.hpp"

namespace inlay::exec::chat {

using StatementKind = Statement::Kind;

Expected<Text> Evaluation::run(const Variables& variables) {
  scopes_.emplace_back();
  for (const auto& [name, value] : variables) {
    if (std::find(program_.late.begin(), program_.late.end(), name) != program_.late.end())
      return failure(unsupported("chat template: setting " + quote(name) +
                                 ", which is given, behind a block that reads it is not supported"));
    scopes_[0].names.insert_or_assign(name, value);
  }
  run(program_.body);
  scopes_.clear();
  if (!status_.ok()) return failure(std::move(status_));
  return std::move(output_);
}

Value Evaluation::fail(std::uint32_t at, const std::string& what, StatusCode code) {
  if (status_.ok()) status_ = {code, place(*program_.source, at) + what};
  return {};
}

bool Evaluation::spend(std::uint32_t at, std::size_t steps) {
  if (!ok()) return false;
  left_.steps -= static_cast<std::int64_t>(std::min<std::size_t>(steps, INT32_MAX));
  if (left_.steps < 0) fail(at, "the template takes more steps than are allowed");
  return ok();
}

bool Evaluation::may_be_made(std::uint32_t at, const Text& text) {
  if (ok() && left_.bytes < static_cast<std::int64_t>(text.size()))
    fail(at, "the template makes more text than is allowed");
  return ok();
}

Value Evaluation::make(std::uint32_t at, Text text) {
  constexpr std::int64_t any_string = 64;  // bytes that even an empty one takes
  left_.bytes -= static_cast<std::int64_t>(text.size()) + any_string;
  if (left_.bytes < 0) return fail(at, "the template makes more text than is allowed");
  return Value::of(std::move(text));
}

Value Evaluation::make(std::uint32_t at, List list) {
  if (!spend(at, list.items.size())) return {};
  for (const Value& item : list.items)
    if (!may_be_kept(at, item)) return {};
  return not_too_deep(at, Value::of(std::move(list)));
}

Value Evaluation::make(std::uint32_t at, Dict dict) {
  if (!spend(at, dict.members.size())) return {};
  for (const auto& [key, value] : dict.members) {
    if (!may_be_kept(at, value) || !may_be_made(at, key)) return {};
    left_.bytes -= static_cast<std::int64_t>(key.size());
  }
  return not_too_deep(at, Value::of(std::move(dict)));
}

Value Evaluation::not_too_deep(std::uint32_t at, Value made) {
  constexpr int deepest = 60;
  return made.depth() > deepest ? fail(at, "lists and dicts lie too deep in one another") : made;
}

bool Evaluation::may_be_kept(std::uint32_t at, const Value& value) {
  if (!value.is(Value::Kind::name_space) && !value.is(Value::Kind::loop) && !value.is(Value::Kind::function))
    return ok();
  refuse(at, std::string(value.type()) + " within a list, a dict or a namespace");
  return false;
}

void Evaluation::write(std::uint32_t at, const Text& text) {
  left_.bytes -= static_cast<std::int64_t>(text.size());
  if (left_.bytes < 0) fail(at, "the template makes more text than is allowed");
  if (ok()) output_.append(text);
}

Evaluation::Flow Evaluation::run(const Block& block) {
  for (const Statement& statement : block)
    if (const Flow flow = run(statement); flow != Flow::next || !ok()) return flow;
  return Flow::next;
}

Evaluation::Flow Evaluation::run(const Statement& statement) {
  const Depth depth(*this, statement.at);
  if (!spend(statement.at)) return Flow::next;
  switch (statement.kind) {
    case StatementKind::data: write(statement.at, Text{std::string(statement.text)}); break;
    case StatementKind::output: write(statement.at, str(statement.at, evaluate(*statement.value))); break;
    case StatementKind::if_:
      for (const Branch& branch : statement.branches)
        if (!branch.condition || evaluate(*branch.condition).is_true()) return ok() ? run(branch.body) : Flow::next;
      break;
    case StatementKind::for_: return run_for(statement);
    case StatementKind::set:
    case StatementKind::set_block: run_set(statement); break;
    case StatementKind::macro:
      macros_.push_back(std::make_unique<Function>(Function{statement.text, nullptr, &statement}));
      assign(statement.text, Value::of(macros_.back().get()));
      break;
    case StatementKind::scope: write(statement.at, capture(statement.body)); break;
    case StatementKind::break_: return Flow::break_;
    case StatementKind::continue_: return Flow::continue_;
  }
  return Flow::next;
}

Evaluation::Flow Evaluation::run_for(const Statement& statement) {
  std::vector<Value> items;
  if (const Value over = evaluate(*statement.value); !this->items(statement.at, over, items)) return Flow::next;
  if (statement.filter) {
    const bool outer = std::exchange(in_filter_, true);
    std::vector<Value> kept;
    for (Value& item : items) {
      if (!spend(statement.at)) break;
      scopes_.emplace_back();
      assign_all(statement, item);
      if (evaluate(*statement.filter).is_true()) kept.push_back(std::move(item));
      scopes_.pop_back();
    }
    in_filter_ = outer;
    items = std::move(kept);
  }
  Loop loop{items};
  Flow flow = Flow::next;
  bool ended = false;  // a turn, without break and continue: then there is no else, as Jinja compiles it
  for (; loop.at < items.size() && ok() && flow != Flow::break_; ++loop.at) {
    if (!spend(statement.at)) break;
    scopes_.emplace_back();
    if (statement.uses_loop) assign("loop", Value::of(&loop));
    assign_all(statement, items[loop.at]);
    flow = run(statement.body);
    ended = ended || flow == Flow::next;
    scopes_.pop_back();
  }
  if (!ended && !statement.branches.empty() && ok()) {
    scopes_.emplace_back();
    flow = run(statement.branches[0].body);
    scopes_.pop_back();
    return flow;  // of the loop around
  }
  return Flow::next;
}

void Evaluation::run_set(const Statement& statement) {
  const Value value =
      statement.kind == StatementKind::set ? evaluate(*statement.value) : make(statement.at, capture(statement.body));
  if (!ok()) return;
  if (statement.text.empty()) return assign_all(statement, value);
  const Value* target = find(statement.targets[0]);
  if (target == nullptr || !target->is(Value::Kind::name_space)) {
    fail(statement.at, quote(statement.targets[0]) + " is no namespace; only such attributes can be set");
    return;
  }
  if (!may_be_kept(statement.at, value)) return;
  spend(statement.at, target->name_space().attributes.size() / 8);
  for (auto& [name, old] : target->name_space().attributes)
    if (name == statement.text) {
      old = value;
      return;
    }
  target->name_space().attributes.emplace_back(statement.text, value);
}

Text Evaluation::capture(const Block& block) {
  Text outer = std::exchange(output_, {});
  scopes_.emplace_back();
  run(block);
  scopes_.pop_back();
  return std::exchange(output_, std::move(outer));
}

void Evaluation::assign(std::string_view name, Value value) {
  scopes_.back().names.insert_or_assign(name, std::move(value));
}

void Evaluation::assign_all(const Statement& statement, const Value& value) {
  if (statement.targets.size() == 1) return assign(statement.targets[0], value);
  std::vector<Value> items;
  if (!this->items(statement.at, value, items)) return;
  if (items.size() != statement.targets.size()) {
    fail(statement.at,
         std::to_string(items.size()) + " values for " + std::to_string(statement.targets.size()) + " names");
    return;
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(statement.targets[i], items[i]);
}

const Value* Evaluation::find(std::string_view name) const {
  for (std::size_t i = scopes_.size(); i-- > 0;) {
    if (const auto at = scopes_[i].names.find(name); at != scopes_[i].names.end()) return &at->second;
    if (scopes_[i].of_macro && i > 1) i = 1;
  }
  return nullptr;
}

}  // namespace inlay::exec::chat
