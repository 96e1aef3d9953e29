#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/comm/lead.hpp>

namespace inlay::exec {

namespace {

// What rank 0 tells the others; a pass follows as `bytes` more.
struct Command {
  enum Kind : std::int64_t { end, forward, reserve_logits, use_plans } kind = end;
  std::int64_t value = 0;  // the first of the logits, or their number, or the plans
  std::int64_t rows = 0;   // of logits that the pass wants
  std::uint64_t bytes = 0;
};

// A view of a batch: its extents, then its elements.
void write(std::vector<std::byte>& to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}
std::vector<std::byte> written(const BatchViews<Host>& views) {
  std::vector<std::byte> message;
  (void)moved<Host>(views, [&]<int Rank>(const ConstView<Rank>& view) {
    write(message, view.extents.data(), sizeof view.extents);
    if (!view.empty()) write(message, view.data, static_cast<std::size_t>(byte_size(view.dtype, view.size())));
    return view;
  });
  return message;
}
// The views lie in the message, whose elements have any address: Batch copies them.
BatchViews<Host> read(const std::vector<std::byte>& message) {
  const Batch empty;
  std::size_t at = 0;
  return moved<Host>(empty.views(), [&]<int Rank>(ConstView<Rank> view) {
    std::memcpy(view.extents.data(), message.data() + at, sizeof view.extents);
    at += sizeof view.extents;
    view = ConstView<Rank>(message.data() + at, view.dtype, view.extents);
    at += static_cast<std::size_t>(byte_size(view.dtype, view.size()));
    return view;
  });
}

// A refusal: every rank has met it, and nothing was computed.
bool all_refuse(const Status& status) {
  return status.code() == StatusCode::invalid_argument || status.code() == StatusCode::unsupported;
}

class LeadingEngine final : public Engine {
 public:
  LeadingEngine(std::unique_ptr<Engine> own, const Comm& comm) : own_(std::move(own)), comm_(comm) {}
  ~LeadingEngine() override { (void)tell({}); }

  const ModelConfig& config() const override { return own_->config(); }
  BlockPool& blocks() override { return own_->blocks(); }
  std::size_t cache_bytes() const override { return own_->cache_bytes(); }
  SwapSpace* swap_space() override { return own_->swap_space(); }
  std::span<const Fallback> fallbacks() const override { return own_->fallbacks(); }
  void use_plans(Plans plans) override {
    (void)tell({.kind = Command::use_plans, .value = static_cast<std::int64_t>(plans)});  // a failure comes again
    own_->use_plans(plans);
  }
  const PlanCache::Counts& plan_counts() const override { return own_->plan_counts(); }
  void observe(StepObserver* observer) override { own_->observe(observer); }

  Status reserve_logits(index rows) override {
    if (rows <= reserved_) return {};
    if (Status status = tell({.kind = Command::reserve_logits, .value = rows}); !status.ok()) return status;
    Status status = own_->reserve_logits(rows);
    if (status.ok()) reserved_ = rows;
    return ended(std::move(status));
  }
  Status forward(const Batch& batch, index first) override {
    std::vector<std::byte> pass = written(batch.views());
    Status status = tell({.kind = Command::forward, .value = first, .rows = batch.logit_rows(), .bytes = pass.size()});
    if (status.ok()) status = say(pass.data(), pass.size());
    return status.ok() ? ended(own_->forward(batch, first)) : std::move(status);
  }
  Expected<ConstView<2>> logits(index first, index rows) override { return own_->logits(first, rows); }
  Expected<std::int32_t> sample(const Sampling<Host>& settings, index row) override {
    return own_->sample(settings, row);
  }
  void sample_all(std::span<Draw> draws) override { own_->sample_all(draws); }

 private:
  Status tell(Command command) { return say(&command, sizeof command); }
  Status say(void* bytes, std::size_t count) {
    return ended(comm_.broadcast(comm_.context, bytes, count, comm_.deadline));
  }
  Status ended(Status status) {
    if (!status.ok() && !all_refuse(status)) give_up(comm_, status);
    return status;
  }

  std::unique_ptr<Engine> own_;
  Comm comm_;
  index reserved_ = 0;
};

}  // namespace

std::unique_ptr<Engine> lead(std::unique_ptr<Engine> engine, const Comm& comm) {
  if (comm.alone() || comm.rank != 0) return engine;
  return std::make_unique<LeadingEngine>(std::move(engine), comm);
}

Status follow(Engine& engine, const Comm& comm) {
  std::vector<std::byte> pass;
  for (;;) {
    Command command;
    // Nobody knows how long a text is thought over.
    Status status = comm.broadcast(comm.context, &command, sizeof command, Comm::forever);
    if (status.ok() && command.kind == Command::end) return {};
    if (status.ok() && command.kind == Command::use_plans) engine.use_plans(static_cast<Plans>(command.value));
    if (status.ok() && command.kind == Command::reserve_logits) status = engine.reserve_logits(command.value);
    if (status.ok() && command.kind == Command::forward) {
      pass.resize(command.bytes);
      status = comm.broadcast(comm.context, pass.data(), pass.size(), comm.deadline);
      if (status.ok()) status = engine.forward(Batch::of(read(pass), command.rows), command.value);
    }
    if (status.ok() || all_refuse(status)) continue;
    give_up(comm, status);
    return status;
  }
}

void give_up(const Comm& comm, const Status& status) {
  if (!comm.alone())
    comm.abort(comm.context, "rank " + std::to_string(comm.rank) + " gave up: " + std::string(status.message()));
}

}  // namespace inlay::exec
