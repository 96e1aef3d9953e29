// What a tile program sees: one core of the machine, and about thirty verbs. Programs are functions over it,
//
//   void gemm(Core& core, const GemmOperands& op);
//
// and run unchanged checked (Machine) and fast (FunctionalMachine). A verb puts one entry into the queue
// of its pipe and returns; only scalar_read, wait(.., scalar), barrier_all and sync_all stop the program.
// What a verb cannot do it reports (capacity, alignment, illegal_path, use_after_release) and leaves out.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "npu_kernels/machine/arithmetic/tensor.hpp"
#include "npu_kernels/machine/arithmetic/tiles.hpp"
#include "npu_kernels/machine/run/memory.hpp"
#include "npu_kernels/machine/run/mutation.hpp"
#include "npu_kernels/machine/run/ring.hpp"
#include "npu_kernels/machine/run/scheduler.hpp"
#include "npu_kernels/machine/tape/report.hpp"
#include "npu_kernels/machine/tape/tape.hpp"

namespace inlay::npu {

// What the cores of one run share. Functional mode has no scheduler, tape or mutations.
struct Run {
  const Device& device;
  std::uint32_t cores;
  Memories& memories;
  Reports reports{};
  Streams streams{};
  Scheduler* scheduler = nullptr;
  Tape* tape = nullptr;
  Mutations* mutations = nullptr;
  std::vector<std::uint64_t> meetings{};                                         // functional mode: sync_all by core,
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::uint64_t> crossings{};  // sets that stand, by core and flag
  bool compute = true;                                                           // Options::compute
  Isa isa = Isa::scalar;  // of the host, for functional mode's products
  bool failed = false;    // after a report that leaves work out
};

class Core {
 public:
  using Site = SourceLocation;

  Core(Run& run, std::uint32_t index);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  std::uint32_t block_idx() const { return index_; }
  std::uint32_t block_dim() const { return run_.cores; }
  const Device& device() const { return run_.device; }
  index fractal_block(DType dtype) const;  // columns of a block of the nz layout

  // Memory. Rows of nd tiles start at granules of the memory unless `rows` or `columns` is one.
  Tensor alloc(std::string_view name, Space space, Shape shape, DType dtype, Layout layout = Layout::nd,
               Site site = Site::current());
  void release(const Tensor& tensor, Site site = Site::current());
  Ring ring(std::string_view name, Space space, Shape shape, DType dtype, Flow flow, Layout layout = Layout::nd,
            Site site = Site::current());
  // .. of tiles that are there already, such as parts of a workspace that two pipes share.
  Ring ring(std::string_view name, std::vector<Tensor> tiles, Pipe producer, Pipe consumer,
            Site site = Site::current());

  // DMA. The pipe is that of the device's path between the two spaces.
  void copy(const Tensor& to, const Tensor& from, Site site = Site::current());   // strided, same layout
  void nd2nz(const Tensor& to, const Tensor& from, Site site = Site::current());  // rows become fractal blocks
  // Rows [first, first + to.rows()) of a sequence whose blocks of `block_rows` rows lie where the table says.
  void gather_blocks(const Tensor& to, const Tensor& pool, const Tensor& table, index first, index block_rows,
                     Site site = Site::current());
  // Where left and right are views of staging, these bind: a staged tile must stay until its products have
  // read it. Rings see to that; a program with flags of its own must.
  void load_a(const Tensor& left, const Tensor& staged, Site site = Site::current());
  void load_b(const Tensor& right, const Tensor& staged, bool transpose = false, Site site = Site::current());
  void drain(const Tensor& to, const Tensor& acc, DrainOptions options = {}, Site site = Site::current());
  void atomic_add(const Tensor& to, const Tensor& from, Site site = Site::current());

  // acc[m, n] (+)= a[m, k] * b[k, n]; init: acc starts at zero.
  void mma(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site = Site::current());

  // Vector unit. The second operand of binaries may be one row or one column for all.
  void vbinary(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b, Site site = Site::current());
  void vscalar(VectorOp op, const Tensor& dst, const Tensor& a, float b, Site site = Site::current());
  void vunary(VectorOp op, const Tensor& dst, const Tensor& a, Site site = Site::current());
  void vreduce(VectorOp op, const Tensor& dst, const Tensor& a, Site site = Site::current());
  void vbroadcast_row(const Tensor& dst, const Tensor& a, Site site = Site::current());
  void vcast(const Tensor& dst, const Tensor& a, Round round = Round::nearest, Site site = Site::current());
  void vselect(const Tensor& dst, const Tensor& mask, const Tensor& yes, const Tensor& no, Site site = Site::current());
  void unpack4(const Tensor& dst, const Tensor& a, Site site = Site::current());
  void vshuffle(const Tensor& dst, const Tensor& a, const Tensor& columns, Site site = Site::current());
  void vfill(const Tensor& dst, float value, Site site = Site::current());
  double scalar_read(const Tensor& from, index row, index column, Site site = Site::current());

  // Sync. set and wait of one channel pair up in order.
  void set(Pipe from, Pipe to, std::uint16_t flag, Site site = Site::current());
  void wait(Pipe from, Pipe to, std::uint16_t flag, Site site = Site::current());
  void barrier(Pipe pipe, Site site = Site::current());
  void barrier_all(Site site = Site::current());
  void cross_set(Pipe pipe, std::uint32_t core, std::uint16_t flag, Site site = Site::current());
  void cross_wait(Pipe pipe, std::uint16_t flag, Site site = Site::current());
  void sync_all(Site site = Site::current());

 private:
  friend class Ring;
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

  bool checked() const { return run_.scheduler != nullptr; }
  bool stopped() const { return run_.failed || run_.streams.cancelled(); }
  Pipe role(Pipe pipe) const { return pipe == Pipe::feed && views_ ? Pipe::matrix : pipe; }
  void report(ReportKind kind, std::string message, Site site, std::uint32_t buffer = none);
  void illegal(const char* verb, const std::string& why, Site site);
  bool mutated(MutationKind kind, const char* verb, Site site);
  Tensor form(Space space, Shape shape, DType dtype, Layout layout, const char* verb, Site site);
  Tensor resolve(const Tensor& tensor) const;                        // through its view
  Tensor target(const Tensor& tensor, const char* verb, Site site);  // .. of a write: may be mutated
  bool usable(const char* verb, std::initializer_list<const Tensor*> tensors, Site site);
  bool aligned(const char* verb, const Tensor& tensor, Site site);
  bool aligned_rows(const char* verb, const Tensor& tensor, std::uint32_t align, std::string_view of, Site site);
  const Path* legal_path(const char* verb, const Tensor& to, const Tensor& from, Site site);
  void move(const char* verb, const Tensor& to, const Tensor& from, Change change, Site site);
  void bind(const char* verb, const Tensor& view, const Tensor& staged, Site site);
  Work dma_work(const Path& path, const Tensor& to, const Tensor& from, Change change = Change::none) const;
  struct Operands;
  Operands operands(const char* verb, VectorOp op, const Tensor& dst, std::initializer_list<const Tensor*> sources,
                    Site site);
  void misfit(const char* verb, const Tensor& dst, const Tensor& operand, Site site);
  // Is `op` one of those that the verb knows? Otherwise a report.
  bool takes(const char* verb, VectorOp op, std::initializer_list<VectorOp> known, Site site);
  void vector_op(const char* verb, VectorOp op, const Tensor& dst, std::initializer_list<const Tensor*> sources,
                 index elements, Site site, std::function<void()> body);
  Tile tile(const Tensor& tensor) const { return {tensor, run_.memories.data(tensor)}; }
  Footprint footprint(const Access& access) const;
  Entry entry(Event event, Pipe pipe, const char* verb, Site site) const;
  std::uint32_t record(Entry& entry, const std::vector<Footprint>& footprints);
  void enqueue(Entry entry, std::vector<Footprint> footprints, std::function<void()> body);
  void sync_entry(Event event, Pipe pipe, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb,
                  Site site, bool unit = false);
  void flag_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site);
  void ring_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site, bool unit = false);
  void release_slot(std::uint32_t slot, Pipe from, Pipe to, std::uint16_t flag, Site site, bool unit);
  void release_view(std::uint32_t view);
  bool is_view_space(Space space) const { return views_ && (space == Space::left || space == Space::right); }
  std::uint32_t bind_number();
  bool take_flags(Ring& ring, std::string_view name);
  void give_flags(const Ring& ring);
  std::uint64_t& ring_flags(Pipe from, Pipe to) {
    return ring_flags_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }

  template <class Body>
  void issue(Pipe pipe, const char* verb, Site site, const Work& work, std::initializer_list<Access> accesses,
             Body&& body) {
    if (!checked()) return body();
    Entry work_entry = entry(Event::work, pipe, verb, site);
    work_entry.work = work;
    std::vector<Footprint> footprints;
    for (const Access& access : accesses) footprints.push_back(footprint(access));
    enqueue(work_entry, std::move(footprints), std::forward<Body>(body));
  }

  Run& run_;
  std::uint32_t index_;
  bool views_;
  std::vector<Tensor> bindings_;  // of views
  std::vector<std::uint32_t> free_bindings_;
  std::vector<Slot> slots_;
  tiles::HostBuffers host_;
  std::array<std::array<std::uint64_t, pipes>, pipes> ring_flags_{};  // bits: ids that rings hold
};

}  // namespace inlay::npu
