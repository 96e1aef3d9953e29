// Runs operators as they come, on backends that are chosen at run time. The first failure stays and turns what
// follows into nothing, so that a model is written as a straight line of operators:
//
//   Eager run{Cpu{}};
//   run(RmsNorm<Host>{...});
//   run(Linear<Host>{...});
//   if (Status status = run.take_status(); !status.ok()) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/staging.hpp>
#include <inlay/cpu.hpp>
#include <inlay/exec/comm/gatherer.hpp>
#include <inlay/exec/fallback.hpp>
#ifdef INLAY_HAS_NPU
#include <inlay/npu.hpp>
#endif
#ifdef INLAY_HAS_CL
#include <inlay/cl.hpp>
#endif

namespace inlay::exec {

template <class Chain> class Recorder;  // plan/recorder.hpp

// Scratch of one backend, in its space: kept from operator to operator, and grown where one asks for more.
template <class Backend> class Scratch {
 public:
  using Space = SpaceOf<Backend>;

  WorkspaceIn<Space> get(Backend& backend, std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      auto made = Allocation<Memory>::make(memory(backend), bytes);
      if (!made) {
        failure_ = std::move(made.error());
        return {};
      }
      memory_.emplace(std::move(*made));
      bytes_ = bytes;
      ++moves_;
    }
    if (bytes == 0) return {};
    if constexpr (std::is_same_v<Space, Host>)
      return {static_cast<std::byte*>(memory_->data()), bytes};
    else
      return {memory_->data(), bytes};
  }
  // Why the last workspace was none.
  Status take_failure() { return std::exchange(failure_, Status()); }
  // How often it has come to lie elsewhere.
  std::int64_t moves() const { return moves_; }

 private:
  using Memory = std::conditional_t<std::is_same_v<Space, Host>, HostMemory, Backend>;
  static Memory& memory([[maybe_unused]] Backend& backend) {
    if constexpr (std::is_same_v<Space, Host>) {
      static HostMemory host;
      return host;
    } else {
      return backend;
    }
  }

  std::optional<Allocation<Memory>> memory_;
  std::size_t bytes_ = 0;
  std::int64_t moves_ = 0;
  Status failure_;
};

// An operator on a backend that has scratch of its own. Where there is no memory for that, the Status says why.
template <class Backend, class Op>
Status run_with(Backend& backend, Scratch<std::remove_const_t<Backend>>& scratch, const Op& op) {
  Status status = run(backend, op, [&](std::size_t bytes) { return scratch.get(backend, bytes); });
  if (status.ok()) return status;
  Status lacks = scratch.take_failure();
  return lacks.ok() ? std::move(status) : std::move(lacks);
}

// Backends in the order in which they are asked. An operator that one declares unsupported runs on the next; where
// that works in other memory, what the operator looks at is copied there and what it wrote is copied back.
//
//   Chain run(std::ref(device), Cpu{});        // the device is the caller's, the Cpu the chain's own
//
// Scratch knows the device that it came from: a chain that owns one is moved before its first operator, not after.
template <class... Backends> class Chain {
  template <std::size_t i> using Nth = std::remove_cvref_t<std::tuple_element_t<i, std::tuple<Backends...>>>;

 public:
  // Where models have their weights, activations and caches: the first one's memory.
  using First = Nth<0>;
  using Space = SpaceOf<First>;
  static constexpr std::size_t length = sizeof...(Backends);

  explicit Chain(Backends... backends) : links_{Link<Backends>{std::forward<Backends>(backends)}...} {}

  template <class Op> void operator()(const Op& op) {
    if (status_.ok()) status_ = run_from<0>(op);
  }
  template <class Step> void gather(const Step& step) {
    if (status_.ok()) status_ = step();
  }

  // The first failure since the last call, what devices tell only when they are done included.
  Status take_status() {
    std::apply([&](auto&... link) { (note_offence(finish(link.backend)), ...); }, links_);
    return std::exchange(status_, Status());
  }

  std::span<const Fallback> fallbacks() const { return fallbacks_; }
  First& first() { return std::get<0>(links_).backend; }
  // How often scratch has moved, which who keeps its addresses must know.
  std::int64_t scratch_moves() const {
    return std::apply([](const auto&... link) { return (link.scratch.moves() + ...); }, links_);
  }

  // The backends' names, and the CPU's level: chains of the same words compute the same bits.
  std::string words() const {
    std::string words;
    const auto add = [&](const auto& link) {
      using Backend = std::remove_cvref_t<decltype(link.backend)>;
      (words += words.empty() ? "" : ", ") += Backend::name;
      if constexpr (std::is_same_v<Backend, Cpu>) (words += " ") += name(link.backend.isa());
    };
    std::apply([&](const auto&... link) { (add(link), ...); }, links_);
    return words;
  }

  // Threads for host work beside the operators: packing, for example.
  Parallel parallel() const {
    Parallel threads = Cpu().parallel();
    const auto visit = [&](const auto& link) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(link.backend)>, Cpu>) threads = link.backend.parallel();
    };
    std::apply([&](const auto&... link) { (visit(link), ...); }, links_);
    return threads;
  }

 private:
  friend class Recorder<Chain>;
  template <class Backend> struct Link {
    Backend backend;
    Scratch<std::remove_cvref_t<Backend>> scratch = {};
  };

  template <std::size_t i, class Op> Status run_from(const Op& op) {
    Status status = run_on(std::get<i>(links_), op);
    if constexpr (i + 1 < sizeof...(Backends)) {
      if (status.code() != StatusCode::unsupported) return status;
      note_fallback(Op::name, Nth<i>::name, Nth<i + 1>::name, status);
      return run_from<i + 1>(op);
    }
    return status;
  }

  template <class L, class Op> Status run_on(L& link, const Op& op) {
    using Backend = std::remove_cvref_t<decltype(link.backend)>;
    if constexpr (RunsOn<Backend, Op>) {
      return run_with(link.backend, link.scratch, op);
    } else if constexpr (std::is_same_v<SpaceOfOp<Op>, Host>) {
      return run_from_host(link.backend, op);
    } else if constexpr (std::is_same_v<SpaceOf<Backend>, Host>) {
      return run_on_host(owner<SpaceOfOp<Op>>(), link.backend, op);
    } else {
      return unsupported("the operands lie in another device's memory");
    }
  }

  template <class Wanted, std::size_t i = 0> auto& owner() {
    if constexpr (std::is_same_v<SpaceOf<Nth<i>>, Wanted>)
      return std::get<i>(links_).backend;
    else
      return owner<Wanted, i + 1>();
  }

  void note_fallback(std::string_view op, std::string_view from, std::string_view to, const Status& declined) {
    for (const Fallback& known : fallbacks_)
      if (known.op == op && known.from == from) return;
    fallbacks_.push_back({op, from, to, std::string(declined.message())});
  }
  void note_offence(Status offence) {
    if (status_.ok()) status_ = std::move(offence);
  }

  std::tuple<Link<Backends>...> links_;
  std::vector<Fallback> fallbacks_;
  Status status_;
};
template <class... Backends> Chain(Backends...) -> Chain<std::unwrap_reference_t<Backends>...>;

// A chain of those that this build knows.
class Eager {
 public:
  // What can be chosen: another backend is another line here, and a file in executor/exec/engines/.
  using Chains = std::variant<Chain<Cpu>,
#ifdef INLAY_HAS_NPU  // inlay::exec says so to those who link it
                              Chain<Npu, Cpu>,
#endif
#ifdef INLAY_HAS_CL
                              Chain<Cl>,
#endif
                              Chain<Reference>>;

  template <class... Backends>
  explicit Eager(Backends... backends) : chain_(Chain<Backends...>(std::move(backends)...)) {}

  template <class Op> void operator()(const Op& op) {
    std::visit([&](auto& chain) { chain(op); }, chain_);
  }
  Status take_status() {
    return std::visit([](auto& chain) { return chain.take_status(); }, chain_);
  }
  Parallel parallel() const {
    return std::visit([](const auto& chain) { return chain.parallel(); }, chain_);
  }
  Chains release() && { return std::move(chain_); }

 private:
  Chains chain_;
};

}  // namespace inlay::exec
