// Global memory as a program sees it before it runs: its operands and its workspace.
//
//   NdTensor q = memory.bind("q", op.q);
//   Tensor sums = memory.workspace("sums", {rows, columns}, DType::f32);
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <inlay/core/view.hpp>
#include <inlay/core/workspace.hpp>

#include "tile_machine/arithmetic/tensor.hpp"
#include "tile_machine/events/source_location.hpp"

namespace inlay::npu {

class Memories;

// Of one program: how many of a core's streams with a vector unit run it, and how many cores; 0: all. Ascend launches a
// mixed kernel with one or with both of its vector cores, and each kernel on as many cores as it asks for.
struct Launch {
  std::uint32_t vectors = 0, cores = 0;
};

// What a program binds its operands in and takes its workspace from, the same in all modes. The device must outlive it,
// the data its runs.
class GlobalMemory {
 public:
  using Site = SourceLocation;

  template <class T>
  Tensor global(std::string name, std::span<T> data, Shape shape, Use use = Use::in_out, Site site = Site::current()) {
    using Value = std::remove_const_t<T>;
    if (std::is_const_v<T>) use = Use::in;
    auto* bytes = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(data.data()));  // an input is not written
    return add(std::move(name), bytes, data.size_bytes(), dtype_of<Value>, shape, use, site);
  }
  // A view of any rank and strides. Views that share bytes share addresses: aliases are seen, and of an output the
  // elements are what must be written. What is only read may run backwards or repeat elements (stride 0).
  template <int N>
  NdTensor bind(std::string name, const View<N>& view, Use use = Use::in_out, Site site = Site::current()) {
    return bind(std::move(name), window_of(view), static_cast<std::byte*>(view.data), use, site);
  }
  template <int N> NdTensor bind(std::string name, const ConstView<N>& view, Site site = Site::current()) {
    auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(view.data));  // an input is not written
    return bind(std::move(name), window_of(view), data, Use::in, site);
  }
  // A view that may have been left out, as optional operands are: then it is of rank 0.
  template <int N>
  NdTensor bind_optional(std::string name, const View<N>& view, Use use = Use::in_out, Site site = Site::current()) {
    return view.present() ? bind(std::move(name), view, use, site) : NdTensor{};
  }
  template <int N> NdTensor bind_optional(std::string name, const ConstView<N>& view, Site site = Site::current()) {
    return view.present() ? bind(std::move(name), view, site) : NdTensor{};
  }
  // A tensor of which only the address matters (Options::data).
  Tensor absent(std::string name, DType dtype, Shape shape, Use use = Use::in_out, Site site = Site::current());
  // Elements of any type, also those that C++ lacks.
  Tensor add(std::string name, std::byte* data, std::uint64_t bytes, DType dtype, Shape shape, Use use,
             Site site = Site::current());
  // Of the caller's, once he has lent some: each tensor starts at a multiple of workspace_alignment.
  Tensor workspace(std::string name, Shape shape, DType dtype, Site site = Site::current());
  void lend(std::span<std::byte> workspace);
  std::uint64_t workspace_bytes() const { return taken_; }  // that were asked for so far

  // All tensors are gone, the memories of the cores stay: for the next program.
  void forget();

  // A tensor of global memory as it was named, and the same ones in another memory, each where `places` says.
  struct Named {
    std::string name;
    std::byte* place = nullptr;
    std::uint64_t bytes = 0;
    Use use = Use::in_out;
    bool workspace = false;
    Site site{};
  };
  std::vector<Named> named() const;
  void name_again(const std::vector<Named>& tensors, std::span<std::byte* const> places);

  const Device& device() const { return device_; }
  std::uint32_t cores() const { return cores_; }

 private:
  template <class V> static NdTensor window_of(const V& view) {
    static_assert(V::rank <= NdTensor::max_rank);
    NdTensor window;
    window.first.dtype = view.dtype;
    window.rank = V::rank;
    std::copy(view.extents.begin(), view.extents.end(), window.extents.begin());
    std::copy(view.strides.begin(), view.strides.end(), window.strides.begin());
    return window;
  }
  NdTensor bind(std::string name, NdTensor window, std::byte* data, Use use, Site site);

 protected:
  // `cores`: that programs may use; 0: all of the device.
  GlobalMemory(const Device& device, std::uint32_t cores, bool shadowed, bool data = true);
  ~GlobalMemory();

  std::uint32_t cores_of(Launch launch) const { return launch.cores == 0 ? cores_ : std::min(launch.cores, cores_); }

  const Device& device_;
  std::uint32_t cores_;
  const std::unique_ptr<Memories> held_;
  Memories& memories_;

 private:
  std::optional<std::span<std::byte>> lent_;
  std::uint64_t taken_ = 0;
};

// A memory that nothing runs in, for what a program asks of it: the bytes of its workspace.
class PlanningMemory : public GlobalMemory {
 public:
  explicit PlanningMemory(const Device& device, std::uint32_t cores = 0);
};

}  // namespace inlay::npu
