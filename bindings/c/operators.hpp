// The operators that C can name: one row each, made of the operator's own `fields` (row.hpp). Rows stand in ops_*.cpp,
// a unit for each group.
#pragma once

#include <memory>
#include <span>

#include "bindings/c/arguments.hpp"
#include "bindings/c/backend.hpp"

namespace inlay::c {

// The caller's workspace, or, where he gave none, memory for this call.
class Scratch {
 public:
  Scratch(void* begin, std::size_t bytes) : given_(static_cast<std::byte*>(begin), bytes) {}
  Workspace take(std::size_t needed);  // throws bad_alloc

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  Workspace given_;
  std::unique_ptr<void, Free> own_;
};

struct OperatorRow {
  const char* name;
  std::span<const FieldRow> fields;
  Status (*run)(const Computing& backend, Arguments arguments, Scratch& scratch);
  Status (*workspace_bytes)(const Computing& backend, Arguments arguments, std::size_t& bytes);
};

// Those of a unit, ops_<group>.cpp.
using Group = std::span<const OperatorRow>;
extern const Group attention_group, cache_group, linear_group, routing_group, rows_group;

}  // namespace inlay::c
