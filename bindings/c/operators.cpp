#include "bindings/c/operators.hpp"

#include <cstdlib>
#include <new>

#include <inlay/core/quote.hpp>
#include <inlay/core/text.hpp>

#include "bindings/c/code.hpp"
#include "bindings/c/packers.hpp"
#include "bindings/c/sized.hpp"

namespace inlay::c {

namespace {

constexpr const Group* groups[] = {&attention_group, &cache_group, &linear_group, &routing_group, &rows_group};

// The i-th of all, or null.
const OperatorRow* operator_at(std::size_t i) {
  for (const Group* group : groups) {
    if (i < group->size()) return &(*group)[i];
    i -= group->size();
  }
  return nullptr;
}

Status find(const char* op, const OperatorRow*& found) {
  if (op == nullptr) return invalid("op is null; it must be the name of an operator");
  Text known;
  for (const Group* group : groups)
    for (const OperatorRow& row : *group)
      if (std::string_view(row.name) == op) {
        found = &row;
        return {};
      }
  for (std::size_t i = 0; const OperatorRow* row = operator_at(i); ++i)
    known += Text(known.empty() ? "" : " ") + row->name;
  return invalid("there is no operator " + Text(quote(op)) + "; it must be one of " + known);
}

template <class Body>
Status call(const inlay_backend* backend, const char* op, const inlay_argument* arguments, std::size_t count,
            Body&& body) {
  if (backend == nullptr) return invalid("backend is null; it must be one that inlay_backend_open gave");
  const OperatorRow* row = nullptr;
  if (Status status = find(op, row); !status.ok()) return status;
  if (arguments == nullptr && count > 0)
    return about(row->name, invalid("arguments is null; it must point to " + number(count)));
  return about(row->name, compute_on(*backend, [&](const Computing& computing) {
                 return body(*row, computing, Arguments(arguments, count));
               }));
}

// Of an operator, or of a packer of weights.
Status find_fields(const char* op, std::span<const FieldRow>& fields) {
  if (const PackerRow* packer = op == nullptr ? nullptr : find_packer(op)) {
    fields = packer->fields;
    return {};
  }
  const OperatorRow* row = nullptr;
  if (Status status = find(op, row); !status.ok()) return status;
  fields = row->fields;
  return {};
}

Status field_at(const char* op, std::size_t i, inlay_field* result) {
  std::span<const FieldRow> fields;
  if (Status status = find_fields(op, fields); !status.ok()) return status;
  if (i >= fields.size())
    return about(op, invalid("there is no field " + number(i) + "; it must be below " + number(fields.size())));
  const FieldRow& field = fields[i];
  const inlay_field value{.size = sizeof(inlay_field),
                          .name = field.name,
                          .role = static_cast<std::int32_t>(field.role) + INLAY_IN,
                          .kind = field.kind,
                          .rank = field.rank,
                          .reserved = 0,
                          .default_integer = field.default_integer,
                          .default_number = field.default_number,
                          .default_word = field.default_word,
                          .words = field.words};
  using F = inlay_field;
  return write_sized("inlay_field", value, result,
                     {INLAY_MEMBER(F, size), INLAY_MEMBER(F, name), INLAY_MEMBER(F, role), INLAY_MEMBER(F, kind),
                      INLAY_MEMBER(F, rank), INLAY_MEMBER(F, reserved), INLAY_MEMBER(F, default_integer),
                      INLAY_MEMBER(F, default_number), INLAY_MEMBER(F, default_word), INLAY_MEMBER(F, words)});
}

// Roles are numbered in C as they are here, from 1 on.
constexpr bool is(int in_c, Role role) { return in_c == static_cast<int>(role) + INLAY_IN; }
static_assert(is(INLAY_IN, Role::in) && is(INLAY_OPTIONAL_IN, Role::optional_in) && is(INLAY_OUT, Role::out) &&
              is(INLAY_OPTIONAL_OUT, Role::optional_out) && is(INLAY_INOUT, Role::inout) &&
              is(INLAY_IN_LIST, Role::in_list) && is(INLAY_SCALAR, Role::scalar));

}  // namespace

Workspace Scratch::take(std::size_t needed) {
  if (given_.data() != nullptr || given_.size() != 0 || needed == 0) return given_;
  const std::size_t whole = (needed + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  own_.reset(whole < needed ? nullptr : std::aligned_alloc(workspace_alignment, whole));
  if (own_ == nullptr) throw std::bad_alloc();
  return {static_cast<std::byte*>(own_.get()), needed};
}

}  // namespace inlay::c

using namespace inlay::c;

inlay_code inlay_run(const inlay_backend* backend, const char* op, const inlay_argument* arguments, size_t count,
                     void* workspace, size_t workspace_bytes) {
  return guarded([&] {
    return call(backend, op, arguments, count,
                [&](const OperatorRow& row, const Computing& computing, Arguments given) -> inlay::Status {
                  if (workspace == nullptr && workspace_bytes > 0)
                    return inlay::invalid("workspace is null and has " + inlay::number(workspace_bytes) +
                                          " bytes; it must have 0");
                  Scratch scratch(workspace, workspace_bytes);
                  return row.run(computing, given, scratch);
                });
  });
}

inlay_code inlay_workspace_bytes(const inlay_backend* backend, const char* op, const inlay_argument* arguments,
                                 size_t count, size_t* bytes) {
  return guarded([&] {
    return call(backend, op, arguments, count,
                [&](const OperatorRow& row, const Computing& computing, Arguments given) -> inlay::Status {
                  if (bytes == nullptr) return inlay::invalid("bytes is null; it must be where their number is put");
                  return row.workspace_bytes(computing, given, *bytes);
                });
  });
}

size_t inlay_op_count(void) {
  size_t count = 0;
  for (const Group* group : groups) count += group->size();
  return count;
}
const char* inlay_op_name(size_t i) {
  const OperatorRow* const row = operator_at(i);
  return row == nullptr ? nullptr : row->name;
}

inlay_code inlay_field_count(const char* op, size_t* count) {
  return guarded([&]() -> inlay::Status {
    if (count == nullptr) return inlay::invalid("count is null; it must be where the number of fields is put");
    std::span<const FieldRow> fields;
    if (inlay::Status status = find_fields(op, fields); !status.ok()) return status;
    *count = fields.size();
    return {};
  });
}
inlay_code inlay_field_at(const char* op, size_t i, inlay_field* field) {
  return guarded([&] { return field_at(op, i, field); });
}
