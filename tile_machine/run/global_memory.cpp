#include "tile_machine/run/global_memory.hpp"

#include "tile_machine/run/memory.hpp"

namespace inlay::npu {

namespace {

std::uint32_t streams_of(const Device& device) {  // of a core
  std::uint32_t count = 0;
  for (const Stream& stream : device.streams) count += stream.count;
  return std::max(1u, count);
}

}  // namespace

GlobalMemory::GlobalMemory(const Device& device, std::uint32_t cores, bool shadowed, bool data)
    : device_(device),
      cores_(cores == 0 ? std::max(1u, device.cores) : std::min(cores, std::max(1u, device.cores))),
      held_(std::make_unique<Memories>(device, cores_, streams_of(device), shadowed, data)),
      memories_(*held_) {}

GlobalMemory::~GlobalMemory() = default;

Tensor GlobalMemory::add(std::string name, std::byte* data, std::uint64_t bytes, DType dtype, Shape shape, Use use,
                         Site site) {
  Tensor result;
  result.dtype = dtype;
  result.shape = shape;
  result.pitch = shape.columns;
  if (shape.rows < 0 || shape.columns < 0 || storage_bytes(result) > bytes) {
    result.error = "a tensor of global memory is larger than its data";
    return result;
  }
  result.buffer = memories_.add_global(std::move(name), data, {Region{0, 1, bytes, 0}}, use, site);
  return result;
}

NdTensor GlobalMemory::bind(std::string name, NdTensor window, std::byte* data, Use use, Site site) {
  Tensor& first = window.first;
  first.shape = {1, 1};
  first.pitch = 1;
  for (int axis = 0; axis < window.rank; ++axis)
    if (window.extent(axis) < 0) first.error = "a view has a negative extent";
  if (first.error != nullptr) return window;
  if (data == nullptr && !window.empty()) first.error = "a view has elements and no memory";
  if (use != Use::in && !elements_apart(window)) first.error = "elements of a view that is written share memory";
  const std::int64_t lowest = span_of(window).begin;  // counted from the first element, bytes of a buffer from its own
  if (bits(first.dtype) == 4)
    for (int axis = 0; axis < window.rank; ++axis)
      if (window.stride(axis) < 0) first.error = "a view of half bytes runs backwards";
  if (first.error != nullptr) return window;
  first.begin = static_cast<std::uint64_t>(-lowest);
  first.buffer = memories_.add_global(std::move(name), data + lowest, regions_of(window), use, site);
  return window;
}

Tensor GlobalMemory::absent(std::string name, DType dtype, Shape shape, Use use, Site site) {
  Tensor form;
  form.dtype = dtype;
  form.shape = shape;
  form.pitch = shape.columns;
  return add(std::move(name), nullptr, shape.rows < 0 || shape.columns < 0 ? 0 : storage_bytes(form), dtype, shape, use,
             site);
}

Tensor GlobalMemory::workspace(std::string name, Shape shape, DType dtype, Site site) {
  Tensor result;
  result.dtype = dtype;
  result.shape = shape;
  result.pitch = shape.columns;
  if (shape.rows < 0 || shape.columns < 0) {
    result.error = "a workspace of negative extent";
    return result;
  }
  const std::uint64_t bytes = storage_bytes(result), first = taken_;
  taken_ += (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  if (!lent_) {
    result.buffer = memories_.add_workspace(std::move(name), bytes, nullptr, site);
  } else if (first + bytes > lent_->size()) {
    result.error = "a workspace is larger than what the caller has lent";
  } else {
    result.buffer = memories_.add_workspace(std::move(name), bytes, lent_->data() + first, site);
  }
  return result;
}

void GlobalMemory::lend(std::span<std::byte> workspace) { lent_ = workspace; }

void GlobalMemory::forget() {
  memories_.forget();
  lent_.reset();
  taken_ = 0;
}

std::vector<GlobalMemory::Named> GlobalMemory::named() const {
  std::vector<Named> result;
  for (std::uint32_t id = 0; id < memories_.permanent(); ++id) {
    const Buffer& buffer = memories_.buffer(id);
    result.push_back(
        {buffer.name, memories_.first_byte(id), buffer.bytes, memories_.use(id), buffer.workspace, buffer.site});
  }
  return result;
}

void GlobalMemory::name_again(const std::vector<Named>& tensors, std::span<std::byte* const> places) {
  forget();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Named& tensor = tensors[i];
    if (tensor.workspace)
      memories_.add_workspace(tensor.name, tensor.bytes, places[i], tensor.site);
    else
      memories_.add_global(tensor.name, places[i], {Region{0, 1, tensor.bytes, 0}}, tensor.use, tensor.site);
  }
}

}  // namespace inlay::npu
