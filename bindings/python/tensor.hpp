// A numpy array or another tensor as the DLTensor that the operators of inlay.h take, over the same memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

#include <inlay.h>

namespace inlay::python {

// "f32"; of what Inlay has no name for, "type code 5 of 128 bits".
std::string name_of(DLDataType type);
// The type that a name stands for; throws ValueError.
DLDataType type_of(const std::string& name);

class Tensor {
 public:
  explicit Tensor(nanobind::ndarray<> memory) : Tensor(std::move(memory), false) {}
  explicit Tensor(nanobind::ndarray<nanobind::ro> memory);
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  // The same bytes as elements of another type: of as many bits, or of four where they are bytes.
  void reinterpret(const std::string& dtype);

  const DLTensor& view() const { return view_; }
  bool writable() const { return writable_; }
  std::string dtype() const { return name_of(view_.dtype); }
  nanobind::tuple shape() const;
  bool freed() const;

 private:
  Tensor(nanobind::ndarray<> memory, bool read_only);

  nanobind::ndarray<> memory_;  // keeps what it views alive
  std::vector<std::int64_t> shape_, strides_;
  bool writable_;
  DLTensor view_{};
};

void add_tensor(nanobind::module_& module);

}  // namespace inlay::python
