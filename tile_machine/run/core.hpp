// What a tile program sees: one core of the machine, and about thirty verbs. Programs are functions over it,
//
//   void gemm(Core& core, const GemmOperands& op);
//
// and run unchanged checked (Machine) and fast (FunctionalMachine): each brings its own implementation of the verbs
// (checked_core.hpp, functional_core.hpp). A verb puts one entry into the queue of its pipe and returns; only
// scalar_read, wait(.., scalar), barrier_all and sync_all stop the program. What a verb cannot do it reports
// (capacity, alignment, illegal_path, use_after_release) and leaves out.
//
// A core may have several scalar streams (Device::streams; Ascend's has one for its cube core and two for its
// vector cores). The program runs once on each. A verb of a pipe that the stream does not have is left out
// there, as is an allocation of a memory that it does not have: the tensor has a shape and no bytes. Scalar
// work is done by each. So all streams go the same way through the program, each doing its part, and meet where a
// flag or a ring joins pipes of two streams: a set reaches every stream that has the other pipe, a wait takes a
// set of each of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "tile_machine/arithmetic/tensor.hpp"
#include "tile_machine/run/ring.hpp"

namespace inlay::npu {

class ScalarTable;

// A row of a table that a whole number in memory names: of `count` rows, `bytes` apart, row numbers[0, at].
struct NamedRow {
  Tensor numbers;
  index at = 0, count = 0, bytes = 0;
  // A row of what stands along the first axis of `table`.
  static NamedRow of(const NdTensor& table, const Tensor& numbers, index at) {
    return {numbers, at, table.extent(0), table.stride(0) * bits(table.first.dtype) / 8};  // may run backwards
  }
  // Row `number` of what lies in row 0; one that the table does not have is an error of the tensor.
  NdTensor in(const NdTensor& row_0, index number) const {
    NdTensor row = row_0;
    row.first.begin += static_cast<std::uint64_t>(number * bytes);
    if (number < 0 || number >= count) row.first.error = "a row that the table does not have";
    return row;
  }
};

// A scope in which the verbs of a pipe wait for one another by themselves:
//
//   const AutoBarrier chain = core.auto_barrier(Pipe::vector);
//   core.vbinary(VectorOp::mul, x2, x, x);
//   core.vreduce(VectorOp::reduce_sum, sum, x2);       a barrier goes before this one: it reads x2
//   core.vunary(VectorOp::rsqrt, scale, sum);          and before this one
//
// From the footprints it knows which verbs depend on one another, from flags and rings which of these have an order
// already, and puts the barriers that are left, each as late as it can. What another pipe reads still takes a flag or
// a ring. A pipe that sees its own results (Queue::in_order_visible) gets none.
class [[nodiscard]] AutoBarrier {
 public:
  AutoBarrier(const AutoBarrier&) = delete;
  AutoBarrier& operator=(const AutoBarrier&) = delete;
  ~AutoBarrier();

 private:
  friend class MachineCore;
  AutoBarrier(MachineCore& core, Pipe pipe);

  MachineCore& core_;
  Pipe pipe_;
};

class Core {
 public:
  using Site = SourceLocation;

  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  std::uint32_t block_idx() const { return index_; }
  std::uint32_t block_dim() const { return cores_; }
  // The streams that have the vector unit share what is done by rows: this one is vector_idx() of vector_dim().
  std::uint32_t vector_idx() const { return vector_idx_; }
  std::uint32_t vector_dim() const { return vector_dim_; }
  // The same among those of all cores.
  index vector_worker() const { return index{index_} * vector_dim_ + vector_idx_; }
  index vector_workers() const { return index{cores_} * vector_dim_; }
  bool runs(Pipe pipe) const { return runs_[static_cast<std::size_t>(pipe)]; }  // the pipe is this stream's
  const Device& device() const { return device_; }
  // The program threw: what goes out of scope asks for nothing any more.
  bool unwinding() const { return std::uncaught_exceptions() > exceptions_; }

  // Memory. Rows of nd tiles start at granules of the memory unless `rows` or `columns` is one.
  virtual Tensor alloc(std::string_view name, Space space, Shape shape, DType dtype, Layout layout = Layout::nd,
                       Site site = Site::current()) = 0;
  virtual void release(const Tensor& tensor, Site site = Site::current()) = 0;
  Ring ring(std::string_view name, Space space, Shape shape, DType dtype, Flow flow, Layout layout = Layout::nd,
            Site site = Site::current());
  // A ring of tiles that are there already, such as parts of a workspace that two pipes share.
  virtual Ring ring(std::string_view name, std::vector<Tensor> tiles, Pipe producer, Pipe consumer,
                    Site site = Site::current()) = 0;

  // A ring of several tiles a slot, which share its flags.
  template <std::size_t N>
  TupleRing<N> ring(std::string_view name, const std::array<TileForm, N>& forms, Flow flow,
                    Site site = Site::current()) {
    return TupleRing<N>(ring_of(name, forms.data(), N, flow, site));
  }

  // DMA. The pipe is that of the device's path between the two spaces.
  virtual void copy(const Tensor& to, const Tensor& from, Site site = Site::current()) = 0;  // strided, same layout
  // By axes of equal extents, any strides on either side: the price is that of the runs that both sides have.
  virtual void copy(const NdTensor& to, const NdTensor& from, Site site = Site::current()) = 0;
  // From a row that the scalar unit looks up, as from what lies in row 0.
  virtual void copy_row(const NdTensor& to, const NdTensor& from_row_0, const NamedRow& row,
                        Site site = Site::current()) = 0;
  virtual void nd2nz(const Tensor& to, const Tensor& from,
                     Site site = Site::current()) = 0;  // rows become fractal blocks
  // Rows [first, first + to.rows()) of a sequence whose blocks of `block_rows` rows lie where the table says.
  virtual void gather_blocks(const Tensor& to, const Tensor& pool, const Tensor& table, index first, index block_rows,
                             Site site = Site::current()) = 0;
  // The same with a table that is read ahead.
  virtual void gather_blocks(const Tensor& to, const Tensor& pool, ScalarTable& table, index first, index block_rows,
                             Site site = Site::current()) = 0;
  // Where left and right are views of staging, these bind: a staged tile must stay until its products have
  // read it. Rings see to that; a program with flags of its own must.
  virtual void load_a(const Tensor& left, const Tensor& staged, Site site = Site::current()) = 0;
  virtual void load_b(const Tensor& right, const Tensor& staged, bool transpose = false,
                      Site site = Site::current()) = 0;
  virtual void drain(const Tensor& to, const Tensor& acc, const DrainOptions& options = {},
                     Site site = Site::current()) = 0;
  virtual void atomic_add(const Tensor& to, const Tensor& from, Site site = Site::current()) = 0;

  // acc[m, n] (+)= a[m, k] * b[k, n]; init: acc starts at zero.
  virtual void mma(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site = Site::current()) = 0;

  // Vector unit (tiles.hpp says what each does to its elements). An operation that the device's description gives
  // no price is not there, and is refused. The second operand of binaries may be one row or one column for all.
  virtual void vbinary(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b,
                       Site site = Site::current()) = 0;
  virtual void vscalar(VectorOp op, const Tensor& dst, const Tensor& a, Scalar b, Site site = Site::current()) = 0;
  // The second operand has one element for `group` columns each: a scale for 32 or 128 of them.
  virtual void vgrouped(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b, index group,
                        Site site = Site::current()) = 0;
  virtual void vunary(VectorOp op, const Tensor& dst, const Tensor& a, Site site = Site::current()) = 0;
  virtual void vcompare(Compare how, const Tensor& mask, const Tensor& a, const Tensor& b,
                        Site site = Site::current()) = 0;
  virtual void vcompare(Compare how, const Tensor& mask, const Tensor& a, Scalar b, Site site = Site::current()) = 0;
  virtual void vselect(const Tensor& dst, const Tensor& mask, const Tensor& yes, const Tensor& no,
                       Site site = Site::current()) = 0;
  virtual void vreduce(VectorOp op, const Tensor& dst, const Tensor& a,
                       Site site = Site::current()) = 0;  // of each row
  virtual void vreduce_columns(VectorOp op, const Tensor& dst, const Tensor& a,
                               Site site = Site::current()) = 0;  // of each column
  virtual void vargmax(const Tensor& value, const Tensor& column, const Tensor& a, Site site = Site::current()) = 0;
  // The values.columns() largest of each row in falling order, and their columns; of all: a sort.
  virtual void vtopk(const Tensor& values, const Tensor& columns, const Tensor& a, Site site = Site::current()) = 0;
  virtual void vbroadcast_row(const Tensor& dst, const Tensor& a, Site site = Site::current()) = 0;
  virtual void vcast(const Tensor& dst, const Tensor& a, Round round = Round::nearest, Site site = Site::current()) = 0;
  virtual void unpack4(const Tensor& dst, const Tensor& a, Site site = Site::current()) = 0;
  virtual void vshuffle(const Tensor& dst, const Tensor& a, const Tensor& columns, Site site = Site::current()) = 0;
  virtual void vgather(const Tensor& dst, const Tensor& a, const Tensor& columns, Site site = Site::current()) = 0;
  virtual void viota(const Tensor& dst, Iota sequence, Site site = Site::current()) = 0;
  virtual void vfill(const Tensor& dst, float value, Site site = Site::current()) = 0;
  virtual void vtranspose(const Tensor& dst, const Tensor& a, Site site = Site::current()) = 0;
  virtual void vpack_nz(const Tensor& dst, const Tensor& a, Site site = Site::current()) = 0;    // nd -> nz
  virtual void vunpack_nz(const Tensor& dst, const Tensor& a, Site site = Site::current()) = 0;  // nz -> nd

  // Scalar unit: one element. Both stop the program until they are done.
  virtual double scalar_read(const Tensor& from, index row, index column, Site site = Site::current()) = 0;
  // The streams with a vector unit write.
  virtual void scalar_write(const Tensor& to, index row, index column, double value, Site site = Site::current()) = 0;

  // The scalar unit's cache of global memory, where the device leaves it to the program (ScalarReads::coherent; else
  // nothing is done). clean: what this stream has written of the tensor's lines goes to memory, for others to read.
  // invalidate: it has none of these lines, and sees what others wrote before.
  virtual void scalar_clean(const Tensor& tensor, Site site = Site::current()) = 0;
  virtual void scalar_invalidate(const Tensor& tensor, Site site = Site::current()) = 0;

  // A report of a helper that finds its arguments wrong; what follows is left out.
  virtual void refuse(const char* what, const std::string& why, Site site) = 0;

  // Sync. set and wait of one channel pair up in order.
  virtual void set(Pipe from, Pipe to, std::uint16_t flag, Site site = Site::current()) = 0;
  virtual void wait(Pipe from, Pipe to, std::uint16_t flag, Site site = Site::current()) = 0;
  virtual void barrier(Pipe pipe, Site site = Site::current()) = 0;
  virtual AutoBarrier auto_barrier(Pipe pipe) = 0;  // a scope that puts the pipe's barriers by itself
  virtual void barrier_all(Site site = Site::current()) = 0;
  virtual void cross_set(Pipe pipe, std::uint32_t core, std::uint16_t flag, Site site = Site::current()) = 0;
  virtual void cross_wait(Pipe pipe, std::uint16_t flag, Site site = Site::current()) = 0;
  virtual void sync_all(Site site = Site::current()) = 0;

 protected:
  Core(const Device& device, std::uint32_t cores) : device_(device), cores_(cores) {}
  ~Core() = default;

  virtual Ring ring_of(std::string_view name, const TileForm* forms, std::size_t count, Flow flow, Site site) = 0;

  const Device& device_;
  std::uint32_t cores_, index_ = 0, vector_idx_ = 0, vector_dim_ = 1;
  std::array<bool, pipes> runs_{};

 private:
  int exceptions_ = std::uncaught_exceptions();  // of whom called
};

inline Ring Core::ring(std::string_view name, Space space, Shape shape, DType dtype, Flow flow, Layout layout,
                       Site site) {
  const TileForm form{name, space, shape, dtype, layout};
  return ring_of(name, &form, 1, flow, site);
}

}  // namespace inlay::npu
