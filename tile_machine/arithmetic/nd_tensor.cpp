#include "tile_machine/arithmetic/tensor.hpp"

#include <algorithm>
#include <cstdlib>

namespace inlay::npu {

namespace {

struct Axis {
  index extent, stride;
};

// A list of axes without memory of its own.
class Axes {
 public:
  void push_back(Axis axis) { list_[count_++] = axis; }
  void erase(Axis* which) {
    std::copy(which + 1, end(), which);
    --count_;
  }
  bool empty() const { return count_ == 0; }
  Axis* begin() { return list_.data(); }
  Axis* end() { return list_.data() + count_; }
  Axis& front() { return list_[0]; }
  Axis& back() { return list_[count_ - 1]; }

 private:
  std::array<Axis, NdTensor::max_rank> list_{};
  std::size_t count_ = 0;
};

// Those of more than one element, from the smallest stride on; backward ones turned round, equal neighbours merged.
Axes sorted_axes(const NdTensor& tensor) {
  Axes axes;
  for (int a = 0; a < tensor.rank; ++a) {
    if (tensor.extent(a) <= 1) continue;
    axes.push_back({tensor.extent(a), std::abs(tensor.stride(a))});
    for (Axis* at = axes.end() - 1; at != axes.begin() && at->stride < (at - 1)->stride; --at) std::swap(*at, at[-1]);
  }
  Axes merged;
  for (const Axis& axis : axes) {
    if (axis.stride == 0) continue;  // the same bytes again
    if (!merged.empty() && axis.stride == merged.back().stride * merged.back().extent)
      merged.back().extent *= axis.extent;
    else
      merged.push_back(axis);
  }
  return merged;
}

std::uint64_t bytes_of(DType dtype, index count) { return static_cast<std::uint64_t>(byte_size(dtype, count)); }

}  // namespace

bool NdTensor::empty() const { return size() == 0; }

index NdTensor::size() const {
  index product = 1;
  for (int a = 0; a < rank; ++a) product *= extent(a);
  return product;
}

NdTensor NdTensor::slice(int axis, index begin, index count) const {
  NdTensor part = *this;
  if (first.error != nullptr) return part;
  if (axis < 0 || axis >= rank || begin < 0 || count < 0 || begin + count > extent(axis)) {
    part.first.error = "the slice passes an axis of the tensor";
    return part;
  }
  const index bit = begin * stride(axis) * bits(first.dtype);
  if (bit % 8 != 0) part.first.error = "the slice starts in the middle of a byte";
  part.first.begin += static_cast<std::uint64_t>(bit / 8);
  part.extents[static_cast<std::size_t>(axis)] = count;
  return part;
}

NdTensor NdTensor::at(int axis, index i) const {
  NdTensor part = slice(axis, i, 1);
  if (part.first.error != nullptr) return part;
  for (int a = axis; a + 1 < rank; ++a) {
    part.extents[static_cast<std::size_t>(a)] = extent(a + 1);
    part.strides[static_cast<std::size_t>(a)] = stride(a + 1);
  }
  --part.rank;
  return part;
}

NdTensor NdTensor::split(int axis, index inner) const {
  NdTensor result = *this;
  if (first.error != nullptr) return result;
  if (axis < 0 || axis >= rank || rank == max_rank || inner < 1 || extent(axis) % inner != 0) {
    result.first.error = "an axis is split into whole parts, and there are six axes at most";
    return result;
  }
  for (int a = rank; a > axis + 1; --a) {
    result.extents[static_cast<std::size_t>(a)] = extent(a - 1);
    result.strides[static_cast<std::size_t>(a)] = stride(a - 1);
  }
  const auto outer = static_cast<std::size_t>(axis);
  result.extents[outer] = extent(axis) / inner;
  result.strides[outer] = stride(axis) * inner;
  result.extents[outer + 1] = inner;
  result.strides[outer + 1] = stride(axis);
  ++result.rank;
  return result;
}

NdTensor NdTensor::permuted(std::initializer_list<int> order) const {
  NdTensor result = *this;
  std::uint32_t named = 0;
  int a = 0;
  for (const int from : order) {
    if (from < 0 || from >= rank || a == max_rank) break;
    named |= 1u << from;
    result.extents[static_cast<std::size_t>(a)] = extent(from);
    result.strides[static_cast<std::size_t>(a++)] = stride(from);
  }
  if (first.error == nullptr && (a != rank || named != (1u << rank) - 1))
    result.first.error = "an order of axes names each of them once";
  return result;
}

Tensor NdTensor::matrix() const {
  Tensor result = first;
  if (first.error != nullptr) return result;
  const bool one = rank == 1;
  result.shape = {one ? 1 : extent(0), one ? extent(0) : extent(1)};
  result.pitch = one ? extent(0) : stride(0);
  const index step = one ? stride(0) : stride(1);
  if (rank < 1 || rank > 2)
    result.error = "rows and columns are one or two axes";
  else if (result.columns() > 1 && step != 1)
    result.error = "the columns of rows must lie side by side; a copy by axes moves others";
  else if (result.rows() > 1 && result.pitch < 0)
    result.error = "rows must lie one after another; a copy by axes moves others";
  else if (result.rows() <= 1)
    result.pitch = std::max(result.pitch, result.columns());
  return result;
}

NdTensor by_axes(const Tensor& tensor) {
  NdTensor result;
  result.first = tensor;
  result.first.shape = {1, 1};
  result.first.layout = Layout::nd;
  result.first.flipped = false;
  if (tensor.view != none) result.first.error = "an operand of the matrix unit has no axes to copy";
  const Tensor plain = tensor.flipped ? tensor.transposed() : tensor;
  if (tensor.layout == Layout::nz) {
    if (plain.columns() % plain.block != 0) result.first.error = "the blocks of an nz tensor must be full";
    result.rank = 3;
    result.extents = {plain.columns() / plain.block, plain.rows(), plain.block};
    result.strides = {plain.pitch * plain.block, plain.block, 1};
    return result;
  }
  result.rank = 2;
  result.extents = {plain.rows(), plain.columns()};
  result.strides = {plain.pitch, 1};
  return tensor.flipped ? result.permuted({1, 0}) : result;
}

std::vector<Region> regions_of(const NdTensor& tensor) {
  if (tensor.empty()) return {};
  const DType dtype = tensor.first.dtype;
  Axes axes = sorted_axes(tensor);
  index run = 1;
  if (!axes.empty() && axes.front().stride == 1) {
    run = axes.front().extent;
    axes.erase(axes.begin());
  }
  Region region{static_cast<std::uint64_t>(span_of(tensor).begin), 1, bytes_of(dtype, run), 0};
  if (!axes.empty()) {  // the axis with the most runs: the fewest regions
    const auto most =
        std::max_element(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.extent < b.extent; });
    region.runs = static_cast<std::uint64_t>(most->extent);
    region.stride = bytes_of(dtype, most->stride);
    axes.erase(most);
  }
  std::vector<Region> regions{region};
  for (const Axis& axis : axes) {
    const std::size_t inner = regions.size();
    for (index i = 1; i < axis.extent; ++i)
      for (std::size_t r = 0; r < inner; ++r) {
        regions.push_back(regions[r]);
        regions.back().begin += static_cast<std::uint64_t>(i) * bytes_of(dtype, axis.stride);
      }
  }
  return regions;
}

ByteSpan span_of(const NdTensor& tensor) {
  index low = 0, high = 0;
  for (int a = 0; a < tensor.rank; ++a) {
    const index reach = tensor.stride(a) * (tensor.extent(a) - 1);
    (reach < 0 ? low : high) += reach;
  }
  const auto first = static_cast<std::int64_t>(tensor.first.begin);
  if (tensor.empty()) return {first, first};
  return {first + low * bits(tensor.first.dtype) / 8, first + byte_size(tensor.first.dtype, high + 1)};
}

bool elements_apart(const NdTensor& tensor) {
  if (tensor.empty()) return true;
  for (int a = 0; a < tensor.rank; ++a)
    if (tensor.extent(a) > 1 && tensor.stride(a) == 0) return false;
  index covered = 1;
  Axes axes = sorted_axes(tensor);
  for (const Axis& axis : axes) {
    if (axis.stride < covered) return false;
    covered += axis.stride * (axis.extent - 1);
  }
  return true;
}

index common_run(const NdTensor& a, const NdTensor& b) {
  index run = 1;
  for (int axis = a.rank - 1; axis >= 0; --axis) {
    if (a.extent(axis) <= 1) continue;
    if (a.stride(axis) != run || b.stride(axis) != run) break;
    run *= a.extent(axis);
  }
  return run;
}

std::string describe(const NdTensor& tensor) {
  std::string text;
  for (int a = 0; a < tensor.rank; ++a) text += (a == 0 ? "" : " x ") + std::to_string(tensor.extent(a));
  return text + " " + std::string(name(tensor.first.dtype)) + " in " + std::string(name(tensor.first.space));
}

}  // namespace inlay::npu
