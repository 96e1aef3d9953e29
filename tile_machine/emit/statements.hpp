// The verbs of one core, cube or vector, as statements in Ascend C, by the table. Operands are named by what the
// program allocated: the slots of a ring are one tensor, and a slot is an offset in it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <inlay/core/status.hpp>

#include "tile_machine/emit/rolled.hpp"
#include "tile_machine/emit/verb_table.hpp"
#include "tile_machine/run/verb_log.hpp"

namespace inlay::npu::emit {

inline constexpr index fractal = 16;  // rows, and columns of 16 bits

inline std::string text_of(index number) { return std::to_string(number); }

std::string type_of(DType dtype);  // "half"; empty: Ascend C's vector unit does not compute with it

// A tensor of the kernel.
struct Named {
  std::string identifier;
  DType dtype = DType::f32;
  Space space = Space::global;
  std::uint64_t begin = 0, end = 0;  // bytes of its memory
  std::size_t slots = 0;             // of a ring
  std::uint64_t slot_bytes = 0;      // of an accumulator, whose rows come in sixteens
};

enum class CoreKind { cube, vector };

// Of the tensors that cores of one kind use.
class Names {
 public:
  Names(const VerbLog& log, CoreKind kind);

  const Named& of(const Tensor& tensor) const;
  // Bytes from where the kernel's tensor begins.
  std::int64_t offset_of(const Tensor& tensor) const;
  const std::map<std::uint32_t, Named>& globals() const { return globals_; }  // in the order in which they were bound
  const std::vector<Named>& locals() const { return locals_; }

 private:
  void see(const Tensor& tensor);
  void place_accumulators();

  const VerbLog& log_;
  std::vector<Named> locals_;
  std::map<std::uint32_t, Named> globals_;
  std::map<std::tuple<std::string, bool, DType>, std::size_t> known_;  // by name, of a ring or not, type
  std::map<std::tuple<std::uint32_t, DType>, std::size_t> local_of_;   // by buffer and type
};

bool runs_on(const VerbLog::Stream& stream, CoreKind kind);

class Statements {
 public:
  // `functions`: where those go that the calls are of. `mixed`: cube and vector cores run the program together.
  Statements(const Names& names, std::set<std::string>& functions, bool mixed)
      : names_(names), functions_(functions), mixed_(mixed) {}

  // Errors: what the table does not have.
  Status add(const Verb& verb);
  std::vector<Statement> take() { return std::move(statements_); }

 private:
  Status copy(const Verb& verb);
  Status cube(const Verb& verb);  // cube_statements.cpp, as what follows
  Status to_fractals(const Verb& verb);
  Status feed(const Verb& verb);
  Status multiply(const Verb& verb);
  Status drain(const Verb& verb);
  Status arithmetic(const Verb& verb);
  Status select(const Verb& verb);
  Status cast(const Verb& verb);
  Status reduce(const Verb& verb);
  Status scalar(const Verb& verb);
  Status flag(const Verb& verb);
  Status stream_flag(const Verb& verb);
  Status refused(const Verb& verb, const std::string& why) const;

  std::string operand(const Tensor& tensor);
  void put(const VerbRow& row, Places places);
  void put(std::string_view verb, std::string_view form, Places places) { put(row_of(verb, form), std::move(places)); }
  void wrote(const Verb& verb);

  const Names& names_;
  std::set<std::string>& functions_;
  const bool mixed_;
  Entry last_{};  // the sync before, of which one between streams may be the other half
  std::vector<Statement> statements_;
  std::vector<Value> values_;               // of the statement that is being made
  std::map<std::uint32_t, float> numbers_;  // buffers of one element that hold a number, as filled in
  std::set<std::uint32_t> masks_;           // buffers that hold what a comparison gave
};

}  // namespace inlay::npu::emit
