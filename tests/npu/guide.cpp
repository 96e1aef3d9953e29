// The code of docs/npu.md, compiled and run: every C++ block of that page stands here word for word.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inlay/npu.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/rms_norm.hpp>

#include <gtest/gtest.h>

#include "tests/support/source_dir.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/run/machine.hpp"
#include "tile_machine/time/roofline.hpp"
#include "tile_machine/time/trace.hpp"

namespace inlay::npu {
namespace {

// clang-format off
// y = x / max |x| of each row: one load, five vector operations and one store for each block of rows.
void normalise_rows(Core& core, const Tensor& x, const Tensor& y, index block) {
  Ring in = core.ring("in", Space::vector, {block, x.columns()}, DType::f32, {2, Pipe::load_vector, Pipe::vector});
  Ring out = core.ring("out", Space::vector, {block, x.columns()}, DType::f32, {2, Pipe::vector, Pipe::store});
  Tensor peak = core.alloc("peak", Space::vector, {block, 1}, DType::f32);
  Tensor low = core.alloc("low", Space::vector, {block, 1}, DType::f32);
  Tensor negated = core.alloc("negated", Space::vector, {block, x.columns()}, DType::f32);
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);  // dependent vector operations wait for one another

  for (index row = core.vector_worker() * block; row < x.rows(); row += core.vector_workers() * block) {
    core.copy(in.acquire(), x.row_slice(row, block));  // load_vector: waits until the vector unit has released the slot
    in.commit();

    Tensor rows = in.wait();                        // vector: waits until the rows have arrived
    core.vreduce(VectorOp::reduce_max, peak, rows);
    core.vscalar(VectorOp::mul, negated, rows, -1);
    core.vreduce(VectorOp::reduce_max, low, negated);
    core.vbinary(VectorOp::max, peak, peak, low);
    core.vbinary(VectorOp::div, out.acquire(), rows, peak);  // one column for all
    in.release();
    out.commit();

    core.copy(y.row_slice(row, block), out.wait());    // store
    out.release();
  }
}
// clang-format on

// z = 2 x y, block by block of x: the product on the matrix unit, the doubling shared by the vector units.
void twice_the_product(Core& core, const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& workspace) {
  const index block = workspace.rows(), part = block / core.vector_dim(), first = core.vector_idx() * part;
  Tensor staged_x = core.alloc("x", Space::staging, {block, x.columns()}, x.dtype, Layout::nz);
  Tensor staged_y = core.alloc("y", Space::staging, y.shape, y.dtype, Layout::nz);
  Tensor left = core.alloc("left", Space::left, staged_x.shape, x.dtype, Layout::nz);
  Tensor right = core.alloc("right", Space::right, y.shape, y.dtype, Layout::nz);
  Tensor sum = core.alloc("sum", Space::accumulator, workspace.shape, DType::f32);
  Tensor tile = core.alloc("tile", Space::vector, {part, y.columns()}, DType::f32);
  Ring products = core.ring("products", {workspace}, Pipe::drain, Pipe::load_vector);
  core.nd2nz(staged_y, y);
  for (index row = 0; row < x.rows(); row += block) {
    core.nd2nz(staged_x, x.row_slice(row, block));
    core.barrier_all();
    core.load_a(left, staged_x);
    core.load_b(right, staged_y);
    core.barrier_all();
    core.mma(sum, left, right, true);
    core.barrier_all();
    core.drain(products.acquire(), sum);                   // cube core: waits until both vector cores have released it
    products.commit();                                     // cube core: a flag to each of them
    Tensor mine = products.wait().row_slice(first, part);  // vector core: waits for its flag,
    core.copy(tile, mine);                                 // and takes its rows: vector_idx() of vector_dim()
    products.release();                                    // vector core: a flag to the cube core
    core.barrier_all();
    core.vscalar(VectorOp::mul, tile, tile, 2);
    core.barrier_all();
    core.copy(z.row_slice(row + first, part), tile);
    core.barrier_all();
  }
}

constexpr index rows = 1152, columns = 256, block = 8;
const char* const descriptions[] = {"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"};

std::vector<float> input() {
  std::vector<float> x(rows * columns);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50);
  return x;
}

Expected<Device> description(const std::string& name) {
  return load_device(inlay::test::source_path("tile_machine/devices/") + name + ".json");
}

// What a page's reader does, in the page's own words.
struct Findings {
  Outcome outcome;
  std::vector<Report> reports, removable;
  Timeline timeline;
  Roofline bounds;
};

Findings run_checked(const Device& device, const std::vector<float>& x, std::vector<float>& y) {
  // clang-format off
  Machine machine(device);
  Tensor from = machine.global("x", std::span(x), {rows, columns});
  Tensor to = machine.global("y", std::span(y), {rows, columns}, Use::out);
  Outcome outcome = machine.run([&](Core& core) { normalise_rows(core, from, to, block); });

  std::vector<Report> reports = check(outcome.log, device);                // races, flags, lifetimes
  std::vector<Report> removable = redundant_syncs(outcome.log, device);    // syncs that order nothing new

  auto timeline = time_events(outcome.log, device);                          // when each entry starts and ends
  Roofline bounds = roofline(outcome.log, device, *timeline);              // bounds.share(): of the bounding pipe
  std::puts(summary(outcome.log, device, *timeline).c_str());              // stalls by cause, critical path
  Status written = write_trace("normalise.json", outcome.log, device, *timeline);  // for ui.perfetto.dev
  // clang-format on
  EXPECT_TRUE(written.ok()) << written.message();
  std::remove("normalise.json");
  return {std::move(outcome), std::move(reports), std::move(removable), std::move(*timeline), std::move(bounds)};
}

TEST(guide, the_program_is_right_on_every_description) {
  for (const char* name : descriptions) {
    const auto device = description(name);
    ASSERT_TRUE(device) << device.error().message();
    const std::vector<float> x = input();
    std::vector<float> y(x.size(), -1), fast(x.size(), -2);
    const Findings run = run_checked(*device, x, y);
    for (const Report& report : run.outcome.reports) ADD_FAILURE() << name << ": " << report.message;
    for (const Report& report : run.reports) ADD_FAILURE() << name << ": " << report.message;
    EXPECT_GT(run.bounds.share(), 0) << name;
    EXPECT_LE(run.bounds.share(), 1) << name;
    for (index row = 0; row < rows; ++row) {
      float peak = 0;
      for (index c = 0; c < columns; ++c) peak = std::max(peak, std::abs(x[row * columns + c]));
      for (index c = 0; c < columns; ++c)
        ASSERT_EQ(y[row * columns + c], x[row * columns + c] / peak) << name << " " << row << ", " << c;
    }

    // clang-format off
    FunctionalMachine functional(*device);
    Tensor from = functional.global("x", std::span(x), {rows, columns});
    Tensor to = functional.global("y", std::span(fast), {rows, columns}, Use::out);
    std::vector<Report> reports = functional.run([&](Core& core) { normalise_rows(core, from, to, block); });
    // clang-format on
    EXPECT_TRUE(reports.empty());
    EXPECT_EQ(fast, y) << name;
  }
}

TEST(guide, the_streams_of_a_core_share_a_product) {
  constexpr index side = 32, blocks = 3;
  std::vector<f16> x(blocks * side * side), y(side * side);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = f16(static_cast<float>(i * 7 % 5) - 2);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = f16(static_cast<float>(i * 3 % 7) - 3);
  const auto ascend = description("ascend-a2-like");
  ASSERT_TRUE(ascend);
  for (const Policy policy : {Policy::issue_order, Policy::late_dma, Policy::early_dma, Policy::random}) {
    std::vector<float> z(x.size());
    Machine machine(*ascend, {.policy = policy, .cores = 1});
    const Tensor from = machine.global("x", std::span(std::as_const(x)), {blocks * side, side});
    const Tensor by = machine.global("y", std::span(std::as_const(y)), {side, side});
    const Tensor to = machine.global("z", std::span(z), {blocks * side, side}, Use::out);
    const Tensor between = machine.workspace("between", {side, side}, DType::f32);
    const Outcome outcome = machine.run([&](Core& core) { twice_the_product(core, from, by, to, between); });
    for (const Report& report : outcome.reports) ADD_FAILURE() << report.message;
    for (const Report& report : check(outcome.log, *ascend)) ADD_FAILURE() << report.message;
    for (index r = 0; r < blocks * side; ++r)
      for (index c = 0; c < side; ++c) {
        float sum = 0;
        for (index k = 0; k < side; ++k)
          sum += static_cast<float>(x[r * side + k]) * static_cast<float>(y[k * side + c]);
        ASSERT_EQ(z[r * side + c], 2 * sum) << r << ", " << c;
      }
  }
}

std::string page() {
  std::ifstream stream(inlay::test::source_path("docs/npu.md"));
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// What the page says of barriers: each of the four that the chain puts is needed where the vector unit does not wait
// for itself, and none is issued where it does.
TEST(guide, every_barrier_is_needed_where_there_is_one) {
  const std::vector<float> x = input();
  std::vector<float> y(x.size());
  const auto ascend = description("ascend-a2-like"), hexagon = description("hexagon-htp-like");
  ASSERT_TRUE(ascend && hexagon);
  EXPECT_TRUE(run_checked(*ascend, x, y).removable.empty());
  for (const Entry& entry : run_checked(*hexagon, x, y).outcome.log.entries) EXPECT_NE(entry.event, Event::barrier);

  const auto reports_of = [&](std::optional<Mutation> mutation, std::vector<MutationPoint>* points) {
    Machine machine(*ascend, {.mutation = mutation});
    const Tensor from = machine.global("x", std::span(x), {rows, columns});
    const Tensor to = machine.global("y", std::span(y), {rows, columns}, Use::out);
    const Outcome outcome = machine.run([&](Core& core) { normalise_rows(core, from, to, block); });
    if (points != nullptr) *points = outcome.points;
    return check(outcome.log, *ascend);
  };
  std::vector<MutationPoint> points;
  ASSERT_TRUE(reports_of(std::nullopt, &points).empty());
  std::uint32_t index = 0, barriers = 0;
  std::vector<Report> last;
  for (const MutationPoint& point : points) {
    if (point.kind != MutationKind::drop_sync) continue;
    const Mutation without{MutationKind::drop_sync, index++};
    if (std::string_view(point.verb) != "barrier") continue;
    last = reports_of(without, nullptr);
    EXPECT_FALSE(last.empty()) << line_of(point.site);
    ++barriers;
  }
  EXPECT_EQ(barriers, 4u);
  ASSERT_FALSE(last.empty());
  EXPECT_NE(page().find(last.front().message), std::string::npos) << "docs/npu.md shows another report than\n"
                                                                  << last.front().message;
}

TEST(guide, the_page_counts_the_confidence_of_the_numbers) {
  for (const char* name : descriptions) {
    const auto device = description(name);
    ASSERT_TRUE(device);
    std::string row = "| `" + std::string(name) + "` |";
    for (const char* confidence : {"documented", "measured", "derived", "assumed"})
      row += " " +
             std::to_string(std::count_if(device->provenance.begin(), device->provenance.end(),
                                          [&](const Provenance& entry) { return entry.confidence == confidence; })) +
             " |";
    EXPECT_NE(page().find(row), std::string::npos) << row;
  }
}

// Without the spaces at the beginning of each line: the page does not indent what is a body here.
std::string unindented(const std::string& text) {
  std::string result;
  bool start = true;
  for (const char c : text) {
    if (start && c == ' ') continue;
    start = c == '\n';
    result += c;
  }
  return result;
}

TEST(guide, the_backend_runs_and_estimates_an_operator) {
  std::vector<float> numbers(2 * 64, 2), ones(64, 1), result(2 * 64);
  const ConstView<2> x{numbers.data(), DType::f32, {2, 64}};
  const ConstView<1> weight{ones.data(), DType::f32, {64}};
  const View<2> y{result.data(), DType::f32, {2, 64}};
  for (const char* name : descriptions) {
    // clang-format off
    Expected<Npu> npu = Npu::make({.device = name});              // a name, a file, or the description itself
    RmsNorm<Host> norm{.x = x, .weight = weight, .y = y};
    Status computed = run(*npu, norm);
    Expected<NpuEstimate> cost = estimate(*npu, norm);                  // cycles, bytes, bound; touches no buffer
    // clang-format on
    ASSERT_TRUE(computed.ok()) << computed.message();
    for (const float value : result) EXPECT_NEAR(value, 1, 1e-5);
    ASSERT_TRUE(cost.has_value()) << cost.error().message();
    EXPECT_GT(cost->cycles, 0);
    EXPECT_GE(cost->bytes, 2 * numbers.size() * sizeof(float));
    const auto device = description(name);
    ASSERT_TRUE(device);
    EXPECT_EQ(cost->launch_us, device->host.launch_us);
    EXPECT_EQ(cost->dispatch_us, device->host.dispatch_us);
    EXPECT_EQ(cost->sync_us, device->host.sync_us);
    EXPECT_GT(cost->launch_us, cost->dispatch_us);
    EXPECT_EQ(cost->compile_us, device->compile.fixed_ms * 1e3);
    EXPECT_EQ(cost->compile_us_per_token, device->compile.per_token_ms * 1e3);
  }
}

TEST(guide, a_packed_weight_gives_the_same_bits) {
  constexpr index k = 64, n = 32;
  std::vector<float> numbers(k), weights(n * k), plain(n), result(n);
  for (index i = 0; i < k; ++i) numbers[i] = static_cast<float>(i % 7) / 3 - 1;
  for (index i = 0; i < n * k; ++i) weights[i] = static_cast<float>(i * 5 % 11) / 7 - 1;
  alignas(64) static std::byte room[1 << 16], scratch[1 << 20];
  const std::span<std::byte> memory(room);
  const Workspace workspace{scratch, sizeof(scratch)};
  for (const char* name : descriptions) {
    Expected<Npu> npu = Npu::make({.device = name});
    Linear<Host> linear{.x = {numbers.data(), DType::f32, {1, k}},
                        .weight_rows = {weights.data(), DType::f32, {n, k}},
                        .y = {plain.data(), DType::f32, {1, n}}};
    ASSERT_TRUE(run(*npu, linear, workspace).ok());
    linear.y.data = result.data();
    // clang-format off
    const std::size_t bytes = packed_bytes(*npu, linear);         // 0: nothing to gain
    Status packed = pack(*npu, linear, memory);                   // memory: so many bytes of the caller's, aligned to 64
    Status computed = run(*npu, linear, workspace);               // the same bits, without the pass over w
    forget(*npu, memory);                                         // before memory, or w, is freed or changed
    // clang-format on
    EXPECT_GT(bytes, 0) << name;
    EXPECT_LE(bytes, memory.size()) << name;
    ASSERT_TRUE(packed.ok()) << packed.message();
    ASSERT_TRUE(computed.ok()) << computed.message();
    EXPECT_EQ(result, plain) << name;
  }
}

TEST(guide, the_page_has_this_code) {
  std::ifstream stream(inlay::test::source_path("tests/npu/guide.cpp"));
  const std::string here = unindented({std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()});
  const std::string text = page(), opening = "```cpp\n";
  int blocks = 0;
  for (std::size_t at = text.find(opening); at != text.npos; at = text.find(opening, at)) {
    const std::size_t begin = at + opening.size(), end = text.find("```", begin);
    ASSERT_NE(end, text.npos);
    const std::string code = unindented(text.substr(begin, end - begin));
    EXPECT_NE(here.find(code), here.npos) << "not in tests/npu/guide.cpp:\n" << code;
    at = end;
    ++blocks;
  }
  EXPECT_EQ(blocks, 6);
}

}  // namespace
}  // namespace inlay::npu
