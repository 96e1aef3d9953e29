// What each verb of a tile program is in Ascend C: the one table that programs are written out by, and that
// docs/npu_emit.md shows (inlay npu emit --verbs).
//
// @name@ stands for what the verb at hand has there: operands, counts, a type. A call of more than one instruction is a
// function that comes with the program.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace inlay::npu::emit {

struct VerbRow {
  std::string_view verb;  // as Core has it
  std::string_view form;  // of its operands
  std::string_view call;
  std::string_view function = {};  // that the call is of
};

std::span<const VerbRow> verb_table();
const VerbRow& row_of(std::string_view verb, std::string_view form);  // one that is there

using Places = std::map<std::string, std::string, std::less<>>;
std::string filled(std::string_view text, const Places& places);

// The table as it stands in docs/npu_emit.md.
std::string verb_table_text();

// Bytes of the vector memory, behind what the program allocates, that functions may use: constants, and blocks of 32
// bytes for so many rows.
inline constexpr std::size_t scratch_bytes = 2048;
inline constexpr std::int64_t scratch_rows = 64, scratch_floats = 512;

}  // namespace inlay::npu::emit
