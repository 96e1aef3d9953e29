#include "arguments.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <map>
#include <new>
#include <string_view>
#include <tuple>

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

const Fields& fields_of(const std::string& op) {
  static std::map<std::string, Fields> known;  // the GIL guards it
  if (const auto found = known.find(op); found != known.end()) return found->second;
  std::size_t count = 0;
  check(inlay_field_count(op.c_str(), &count));
  Fields fields{.all = std::vector<inlay_field>(count), .names = {}};
  for (std::size_t i = 0; i < count; ++i) {
    fields.all[i].size = sizeof(inlay_field);
    check(inlay_field_at(op.c_str(), i, &fields.all[i]));
    fields.names.push_back(PyUnicode_InternFromString(fields.all[i].name));
  }
  return known.emplace(op, std::move(fields)).first->second;
}

const DLTensor* Arguments::view_of(nb::handle value) {
  if (!PyTuple_CheckExact(value.ptr())) {
    const Tensor* tensor = nullptr;
    return nb::try_cast(value, tensor) ? &tensor->view() : nullptr;
  }
  const auto [address, dtype, shape, strides] = nb::cast<std::tuple<nb::int_, nb::str, nb::tuple, nb::tuple>>(value);
  Memory& memory = memory_.emplace_back();
  if (shape.size() > memory.shape.size() || shape.size() != strides.size())
    throw nb::value_error("memory must have 8 dimensions at most, and a stride for each");
  for (std::size_t d = 0; d < shape.size(); ++d) {
    memory.shape[d] = nb::cast<std::int64_t>(shape[d]);
    memory.strides[d] = nb::cast<std::int64_t>(strides[d]);
  }
  memory.view.data = PyLong_AsVoidPtr(address.ptr());
  memory.view.device = {kDLCPU, 0};
  memory.view.ndim = static_cast<std::int32_t>(shape.size());
  memory.view.dtype = type_of(dtype.c_str());
  memory.view.shape = memory.shape.data();
  memory.view.strides = memory.strides.data();
  return &memory.view;
}

void Arguments::add(const std::string& subject, const inlay_field& field, nb::handle value) {
  const auto wrong = [&] {
    raise(PyExc_TypeError, subject + field.name + " is of type " + Py_TYPE(value.ptr())->tp_name + "; it must be " +
                               name_of_kind(field.kind));
  };
  switch (field.kind) {
    case INLAY_TENSOR: {
      const DLTensor* const tensor = value.is_none() ? nullptr : view_of(value);
      if (!value.is_none() && tensor == nullptr) wrong();
      all_.push_back(inlay_give_tensor(field.name, tensor));
      break;
    }
    case INLAY_LIST: {
      std::vector<const DLTensor*>& list = lists_.emplace_back();
      for (nb::handle each : value) {
        list.push_back(view_of(each));
        if (list.back() == nullptr) wrong();
      }
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
