// From Python's values to the arguments of inlay.h.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <inlay.h>

namespace inlay::python {

// What a code means in Python: ValueError, TypeError, NotImplementedError, .. with the library's sentence.
void check(inlay_code code);

// The fields of an operator, in its own order, and their names as Python has them; asked for once.
struct Fields {
  std::vector<inlay_field> all;
  std::vector<PyObject*> names;  // as long as the process
};
const Fields& fields_of(const std::string& op);

// Arguments and what they point to.
class Arguments {
 public:
  // A value of the field's kind, or TypeError that begins with `subject`. A tensor is a Tensor, None one that is left
  // out, or a tuple (address, dtype, shape, strides): memory that the caller answers for.
  void add(const std::string& subject, const inlay_field& field, nanobind::handle value);
  const inlay_argument* data() const { return all_.data(); }
  std::size_t size() const { return all_.size(); }

 private:
  struct Memory {
    std::array<std::int64_t, 8> shape, strides;
    DLTensor view{};
  };
  const DLTensor* view_of(nanobind::handle value);  // null: it is none

  std::vector<inlay_argument> all_;
  std::deque<Memory> memory_;
  std::deque<std::vector<const DLTensor*>> lists_;
  std::deque<std::string> words_;
};

}  // namespace inlay::python
