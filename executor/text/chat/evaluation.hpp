// One rendering of a template: walks over its tree, with a limit of how much it may do. The first problem is kept and
// ends everything: whoever gets a value checks nothing, and nothing of what was written comes out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/status.hpp>

#include "executor/text/chat/builtins.hpp"
#include "executor/text/chat/syntax.hpp"

namespace inlay::exec::chat {

// What a template may take; one from a stranger may try to take more.
struct Limits {
  std::int64_t steps;  // parts of expressions, and items of lists that are walked over or made
  std::int64_t bytes;  // of all strings that are made, and of the output
};

// What a call of a name may mean: a function of the table, or a macro with the place of its statement.
struct Function {
  std::string_view name;
  const Builtin* builtin = nullptr;
  const Statement* macro = nullptr;
};

class Evaluation {
 public:
  using Variables = std::vector<std::pair<std::string, Value>>;

  Evaluation(const Program& program, const Limits& limits, std::time_t now)
      : program_(program), left_(limits), now_(now) {}
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  // Once.
  Expected<Text> run(const Variables& variables);

  // The rest is for those that compute values.
  bool ok() const { return status_.ok(); }
  Value fail(std::uint32_t at, const std::string& what, StatusCode code = StatusCode::corrupt_data);
  Value refuse(std::uint32_t at, const std::string& what) {
    return fail(at, what + " is not supported", StatusCode::unsupported);
  }
  static constexpr std::size_t bytes_of_step = 64;  // that are copied or compared
  bool spend(std::uint32_t at, std::size_t steps = 1);
  // For comparing two strings, and for looking for a key in a dict: it may be as long as all strings together.
  bool spend_on_both(std::uint32_t at, std::string_view a, std::string_view b) {
    return spend(at, std::min(a.size(), b.size()) / bytes_of_step);
  }
  bool spend_on_lookup(std::uint32_t at, const Dict& dict, std::string_view key) {
    constexpr std::size_t members_of_step = 8;
    return spend(at, dict.members.size() * (1 + key.size() / bytes_of_step) / members_of_step);
  }
  // The value under a key, or null.
  const Value* member(std::uint32_t at, const Dict& dict, std::string_view key) {
    return spend_on_lookup(at, dict, key) ? dict.find(key) : nullptr;
  }
  // Whether a string that grows may still be made.
  bool may_be_made(std::uint32_t at, const Text& text);
  Value make(std::uint32_t at, Text text);
  Value make(std::uint32_t at, List list);
  Value make(std::uint32_t at, Dict dict);
  Value not_too_deep(std::uint32_t at, Value made);

  Text str(std::uint32_t at, const Value& value);  // Python's str()
  Text json(std::uint32_t at, const Value& value, std::int64_t indent, bool ascii);

  bool equal(std::uint32_t at, const Value& a, const Value& b);
  bool less(std::uint32_t at, const Value& a, const Value& b);
  bool contains(std::uint32_t at, const Value& in, const Value& what);
  // What a for walks over; false where it can walk over nothing. `what` is who asks, for messages.
  bool items(std::uint32_t at, const Value& value, std::vector<Value>& out);
  Value attribute(std::uint32_t at, const Value& of, std::string_view name);
  Value item(std::uint32_t at, const Value& of, const Value& key);
  std::time_t now() const { return now_; }

 private:
  enum class Flow : unsigned char { next, break_, continue_ };
  // Counts who calls itself, macros and all.
  struct Depth {
    Depth(Evaluation& run, std::uint32_t at) : run(run) {
      constexpr int deepest = 1000;
      if (++run.depth_ > deepest) run.fail(at, "the template calls itself too often");
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --run.depth_; }
    Evaluation& run;
  };
  struct Scope {
    std::map<std::string_view, Value> names = {};
    bool of_macro = false;  // behind it only the first scope is seen
  };

  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow run_for(const Statement& statement);
  void run_set(const Statement& statement);
  Text capture(const Block& block);  // in a scope of its own
  void write(std::uint32_t at, const Text& text);
  void assign(std::string_view name, Value value);
  void assign_all(const Statement& statement, const Value& value);
  const Value* find(std::string_view name) const;

  Value evaluate(const Node& node);
  Value named(std::string_view name);
  Value evaluate_list(const Node& node);
  Value evaluate_dict(const Node& node);
  Value evaluate_binary(const Node& node);
  Value add(const Node& node, const Value& a, const Value& b);
  Value times(const Node& node, const Value& a, const Value& b);
  Value evaluate_concat(const Node& node);
  Value evaluate_compare(const Node& node);
  Value evaluate_slice(const Node& node);
  Value evaluate_builtin(const Node& node);
  Value evaluate_call(const Node& node);
  Value evaluate_macro(const Node& node, const Statement& macro, std::vector<Value> values);
  Value evaluate_names(const Node& node);  // namespace(..) and dict(..)
  bool may_be_kept(std::uint32_t at, const Value& value);

  void repr(std::uint32_t at, const Value& value, Text& out);
  void write_json(std::uint32_t at, const Value& value, std::int64_t indent, bool ascii, int level, Text& out);

  const Program& program_;
  Limits left_;
  std::time_t now_;
  Status status_;
  Text output_;
  std::vector<Scope> scopes_;
  std::vector<std::unique_ptr<Function>> macros_;
  std::map<const Builtin*, Function> functions_;
  int depth_ = 0;
  bool in_filter_ = false;  // of a for: Jinja evaluates it between the turns of the loop
};

// The indices that Python's slice has: first, first + step, ..
struct Slice {
  std::int64_t first, step;
  std::size_t count;
};
Slice slice_of(std::size_t size, const Value& begin, const Value& end, std::int64_t step);

}  // namespace inlay::exec::chat
