// What an operator costs on OpenCL beside its kernel: run by a chain as it comes, and replayed from a recording.
// Operators of a decoder's layer over tensors of one element, 100 of a kind in a pass; medians of passes by turns, ns
// of the calling thread's processor time a launch.
//
//   ours    what comes before the driver's clEnqueueNDRangeKernel, which this program answers itself
//   whole   the driver's share, too: until it has taken the launch, not until it is done
//
// INLAY_BENCH_SHORT=1: few passes.
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/paged_attention.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/swiglu.hpp>

#include "measure/behind.hpp"
#include "measure/timing.hpp"

namespace {

bool answers = false;

}  // namespace

extern "C" cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint n, const size_t* first,
                                         const size_t* global, const size_t* local, cl_uint events,
                                         const cl_event* list, cl_event* event) {
  BEHIND(clEnqueueNDRangeKernel);
  return answers ? CL_SUCCESS : behind(queue, kernel, n, first, global, local, events, list, event);
}

namespace inlay {
namespace {

using measure::median;

constexpr int of_a_pass = 100;

struct Cost {
  double eager = 0, replay = 0;
};

template <class Call> double processor_ns(Call&& call) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  call();
  return now() - begin;
}

// Nothing where an operator fails.
template <class Op> Cost cost(Cl& cl, const Op& op, bool ours) {
  exec::Chain<Cl&> chain(cl);
  const auto pass = [&] {
    for (int i = 0; i < of_a_pass; ++i) chain(op);
  };
  pass();  // scratch is there, and programs
  Status status = chain.take_status();
  auto recording = cl.record([&] {
    pass();
    return chain.take_status();
  });
  if (!status.ok() || !recording) {
    std::fprintf(stderr, "%s: %s\n", std::string(Op::name).c_str(),
                 std::string((status.ok() ? recording.error() : status).message()).c_str());
    return {};
  }
  const auto launches = static_cast<double>(recording->launches());
  std::vector<double> eager, replay;
  for (int i = 0; i < (measure::short_run() ? 3 : ours ? 1000 : 100) && status.ok(); ++i) {
    answers = ours;
    eager.push_back(processor_ns(pass));
    answers = false;
    status = chain.take_status();
    answers = ours;
    replay.push_back(processor_ns([&] {
      if (status.ok()) status = cl.replay(*recording);
    }));
    answers = false;
    if (status.ok()) status = cl.finish();
  }
  if (!status.ok()) return {};
  return {median(eager) / launches, median(replay) / launches};
}

// Returns whether all ran.
template <class Op> bool compare(Cl& cl, const Op& op) {
  const Cost ours = cost(cl, op, true), whole = cost(cl, op, false);
  std::printf("%-18s ours %6.0f eager %5.1f replay    whole %6.0f eager %6.0f replay\n", std::string(Op::name).c_str(),
              ours.eager, ours.replay, whole.eager, whole.replay);
  return ours.eager > 0 && whole.eager > 0;
}

bool compare_all(Cl& cl) {
  const auto make = [&](std::size_t bytes) {
    const auto made = cl.allocate(bytes);
    if (!made) return ClAddress();
    const std::vector<std::byte> zeros(bytes);
    return cl.upload(*made, zeros).ok() ? *made : ClAddress();
  };
  const ClAddress a = make(64), b = make(64), y = make(64), keys = make(64), values = make(64), list = make(64);
  const View<2, Cl> row(a, DType::f32, {1, 1}), other(b, DType::f32, {1, 1}), out(y, DType::f32, {1, 1});
  const View<3, Cl> head(a, DType::f32, {1, 1, 1}), pair(a, DType::f32, {1, 1, 2}), head_out(y, DType::f32, {1, 1, 1});
  const View<4, Cl> k(keys, DType::f32, {1, 16, 1, 1}), v(values, DType::f32, {1, 16, 1, 1});
  bool all = true;
  all &= compare(cl, RmsNorm<Cl>{.x = row, .weight = {b, DType::f32, {1}}, .residual = out, .y = row, .eps = 1e-5f});
  all &= compare(cl, Linear<Cl>{.x = row, .weight_rows = other, .y = out});
  all &= compare(cl, Rope<Cl>{.x = pair, .cos = other, .sin = other, .y = pair});
  all &= compare(cl, Swiglu<Cl>{.gate = row, .up = other, .y = row});
  all &= compare(cl, ReshapeAndCache<Cl>{.k = head,
                                         .v = head,
                                         .k_cache = flat_cache(k),
                                         .v_cache = flat_cache(v),
                                         .slot_mapping = {list, DType::i64, {1}}});
  all &= compare(cl, PagedAttention<Cl>{.q = head,
                                        .k = flat_cache(k),
                                        .v = flat_cache(v),
                                        .block_table = {list, DType::i32, {1, 1}},
                                        .kv_lens = {list, DType::i32, {1}},
                                        .out = head_out});
  return all;
}

}  // namespace
}  // namespace inlay

int main() {
  auto cl = inlay::Cl::make();
  if (!cl) {
    std::printf("no OpenCL device: %s\n", std::string(cl.error().message()).c_str());
    return 0;
  }
  return inlay::compare_all(*cl) ? 0 : 1;
}
