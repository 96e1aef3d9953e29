#include "arguments.hpp"

#include <nanobind/stl/string.h>

#include <map>
#include <new>
#include <string_view>

#include "tensor.hpp"

namespace nb = nanobind;

namespace inlay::python {

namespace {

[[noreturn]] void raise(PyObject* type, const std::string& words) {
  PyErr_SetString(type, words.c_str());
  throw nb::python_error();
}

const char* name_of_kind(int kind) {
  switch (kind) {
    case INLAY_TENSOR: return "a tensor";
    case INLAY_LIST: return "a list of tensors";
    case INLAY_INTEGER: return "an int";
    case INLAY_NUMBER: return "a number";
    case INLAY_FLAG: return "a bool";
    default: return "a str";
  }
}

// numpy's bool is none of Python's.
bool is_bool(nb::handle value) {
  return PyBool_Check(value.ptr()) || std::string_view(Py_TYPE(value.ptr())->tp_name) == "numpy.bool" ||
         std::string_view(Py_TYPE(value.ptr())->tp_name) == "numpy.bool_";
}

}  // namespace

void check(inlay_code code) {
  if (code == INLAY_OK) return;
  const std::string words = inlay_message();
  switch (code) {
    case INLAY_UNSUPPORTED: raise(PyExc_NotImplementedError, words);
    case INLAY_NOT_FOUND: raise(PyExc_FileNotFoundError, words);
    case INLAY_OUT_OF_MEMORY: raise(PyExc_MemoryError, words);
    case INLAY_INTERNAL: raise(PyExc_RuntimeError, words);
    default: break;
  }
  // As numpy does: a tensor of the wrong type is a TypeError, one of the wrong shape a ValueError.
  const bool of_type =
      words.find(" has dtype ") != std::string::npos || words.find(" has type code ") != std::string::npos;
  raise(of_type ? PyExc_TypeError : PyExc_ValueError, words);
}

const std::vector<inlay_field>& fields_of(const std::string& op) {
  static std::map<std::string, std::vector<inlay_field>> known;  // the GIL guards it
  if (const auto found = known.find(op); found != known.end()) return found->second;
  std::size_t count = 0;
  check(inlay_field_count(op.c_str(), &count));
  std::vector<inlay_field> fields(count);
  for (std::size_t i = 0; i < count; ++i) {
    fields[i].size = sizeof(inlay_field);
    check(inlay_field_at(op.c_str(), i, &fields[i]));
  }
  return known.emplace(op, std::move(fields)).first->second;
}

void Arguments::add(const std::string& subject, const inlay_field& field, nb::handle value) {
  const auto wrong = [&] {
    raise(PyExc_TypeError, subject + field.name + " is of type " + Py_TYPE(value.ptr())->tp_name + "; it must be " +
                               name_of_kind(field.kind));
  };
  switch (field.kind) {
    case INLAY_TENSOR: {
      const Tensor* tensor = nullptr;
      if (!value.is_none() && !nb::try_cast(value, tensor)) wrong();
      all_.push_back(inlay_give_tensor(field.name, tensor == nullptr ? nullptr : &tensor->view()));
      break;
    }
    case INLAY_LIST: {
      std::vector<const DLTensor*>& list = lists_.emplace_back();
      for (nb::handle each : value) list.push_back(&nb::cast<const Tensor&>(each).view());
      all_.push_back(inlay_give_list(field.name, list.data(), list.size()));
      break;
    }
    case INLAY_INTEGER: {
      if (is_bool(value) || !PyIndex_Check(value.ptr())) wrong();
      const auto integer = nb::steal(PyNumber_Index(value.ptr()));
      if (!integer.is_valid()) throw nb::python_error();
      const long long number = PyLong_AsLongLong(integer.ptr());
      if (number == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raise(PyExc_ValueError, subject + field.name + " is " + nb::str(integer).c_str() + "; it must have 64 bits");
      }
      all_.push_back(inlay_give_integer(field.name, number));
      break;
    }
    case INLAY_NUMBER: {
      if (is_bool(value) || nb::isinstance<nb::str>(value) || !PyNumber_Check(value.ptr())) wrong();
      const double number = PyFloat_AsDouble(value.ptr());
      if (number == -1 && PyErr_Occurred() != nullptr) {
        const bool too_large = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
        PyErr_Clear();
        if (too_large) raise(PyExc_ValueError, subject + field.name + " is beyond a float; it must be in its range");
        wrong();
      }
      all_.push_back(inlay_give_number(field.name, number));
      break;
    }
    case INLAY_FLAG: {
      if (!is_bool(value)) wrong();
      all_.push_back(inlay_give_flag(field.name, PyObject_IsTrue(value.ptr())));
      break;
    }
    default: {
      if (!nb::isinstance<nb::str>(value)) wrong();
      all_.push_back(inlay_give_word(field.name, words_.emplace_back(nb::cast<std::string>(value)).c_str()));
    }
  }
}

}  // namespace inlay::python
