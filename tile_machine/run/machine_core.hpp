// The machine's side of the verbs, the same in all modes: legality, tensors, rings, and what each verb does to bytes.
// CheckedCore and FunctionalCore say what becomes of it.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tile_machine/arithmetic/tiles.hpp"
#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/report.hpp"
#include "tile_machine/run/core.hpp"
#include "tile_machine/run/memory.hpp"
#include "tile_machine/run/mutation.hpp"
#include "tile_machine/run/replay_log.hpp"
#include "tile_machine/run/streams.hpp"

namespace inlay::npu {

// The state of a run, which its cores share.
struct Run {
  const Device& device;
  std::uint32_t cores;
  std::vector<std::uint8_t> kinds;  // of the streams of each core, as in EventLog::streams
  Memories& memories;
  Streams& streams;
  Reports reports{};
  bool failed = false;  // after a report that leaves work out
  bool full = false;    // the log has as many entries as it may, or there is no memory for another one
  // Of functional mode: verbs are looked at, so many, and none is carried out.
  bool rehearsal = false;
  std::uint64_t verbs_left = 0;
};

// Ends a program whose log is full, or of which a rehearsal has seen enough, as not even the rest of its loops is worth
// its time: thrown where a ring's slot is acquired, caught by the machine.
struct LogIsFull {};

class MachineCore : public Core {
 public:
  Tensor alloc(std::string_view name, Space space, Shape shape, DType dtype, Layout layout, Site site) override;
  void release(const Tensor& tensor, Site site) override;
  Ring ring(std::string_view name, std::vector<Tensor> tiles, Pipe producer, Pipe consumer, Site site) override;
  void copy(const Tensor& to, const Tensor& from, Site site) override;
  void copy(const NdTensor& to, const NdTensor& from, Site site) override;
  void copy_row(const NdTensor& to, const NdTensor& from_row_0, const NamedRow& row, Site site) override;
  void nd2nz(const Tensor& to, const Tensor& from, Site site) override;
  void gather_blocks(const Tensor& to, const Tensor& pool, const Tensor& table, index first, index block_rows,
                     Site site) override;
  void gather_blocks(const Tensor& to, const Tensor& pool, ScalarTable& table, index first, index block_rows,
                     Site site) override;
  void load_a(const Tensor& left, const Tensor& staged, Site site) override;
  void load_b(const Tensor& right, const Tensor& staged, bool transpose, Site site) override;
  void drain(const Tensor& to, const Tensor& acc, const DrainOptions& options, Site site) override;
  void atomic_add(const Tensor& to, const Tensor& from, Site site) override;
  void mma(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site) override;
  void vbinary(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b, Site site) override;
  void vscalar(VectorOp op, const Tensor& dst, const Tensor& a, Scalar b, Site site) override;
  void vgrouped(VectorOp op, const Tensor& dst, const Tensor& a, const Tensor& b, index group, Site site) override;
  void vunary(VectorOp op, const Tensor& dst, const Tensor& a, Site site) override;
  void vcompare(Compare how, const Tensor& mask, const Tensor& a, const Tensor& b, Site site) override;
  void vcompare(Compare how, const Tensor& mask, const Tensor& a, Scalar b, Site site) override;
  void vselect(const Tensor& dst, const Tensor& mask, const Tensor& yes, const Tensor& no, Site site) override;
  void vreduce(VectorOp op, const Tensor& dst, const Tensor& a, Site site) override;
  void vreduce_columns(VectorOp op, const Tensor& dst, const Tensor& a, Site site) override;
  void vargmax(const Tensor& value, const Tensor& column, const Tensor& a, Site site) override;
  void vtopk(const Tensor& values, const Tensor& columns, const Tensor& a, Site site) override;
  void vbroadcast_row(const Tensor& dst, const Tensor& a, Site site) override;
  void vcast(const Tensor& dst, const Tensor& a, Round round, Site site) override;
  void unpack4(const Tensor& dst, const Tensor& a, Site site) override;
  void vshuffle(const Tensor& dst, const Tensor& a, const Tensor& columns, Site site) override;
  void vgather(const Tensor& dst, const Tensor& a, const Tensor& columns, Site site) override;
  void viota(const Tensor& dst, Iota sequence, Site site) override;
  void vfill(const Tensor& dst, float value, Site site) override;
  void vtranspose(const Tensor& dst, const Tensor& a, Site site) override;
  void vpack_nz(const Tensor& dst, const Tensor& a, Site site) override;
  void vunpack_nz(const Tensor& dst, const Tensor& a, Site site) override;
  double scalar_read(const Tensor& from, index row, index column, Site site) override;
  void scalar_write(const Tensor& to, index row, index column, double value, Site site) override;
  void scalar_clean(const Tensor& tensor, Site site) override { tend(LineVerb::clean, "scalar_clean", tensor, site); }
  void scalar_invalidate(const Tensor& tensor, Site site) override {
    tend(LineVerb::invalidate, "scalar_invalidate", tensor, site);
  }
  void refuse(const char* what, const std::string& why, Site site) override { illegal(what, why, site); }
  void set(Pipe from, Pipe to, std::uint16_t flag, Site site) override;
  void wait(Pipe from, Pipe to, std::uint16_t flag, Site site) override;
  AutoBarrier auto_barrier(Pipe pipe) override { return AutoBarrier(*this, pipe); }
  void cross_set(Pipe pipe, std::uint32_t core, std::uint16_t flag, Site site) override;
  void cross_wait(Pipe pipe, std::uint16_t flag, Site site) override;

 protected:
  // `replay`: of functional mode, where what is done is kept.
  MachineCore(Run& run, std::uint32_t stream, bool checked, ReplayLog* replay);  // `stream`: of all cores
  ~MachineCore() = default;

  // What a mode makes of the verbs: an implementation of it has these, barrier, barrier_all and sync_all.
  virtual void enqueue(const Entry& entry, std::vector<Footprint> footprints, std::function<void()> body) = 0;
  virtual void dispatch(const Entry& sync) = 0;                                // a set or a wait
  virtual void record_life(Event event, std::uint32_t buffer, Site site) = 0;  // of scratch memory
  virtual bool mutated(MutationKind kind, const char* verb, Site site) = 0;
  virtual bool computes(Pipe pipe) const = 0;  // what stands in the pipe's queue is carried out
  virtual void multiply(const Tensor& acc, const Tensor& a, const Tensor& b, bool init, Site site) = 0;
  virtual void open_chain(Pipe) {}
  virtual void close_chain(Pipe) {}

  struct Access {
    const Tensor& tensor;
    bool write = false, atomic = false;
  };

  bool stopped() const { return run_.failed || run_.streams.cancelled(); }
  std::uint32_t number() const { return index_ * static_cast<std::uint32_t>(run_.kinds.size()) + stream_; }
  Pipe role(Pipe pipe) const { return pipe == Pipe::feed && views_ ? Pipe::matrix : pipe; }
  bool moves_here(const Tensor& to, const Tensor& from) const;
  bool usable(const char* verb, std::initializer_list<const Tensor*> tensors, Site site);
  Tile tile(const Tensor& tensor) const { return {tensor, run_.memories.data(tensor)}; }
  Entry entry(Event event, Pipe pipe, const char* verb, Site site) const;
  // A list with the space of an earlier one.
  std::vector<Footprint> no_footprints() {
    std::vector<Footprint> list = std::move(spare_);
    list.clear();
    return list;
  }

  // Functional mode's work. `pointers`: of the step, to tensors that may lie in global memory.
  template <class Step> void perform(const Step& step, std::initializer_list<ReplayLog::Pointer> pointers = {}) {
    if (run_.rehearsal)
      run_.full = run_.verbs_left == 0 || --run_.verbs_left == 0;
    else if (replay_ == nullptr)
      step();
    else
      replay_->add(step, pointers);
  }
  template <class Body> std::function<void()> carried_out(Pipe pipe, const Body& body) const {
    return computes(pipe) ? std::function<void()>(body) : std::function<void()>();
  }
  template <class Body>
  void issue(Pipe pipe, const char* verb, Site site, const Work& work, std::initializer_list<Access> accesses,
             const Body& body, std::initializer_list<ReplayLog::Pointer> pointers = {}) {
    if (!checked_) return perform(body, pointers);
    Entry work_entry = entry(Event::work, pipe, verb, site);
    work_entry.work = work;
    std::vector<Footprint> footprints = no_footprints();
    for (const Access& access : accesses) footprints.push_back(footprint(access));
    enqueue(work_entry, std::move(footprints), carried_out(pipe, body));
  }

  struct CopyByAxes {
    NdTensor to, from;
    std::byte *into, *out_of;
    void operator()() const { tiles::copy_by_axes(to, into, from, out_of); }
  };
  // What a copy does, resolved; none: nothing, and a report if that is wrong.
  std::optional<CopyByAxes> copying(const NdTensor& to, const NdTensor& from, Site site);

  Run& run_;
  std::uint8_t stream_;  // of the core
  const bool checked_;
  ReplayLog* const replay_;
  std::vector<Footprint> spare_;

 private:
  friend class AutoBarrier;
  friend class Ring;
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
  struct Operands {  // of a vector verb, resolved; ok: they are in its memory, and the device has the operation
    std::array<Tensor, 2> target;
    std::array<Tensor, 3> source;
    std::size_t targets = 0, sources = 0;
    bool ok = false;
    const Tensor& dst() const { return target[0]; }
  };

  bool has(Space space) const { return has_[static_cast<std::size_t>(space)]; }
  bool across(Pipe from, Pipe to) const;  // they are of different streams
  // A flag's set or wait is this stream's.
  bool is_mine(Event event, Pipe from, Pipe to) const;
  bool is_view_space(Space space) const { return views_ && (space == Space::left || space == Space::right); }
  void leave_if_full() const {
    if (run_.full) throw LogIsFull{};
  }
  void report(ReportKind kind, std::string message, Site site, std::uint32_t buffer = none);
  void illegal(const char* verb, const std::string& why, Site site);
  Tensor form(Space space, Shape shape, DType dtype, Layout layout, const char* verb, Site site);
  Tensor resolve(const Tensor& tensor);                              // through its view, after its ring's waits
  Tensor target(const Tensor& tensor, const char* verb, Site site);  // of a write: resolved, and may be mutated
  bool aligned(const char* verb, const Tensor& tensor, Site site);
  bool aligned_rows(const char* verb, const Tensor& tensor, std::uint32_t align, std::string_view of, Site site);
  Footprint footprint(const Access& access) const { return footprint(access, access.tensor.region()); }
  Footprint footprint(const Access& access, const Region& region) const;  // of a part of it
  void add_footprints(std::vector<Footprint>& to, const NdTensor& tensor, bool write) const;

  void tend(LineVerb what, const char* verb, const Tensor& tensor, Site site);
  const Path* legal_path(const char* verb, const Tensor& to, const Tensor& from, Site site);
  void move(const char* verb, const Tensor& to, const Tensor& from, Change change, Site site);
  bool reachable(const char* verb, const NdTensor& tensor, index run, Site site);
  void gather(const Tensor& to, const Tensor& pool, const std::function<index(index)>& table, index first,
              index block_rows, Site site);
  void bind(const char* verb, const Tensor& view, const Tensor& staged, Site site);
  bool drains(DType from, DType to, const DrainOptions& options, Site site);
  bool drain_row(const Tensor& row, const Tensor& to, Site site);
  Work dma_work(const Path& path, const Tensor& to, const Tensor& from, Change change = Change::none) const;

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
    if (!checked_) return perform(body);
    enqueue_vector(verb, op, o, elements, carried_out(Pipe::vector, body), site);
  }

  void stream_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb, Site site);
  void flag_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site);
  void ring_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, const char* verb, Site site, bool unit = false);
  void put_sync(Event event, Pipe from, Pipe to, std::uint16_t flag, bool ring, const char* verb, Site site, bool unit);
  void await(const Wait& wait) {
    if (is_mine(Event::wait, wait.from, wait.to)) waits_.push_back(wait);
  }
  void arrive(std::uint32_t slot);
  Ring ring_of(std::string_view name, const TileForm* forms, std::size_t count, Flow flow, Site site) override;
  void release_slot(std::uint32_t slot, Pipe from, Pipe to, std::uint16_t flag, Site site, bool unit);
  void release_view(std::uint32_t view);
  std::uint32_t bind_number();
  bool take_flags(Ring& ring, std::string_view name);
  void give_flags(const Ring& ring);
  std::uint64_t& ring_flags(Pipe from, Pipe to) {
    if (across(from, to)) return stream_flags_[{device().stream_of(from), device().stream_of(to)}];
    return ring_flags_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }

  std::array<std::uint8_t, pipes> stream_of_{};  // of a pipe
  std::array<bool, spaces> has_{};
  bool views_;
  std::vector<Tensor> bindings_;  // of views
  std::vector<std::uint32_t> free_bindings_;
  std::vector<Slot> slots_;
  std::vector<Wait> waits_;  // that have not been put yet
  // Bits: ids that rings hold, of two pipes and of two streams.
  std::array<std::array<std::uint64_t, pipes>, pipes> ring_flags_{};
  std::map<std::pair<std::uint8_t, std::uint8_t>, std::uint64_t> stream_flags_;
};

}  // namespace inlay::npu
