// Memory of the executor: owned, aligned to a page, zero until it is written, costing nothing before.
#pragma once

#include <cstring>
#include <memory>
#include <utility>

#include <inlay/core/view.hpp>
#include <inlay/model/mapped_file.hpp>

namespace inlay::exec {

template <int Rank> class OwnedTensor {
 public:
  OwnedTensor() = default;

  static Expected<OwnedTensor> make(DType dtype, const std::array<index, Rank>& extents) {
    OwnedTensor tensor;
    tensor.view_ = View<Rank>(nullptr, dtype, extents);
    auto memory = Mapping::anonymous(static_cast<std::size_t>(byte_size(dtype, tensor.view_.size())));
    if (!memory) return failure(std::move(memory.error()));
    tensor.memory_ = std::move(*memory);
    tensor.view_.data = tensor.memory_->mutable_data();
    return tensor;
  }

  const View<Rank>& view() const { return view_; }
  operator View<Rank>() const { return view_; }
  operator ConstView<Rank>() const { return view_; }
  std::size_t bytes() const { return memory_ ? memory_->size() : 0; }

 private:
  View<Rank> view_;
  std::shared_ptr<Mapping> memory_;
};

}  // namespace inlay::exec
