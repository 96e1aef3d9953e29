// How a launcher of cl_kernels/<op>.cpp starts a kernel: one struct of sizes, strides and numbers, which host and
// device compile from one header (support/arguments.clh), and buffers by the names that the kernel gives them, in its
// order. The kernel takes the buffers first.
//
//   const ProgramKey key = ProgramKey("skeleton").number("LANES", lanes).type("T", op.x.dtype);
//   return launch(cl, key, "skeleton", {.groups = {rows}, .lanes = {lanes}},
//                 SkeletonArguments{.x_stride = op.x.strides[0], .dim = dim, .slope = op.slope},
//                 {{"x", op.x}, {"y", op.y}});
//
// The struct begins with the element of each buffer where its view begins, which launch fills in. An absent view is
// null and begins at 0. Where programs are built with -cl-kernel-arg-info, a name or a type that is not the kernel's is
// an error: so are all operators' tests.
#pragma once

#include <initializer_list>
#include <span>

#include "cl_kernels/runtime/runtime.hpp"
#include "cl_kernels/support/arguments.clh"

namespace inlay::cl {

// How kernels spell what a pointer points to.
constexpr const char* element_name(DType type) {
  constexpr const char* table[dtype_count] = {"float", "half",  "ushort", "char", "uchar",
                                              "uchar", "uchar", "int",    "long", "uchar"};
  return table[static_cast<int>(type)];
}
template <class T> inline constexpr const char* element_name_of = nullptr;
template <> inline constexpr const char* element_name_of<float> = "float";
template <> inline constexpr const char* element_name_of<std::int8_t> = "char";
template <> inline constexpr const char* element_name_of<cl_int> = "int";
template <> inline constexpr const char* element_name_of<cl_uint> = "uint";
template <> inline constexpr const char* element_name_of<Long> = "long";

// A buffer as a kernel takes it: where what it is to see begins, and in elements of which type.
struct BufferArg {
  ConstClAddress address;
  int element_bits = 8;  // of an absent one too: it is divided by
  const char* element = "void";

  Long begin() const { return address.offset * 8 / element_bits; }
};

template <ViewLike V> BufferArg buffer_of(const V& view) {
  return {view.data, bits(view.dtype), element_name(view.dtype)};
}
// Of a view whose type the kernel meets at run time: it begins at a byte.
template <ViewLike V> BufferArg bytes_of(const V& view) { return {view.data, 8, "uchar"}; }

struct NamedBuffer {
  const char* name;
  BufferArg buffer;
  NamedBuffer(const char* n, const BufferArg& b) : name(n), buffer(b) {}
  template <ViewLike V> NamedBuffer(const char* n, const V& view) : NamedBuffer(n, buffer_of(view)) {}
};

// The last buffer of a kernel that reports faults, by slots of its struct.
inline constexpr const char* faults = "faults";
inline NamedBuffer faults_of(const Cl& cl) { return {faults, BufferArg{{cl.runtime().fault_record(), 0}, 32, "int"}}; }

namespace detail {

// `arguments`: the struct's bytes, with begins still to be filled in.
Status launch(Cl& cl, const ProgramKey& key, const char* name, const Grid& grid, const char* arguments_name,
              std::span<std::byte> arguments, std::span<const NamedBuffer> buffers);

}  // namespace detail

template <class Arguments>
Status launch(Cl& cl, const ProgramKey& key, const char* name, const Grid& grid, Arguments arguments,
              std::initializer_list<NamedBuffer> buffers) {
  static_assert(arguments_name<Arguments> != nullptr);
  return detail::launch(cl, key, name, grid, arguments_name<Arguments>,
                        std::as_writable_bytes(std::span(&arguments, 1)), {buffers.begin(), buffers.size()});
}

// Where a view begins, by 64: its buffer may lie over memory of the host's, which begins anywhere. 1 where the driver
// does not tell, which no vector divides.
template <class V> std::ptrdiff_t misalignment(const Cl& cl, const V& view) {
  const auto buffer = cl.runtime().memory().about(view.data.memory);
  return buffer ? (buffer->misalignment + view.data.offset) % static_cast<std::ptrdiff_t>(workspace_alignment) : 1;
}

// Do all rows of these views begin where a whole vector may be read at once (-D ALIGNED, support/types.clh)? Absent
// views do not matter. Rows are walked from their first element: a kernel that begins elsewhere asks for more. Of no
// use to a CPU, which reads vectors from anywhere.
template <class... V> bool aligned(const Cl& cl, const V&... view) {
  constexpr index width = 8;  // support/rows.clh, the per-group shape
  const auto one = [&](const auto& v) {
    if (!v.present()) return true;
    if (bits(v.dtype) < 8 || misalignment(cl, v) * 8 % (width * bits(v.dtype)) != 0) return false;
    for (int d = 0; d + 1 < std::remove_cvref_t<decltype(v)>::rank; ++d)
      if (v.extents[d] > 1 && v.strides[d] % width != 0) return false;
    return true;
  };
  return !cl.runtime().per_item() && (one(view) && ...);
}

// An entry outside 0..rows-1: the words of check_entries (core/entries.hpp).
template <class Op> FaultSlot entry_fault_slot(Cl& cl, const char* name, index rows) {
  return cl.runtime().fault_slot([name, rows](std::int64_t at, std::int64_t value) {
    return offence<Op>(invalid(std::string(name) + "[" + std::to_string(at) + "] is " + std::to_string(value) +
                               "; it must be in 0.." + std::to_string(rows - 1)));
  });
}

// Cuts a workspace into aligned arrays, in the order in which the sizes were added up: WorkspaceCutter on a device.
class BufferCutter {
 public:
  explicit BufferCutter(const SpaceWorkspace<Cl>& workspace) : at_(workspace.data()) {}
  template <class T> BufferArg take(index count, const char* element = element_name_of<T>) {
    const BufferArg cut{at_, 8 * sizeof(T), element};
    at_.offset += static_cast<std::ptrdiff_t>(WorkspaceCutter::padded<T>(count));
    return cut;
  }

 private:
  ClAddress at_;
};

}  // namespace inlay::cl
