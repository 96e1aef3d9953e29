// A chat template as a tree: what the parser makes and the evaluator walks over.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/status.hpp>

#include "executor/text/chat/value.hpp"

namespace inlay::exec::chat {

struct Call;

inline constexpr std::size_t most_parameters = 3;

// A filter, a test, a method or a function, with its parameters by name.
struct Builtin {
  std::string_view name;
  std::array<std::string_view, most_parameters> parameters;
  std::size_t required = 0;
  Value (*call)(const Call&) = nullptr;
  bool by_name = true;  // its arguments may be given by name

  std::size_t count() const {
    std::size_t n = 0;
    while (n < most_parameters && !parameters[n].empty()) ++n;
    return n;
  }
};

struct Node;
using NodePtr = std::unique_ptr<Node>;

struct Node {
  enum class Kind : unsigned char {
    constant,
    name,
    list,
    tuple,
    dict,  // parts: key, value, key, value ..
    not_,
    minus,
    plus,
    binary,   // by text: + - * // %
    concat,   // of all parts: ~
    compare,  // parts[0] operators[0] parts[1] operators[1] ..
    and_,
    or_,
    condition,  // parts: if true, condition, if false or none
    attribute,
    item,
    slice,   // parts: of what, begin, end, step, each or none
    filter,  // parts: subject, arguments in the order of builtin's parameters, each or none; so are the next ones
    test,
    method,
    call,        // of a function or a macro: parts are positional arguments, then those of `names`
    name_space,  // namespace(..): parts are the values of `names`
    make_dict    // dict(..)
  };
  Kind kind = Kind::constant;
  std::uint32_t at = 0;  // in the source
  int depth = 1;
  std::string_view text = {};  // of the source: a name, an operator
  Value constant = {};
  std::vector<NodePtr> parts = {};
  std::vector<std::string_view> names = {};  // keywords; the operators of a comparison
  const Builtin* builtin = nullptr;
  const Builtin* inner = nullptr;  // the test of selectattr and the like, the filter of map
};

struct Statement;
using Block = std::vector<Statement>;

struct Branch {
  NodePtr condition;  // none: else
  Block body;
};

struct Statement {
  enum class Kind : unsigned char { data, output, if_, for_, set, set_block, macro, scope, break_, continue_ };
  Kind kind = Kind::data;
  std::uint32_t at = 0;
  std::string_view text = {};                  // data; the name of a macro; the attribute of a namespace that is set
  std::vector<std::string_view> targets = {};  // of for and set; the parameters of a macro
  std::vector<NodePtr> defaults = {};          // of a macro's last parameters
  NodePtr value = {};                          // what is printed, walked over or set
  NodePtr filter = {};                         // the `if` of a for
  std::vector<Branch> branches = {};           // of if; of for: its else
  Block body = {};
  bool uses_loop = false;
};

struct Program {
  std::shared_ptr<const std::string> source;  // what the rest looks at
  Block body = {};
  std::vector<std::string> literals = {};   // all that it may write of its own
  std::vector<std::string_view> late = {};  // names that are set behind a block that reads them (NameScopes)
};

// Deeper ones are refused: who walks a tree calls itself.
inline constexpr int deepest_expression = 150, deepest_block = 50;

// Of a template, whatever its line breaks.
Expected<Program> parse(std::string_view source);

}  // namespace inlay::exec::chat
