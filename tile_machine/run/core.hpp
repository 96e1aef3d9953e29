// What a tile program sees: one core of the machine, and about thirty verbs. Programs are functions over it,
//
//   void gemm(Core& core, const GemmOperands& op);
//
// and run unchanged checked (Machine) and fast (FunctionalMachine). A verb puts one entry into the queue
// of its pipe and returns; only scalar_read, wait(.., scalar), barrier_all and sync_all stop the program.
// What a verb cannot do it reports (capacity, alignment, illegal_path, use_after_release) and leaves out.
//
// A core may have several scalar streams (Device::streams; Ascend's has one for its cube core and two for its
// vector cores). The program runs once on each. A verb of a pipe that the stream does not have is left out
// there, as is an allocation of a memory that it does not have: the tensor has a shape and no bytes. Scalar
// work is done by each. So all streams go the same way through the program, each doing its part, and meet where a
// flag or a ring joins pipes of two streams: a set reaches every stream that has the other pipe, a wait takes a
// set of each of them.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tile_machine/arithmetic/tensor.hpp"
#include "tile_machine/arithmetic/tiles.hpp"
#include "tile_machine/run/chain.hpp"
#include "tile_machine/run/memory.hpp"
#include "tile_machine/run/mutation.hpp"
#include "tile_machine/run/pipe_order.hpp"
#include "tile_machine/run/ring.hpp"
#include "tile_machine/run/run.hpp"
#include "tile_machine/run/scheduler.hpp"
#include "tile_machine/run/script.hpp"
#include "tile_machine/tape/report.hpp"
#include "tile_machine/tape/tape.hpp"

namespace inlay::npu {

class ScalarTable;

// A row of a table that a whole number in memory names: of `count` rows, `bytes` apart, row numbers[0, at].
struct NamedRow {
  Tensor numbers;
  index at = 0, count = 0, bytes = 0;
  // .. of what stands along the first axis of `table`.
  static NamedRow of(const NdTensor& table, const Tensor& numbers, index at) {
    return {numbers, at, table.extent(0), table.stride(0) * bits(table.first.dtype) / 8};  // may run backwards
  }
};

class Core {
 public:
  using Site = SourceLocation;

  Core(Run& run, std::uint32_t stream);  // of all cores
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  std::uint32_t block_idx() const { return index_; }
  std::uint32_t block_dim() const { return run_.cores; }
  // The streams that have the vector unit share what is done by rows: this one is vector_idx() of vector_dim().
  std::uint32_t vector_idx() const { return vector_idx_; }
  std::uint32_t vector_dim() const { return vector_dim_; }
  // .. and among those of all cores.
  index vector_worker() const { return index{index_} * vector_dim_ + vector_idx_; }
  index vector_workers() const { return index{run_.cores} * vector_dim_; }
  bool runs(Pipe pipe) const { return runs_[static_cast<std::size_t>(pipe)]; }  // the pipe is this stream's
  const Device& device() const { return run_.device; }
  // The program threw: what goes out of scope asks for nothing any more.
  bool unwinding() const { return std::uncaught_exceptions() > exceptions_; }

  // Memory. Rows of nd tiles start at granules of the memory unless `rows` or `columns` is one.
  Tensor alloc(std::string_view name, Space space, Shape shape, DType dtype, Layout layout = Layout::nd,
               Site site = Site::current());
  void release(const Tensor& tensor, Site site = Site::current());
  Ring ring(std::string_view name, Space space, Shape shape, DType dtype, Flow flow, Layout layout = Layout::nd,
            Site site = Site::current());
  // .. of tiles that are there already, such as parts of a workspace that two pipes share.
  Ring ring(std::string_view name, std::vector<Tensor> tiles, Pipe producer, Pipe consumer,
            Site site = Site::current());

  // .. of several tiles each, which share its flags.
  template <std::size_t N>
  TupleRing<N> ring(std::string_view name, const std::array<TileForm, N>& forms, Flow flow,
                    Site site = Site::current()) {
    return TupleRing<N>(ring(name, forms.data(), N, flow, site));
  }

  // DMA. The pipe is that of the device's path between the two spaces.
  void copy(const Tensor& to, const Tensor& from, Site site = Site::current());  // strided, same layout
  // By axes of equal extents, any strides on either side: the price is that of the runs that both sides have.
  void copy(const NdTensor& to, const NdTensor& from, Site site = Site::current());
  // .. of a row that the scalar unit looks up, from what lies in row 0.
  void copy_row(const NdTensor& to, const NdTensor& from_row_0, const NamedRow& row, Site site = Site::current());
  void nd2nz(const Tensor& to, const Tensor& from, Site site = Site::current());  // rows become fractal blocks
  // Rows [first, first + to.rows()) of a sequence whose blocks of `block_rows` rows lie where the table says.
  void gather_blocks(const Tensor& to, const Tensor& pool, const Tensor& table, index first, index block_rows,
                     Site site = Site::current());
  // .. with a table that is read ahead.
  void gather_blocks(const Tensor& to, const Tensor& pool, ScalarTable& table, index first, index block_rows,
                     Site site = Site::current());
  // Where left and right are views of staging, these bind: a staged tile must stay until its products have
  // read it. Rings see to that; a program with flags of its own must.
  void load_a(const Tensor& left, const Tensor& staged, Site site = Site::current());
  void load_b(const Tensor& right, const Tensor& staged, bool transpose = false, Site site = Site::current());
  void drain(const Tensor& to, const Tensor& acc, const DrainOptions& options = {}, Site site = Site::current());
  void atomic_add(const Tensor& to, const Tensor& from, Site site = Site::current());

  // acc[m, n] (+)= a[m, k] * b[k, n]; init: acc starts at zero.
  void mma(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site = Site::current());

  // Vector unit (tiles.hpp says what each does to its elements). An operation that the device's description gives
  // no price is not there, and is refused. The second operand of binaries may be one row or one column for all.
  void vbinary(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b, Site site = Site::current());
  void vscalar(VectorOp op, const Tensor& dst, const Tensor& a, Scalar b, Site site = Site::current());
  // .. or one element for `group` columns each: a scale for 32 or 128 of them.
  void vgrouped(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b, index group,
                Site site = Site::current());
  void vunary(VectorOp op, const Tensor& dst, const Tensor& a, Site site = Site::current());
  void vcompare(Compare how, const Tensor& mask, const Tensor& a, const Tensor& b, Site site = Site::current());
  void vcompare(Compare how, const Tensor& mask, const Tensor& a, Scalar b, Site site = Site::current());
  void vselect(const Tensor& dst, const Tensor& mask, const Tensor& yes, const Tensor& no, Site site = Site::current());
  void vreduce(VectorOp op, const Tensor& dst, const Tensor& a, Site site = Site::current());          // of each row
  void vreduce_columns(VectorOp op, const Tensor& dst, const Tensor& a, Site site = Site::current());  // of each column
  void vargmax(const Tensor& value, const Tensor& column, const Tensor& a, Site site = Site::current());
  // The values.columns() largest of each row in falling order, and their columns; of all: a sort.
  void vtopk(const Tensor& values, const Tensor& columns, const Tensor& a, Site site = Site::current());
  void vbroadcast_row(const Tensor& dst, const Tensor& a, Site site = Site::current());
  void vcast(const Tensor& dst, const Tensor& a, Round round = Round::nearest, Site site = Site::current());
  void unpack4(const Tensor& dst, const Tensor& a, Site site = Site::current());
  void vshuffle(const Tensor& dst, const Tensor& a, const Tensor& columns, Site site = Site::current());
  void vgather(const Tensor& dst, const Tensor& a, const Tensor& columns, Site site = Site::current());
  void viota(const Tensor& dst, Iota sequence, Site site = Site::current());
  void vfill(const Tensor& dst, float value, Site site = Site::current());
  void vtranspose(const Tensor& dst, const Tensor& a, Site site = Site::current());
  void vpack_nz(const Tensor& dst, const Tensor& a, Site site = Site::current());    // nd -> nz
  void vunpack_nz(const Tensor& dst, const Tensor& a, Site site = Site::current());  // nz -> nd

  // Scalar unit: one element. Both stop the program until they are done.
  double scalar_read(const Tensor& from, index row, index column, Site site = Site::current());
  // The streams with a vector unit write.
  void scalar_write(const Tensor& to, index row, index column, double value, Site site = Site::current());

  // A report of a helper that finds its arguments wrong; what follows is left out.
  void refuse(const char* what, const std::string& why, Site site) { illegal(what, why, site); }

  // Sync. set and wait of one channel pair up in order.
  void set(Pipe from, Pipe to, std::uint16_t flag, Site site = Site::current());
  void wait(Pipe from, Pipe to, std::uint16_t flag, Site site = Site::current());
  void barrier(Pipe pipe, Site site = Site::current());
  Chain chain(Pipe pipe);  // a scope that puts the pipe's barriers by itself
  void barrier_all(Site site = Site::current());
  void cross_set(Pipe pipe, std::uint32_t core, std::uint16_t flag, Site site = Site::current());
  void cross_wait(Pipe pipe, std::uint16_t flag, Site site = Site::current());
  void sync_all(Site site = Site::current());

 private:
  friend class Chain;
  friend class Ring;
  struct OpenChain {  // of a queue
    std::uint32_t scopes = 0;
    std::uint64_t works = 0;  // since its last barrier
    std::optional<PipeOrder> order;
  };
  struct Access {
    const Tensor& tensor;
    bool write = false, atomic = false;
  };
  struct Slot {  // of a ring: views of it that live, and the release that waits for them
    std::uint32_t views = 0;
    bool late = false;
    Pipe from = Pipe::scalar, to = Pipe::scalar;
    std::uint16_t flag = 0;
    Site site;
  };

  struct Wait {  // of a ring, for a slot; put when the slot is used
    std::uint32_t slot, ring;
    Pipe from, to;
    std::uint16_t flag;
    bool unit;
    const char* verb;
    Site site;
  };

  bool has(Space space) const { return has_[static_cast<std::size_t>(space)]; }
  bool across(Pipe from, Pipe to) const;  // they are of different streams
  // A flag's set or wait is this stream's.
  bool is_mine(Event event, Pipe from, Pipe to) const;
  bool moves_here(const Tensor& to, const Tensor& from) const;
  std::uint32_t number() const { return index_ * static_cast<std::uint32_t>(run_.kinds.size()) + stream_; }
  bool checked() const { return run_.scheduler != nullptr; }
  bool stopped() const { return run_.failed || run_.streams.cancelled(); }
  void leave_if_full() const {
    if (run_.full) throw TapeIsFull{};
  }
  Pipe role(Pipe pipe) const { return pipe == Pipe::feed && views_ ? Pipe::matrix : pipe; }
  void report(ReportKind kind, std::string message, Site site, std::uint32_t buffer = none);
  void illegal(const char* verb, const std::string& why, Site site);
  bool mutated(MutationKind kind, const char* verb, Site site);
  Tensor form(Space space, Shape shape, DType dtype, Layout layout, const char* verb, Site site);
  Tensor resolve(const Tensor& tensor);                              // through its view, after its ring's waits
  Tensor target(const Tensor& tensor, const char* verb, Site site);  // .. of a write: may be mutated
  bool usable(const char* verb, std::initializer_list<const Tensor*> tensors, Site site);
  bool aligned(const char* verb, const Tensor& tensor, Site site);
  bool aligned_rows(const char* verb, const Tensor& tensor, std::uint32_t align, std::string_view of, Site site);
  const Path* legal_path(const char* verb, const Tensor& to, const Tensor& from, Site site);
  void move(const char* verb, const Tensor& to, const Tensor& from, Change change, Site site);
  bool reachable(const char* verb, const NdTensor& tensor, index run, Site site);
  struct CopyByAxes {
    NdTensor to, from;
    std::byte *into, *out_of;
    void operator()() const { tiles::copy_by_axes(to, into, from, out_of); }
  };
  // What a copy does, resolved; none: nothing, and a report if that is wrong.
  std::optional<CopyByAxes> copying(const NdTensor& to, const NdTensor& from, Site site);
  void gather(const Tensor& to, const Tensor& pool, const std::function<index(index)>& table, index first,
              index block_rows, Site site);
  void bind(const char* verb, const Tensor& view, const Tensor& staged, Site site);
  bool drains(DType from, DType to, const DrainOptions& options, Site site);
  bool drain_row(const Tensor& row, const Tensor& to, Site site);
  Work dma_work(const Path& path, const Tensor& to, const Tensor& from, Change change = Change::none) const;
  struct Operands {  // of a vector verb, resolved; ok: they are in its memory, and the device has the operation
    std::array<Tensor, 2> target;
    std::array<Tensor, 3> source;
    std::size_t targets = 0, sources = 0;
    bool ok = false;
    const Tensor& dst() const { return target[0]; }
  };
  Operands operands(const char* verb, VectorOp op, std::initializer_list<const Tensor*> targets,
                    std::initializer_list<const Tensor*> sources, Site site);
  void misfit(const char* verb, const Tensor& dst, const Tensor& operand, Site site);
  // Is `op` one of those that the verb knows? Otherwise a report.
  bool takes(const char* verb, VectorOp op, std::initializer_list<VectorOp> known, Site site);
  void relayout(const char* verb, const Tensor& dst, const Tensor& a, Layout layout, Site site);
  bool orders(const char* verb, const Tensor& a, const Tensor& columns, Site site);
  bool takes_types(const char* verb, VectorOp op, const Operands& o, Site site);
  static void count_rows(Work& work, const Operands& o);
  void enqueue_vector(const char* verb, VectorOp op, const Operands& o, index elements, std::function<void()> body,
                      Site site);
  template <class Body>
  void vector_op(const char* verb, VectorOp op, const Operands& o, index elements, Body&& body, Site site) {
    if (!checked()) return perform(body);
    enqueue_vector(verb, op, o, elements, carried_out(Pipe::vector, body), site);
  }
  Tile tile(const Tensor& tensor) const { return {tensor, run_.memories.data(tensor)}; }
  Footprint footprint(const Access& access) const { return footprint(access, access.tensor.region()); }
  Footprint footprint(const Access& access, const Region& region) const;  // of a part of it
  Entry entry(Event event, Pipe pipe, const char* verb, Site site) const;
  void open_chain(Pipe pipe);
  void close_chain(Pipe pipe);
  void link(const Entry& entry, const std::vector<Footprint>& footprints);
  void notice(const Entry& entry, const std::vector<Footprint>& footprints);
  std::uint32_t record(const Entry& entry, const std::vector<Footprint>& footprints);
  // What stands in a queue is carried out where the run computes; scalar work always is.
  template <class Body> std::function<void()> carried_out(Pipe pipe, const Body& body) const {
    return run_.compute || pipe == Pipe::scalar ? std::function<void()>(body) : std::function<void()>();
  }
  void enqueue(const Entry& entry, std::vector<Footprint> footprints, std::function<void()> body);
  void sync_entry(Event event, Pipe pipe, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb,
                  Site site, bool unit = false);
  void stream_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb, Site site);
  void await_set(const Entry& wait);  // functional mode
  void flag_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site);
  void ring_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site, bool unit = false);
  void await(const Wait& wait) {
    if (is_mine(Event::wait, wait.from, wait.to)) waits_.push_back(wait);
  }
  void arrive(std::uint32_t slot);
  Ring ring(std::string_view name, const TileForm* forms, std::size_t count, Flow flow, Site site);
  void release_slot(std::uint32_t slot, Pipe from, Pipe to, std::uint16_t flag, Site site, bool unit);
  void release_view(std::uint32_t view);
  bool is_view_space(Space space) const { return views_ && (space == Space::left || space == Space::right); }
  std::uint32_t bind_number();
  bool take_flags(Ring& ring, std::string_view name);
  void give_flags(const Ring& ring);
  std::uint64_t& ring_flags(Pipe from, Pipe to) {
    if (across(from, to)) return stream_flags_[{device().stream_of(from), device().stream_of(to)}];
    return ring_flags_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }

  void add_footprints(std::vector<Footprint>& to, const NdTensor& tensor, bool write) const;
  // A list with the space of an earlier one.
  std::vector<Footprint> no_footprints() {
    std::vector<Footprint> list = std::move(spare_);
    list.clear();
    return list;
  }

  // Functional mode's work. `pointers`: of the step, to tensors that may lie in global memory.
  template <class Step> void perform(const Step& step, std::initializer_list<Script::Pointer> pointers = {}) {
    if (run_.script == nullptr)
      step();
    else
      run_.script->add(step, pointers);
  }
  template <class Body>
  void issue(Pipe pipe, const char* verb, Site site, const Work& work, std::initializer_list<Access> accesses,
             const Body& body, std::initializer_list<Script::Pointer> pointers = {}) {
    if (!checked()) return perform(body, pointers);
    Entry work_entry = entry(Event::work, pipe, verb, site);
    work_entry.work = work;
    std::vector<Footprint> footprints = no_footprints();
    for (const Access& access : accesses) footprints.push_back(footprint(access));
    enqueue(work_entry, std::move(footprints), carried_out(pipe, body));
  }

  Run& run_;
  std::uint32_t index_, vector_idx_ = 0, vector_dim_ = 1;
  std::uint8_t stream_;  // of the core
  std::array<bool, pipes> runs_{};
  std::array<std::uint8_t, pipes> stream_of_{};  // of a pipe
  std::array<bool, spaces> has_{};
  bool views_;
  int exceptions_ = std::uncaught_exceptions();  // of whom called
  std::vector<Tensor> bindings_;                 // of views
  std::vector<std::uint32_t> free_bindings_;
  std::vector<Slot> slots_;
  std::vector<Wait> waits_;           // that have not been put yet
  std::vector<OpenChain> chains_;     // by queue
  std::vector<std::size_t> chained_;  // queues that need barriers
  std::vector<Footprint> spare_;
  // Bits: ids that rings hold, of two pipes and of two streams.
  std::array<std::array<std::uint64_t, pipes>, pipes> ring_flags_{};
  std::map<std::pair<std::uint8_t, std::uint8_t>, std::uint64_t> stream_flags_;
};

}  // namespace inlay::npu
