// Kernels that inlay npu emit writes: compiled against stubs of Ascend C that compute (emit/kernel_operator.h), run
// core after core, and compared with functional mode bit for bit; the checker judges the log of their own syncs.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>

#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/core/elementary.hpp>
#include <inlay/npu.hpp>

#include "npu_kernels/backend/runtime.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/paged_attention.hpp"
#include "shapes/random_tensors.hpp"
#include "shapes/rms_norm.hpp"
#include "tests/support/files.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/emit/ascend_c.hpp"
#include "tile_machine/emit/verb_table.hpp"
#include "tile_machine/events/log_file.hpp"

namespace inlay::npu {
namespace {

using testing::HasSubstr;

Npu npu_of(std::uint32_t cores = 0) { return *Npu::make({.device = "ascend-a2-like", .cores = cores}); }

template <class Op> Expected<std::string> source_of(const Npu& npu, const Op& op) {
  auto verbs = about(op, [&](const AnyOperator& any) { return npu.runtime().verbs(any); });
  if (!verbs) return failure(std::move(verbs.error()));
  return emit::ascend_c(*verbs, npu.runtime().device(), std::string(Op::name), "a test");
}

// What came of a kernel: what the stubs found wrong, and the checker.
struct Ran {
  std::string wrong;
  std::vector<Report> reports;
};

// What a kernel's parameters are given: by their names, and room for what else it names, which is workspace.
using Operands = std::map<std::string, void*>;

class Library {
 public:
  explicit Library(const std::string& source) : mixed_(source.find("KERNEL_TYPE_MIX") != source.npos) {
    const std::regex parameter("GM_ADDR (\\w+)_address");
    for (std::sregex_iterator each(source.begin(), source.end(), parameter), end; each != end; ++each)
      parameters_.push_back((*each)[1]);
    std::smatch kernel;
    std::regex_search(source, kernel, std::regex("__aicore__ void (\\w+)"));
    kernel_ = kernel[1];
    const std::string file = folder_ / "kernel.cpp", library = folder_ / "kernel.so", said = folder_ / "said";
    exec::test::write_text(file, source);
    const std::string root = test::source_dir;
    const std::string command = std::string(INLAY_CXX) +
                                " -std=c++17 -O1 -ffp-contract=off -Wall -Wextra -Wpedantic -Werror -shared -fPIC "
                                "-fvisibility=hidden -I" +
                                root + "/tests/npu/emit -I" + root + "/include " + file + " -o " + library + " 2>" +
                                said;
    if (std::system(command.c_str()) != 0) {
      std::stringstream text;
      text << std::ifstream(said).rdbuf();
      wrong_ = "it does not compile: " + text.str();
    } else if (code_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL); code_ == nullptr) {
      wrong_ = dlerror();
    }
  }
  ~Library() {
    if (code_ != nullptr) dlclose(code_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // `left_out`: the number of a sync, of those that a test has numbered.
  Ran run(const Device& device, const Operands& operands, int left_out = -1) const {
    if (code_ == nullptr) return {wrong_, {}};
    constexpr std::size_t most = 10, workspace_bytes = std::size_t{1} << 22;
    if (parameters_.size() > most) return {"more parameters than a test gives", {}};
    std::vector<std::vector<std::byte>> workspaces;
    std::array<void*, most> given{};
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const auto found = operands.find(parameters_[i]);
      if (found == operands.end()) workspaces.emplace_back(workspace_bytes, std::byte{0xff});
      given[i] = found == operands.end() ? workspaces.back().data() : found->second;
    }
    const std::string log = folder_ / "kernel.jsonl";
    *static_cast<int*>(dlsym(code_, "stub_left_out")) = left_out;
    *static_cast<float (**)(float)>(dlsym(code_, "stub_exp")) = [](float x) { return elementary::exp(x); };
    using Run = const char*(const char*, std::uint32_t, int, void*, void* const*);
    Ran result{
        call<Run>("stub_run")(log.c_str(), device.cores, mixed_ ? 1 : 0, dlsym(code_, kernel_.c_str()), given.data()),
        {}};
    const auto read = load_log(log, device);
    if (!read) return {std::string(read.error().message()), {}};
    result.reports = check(read->log, device);
    return result;
  }

 private:
  template <class F> F* call(const char* name) const { return reinterpret_cast<F*>(dlsym(code_, name)); }

  exec::test::TemporaryDirectory folder_;
  void* code_ = nullptr;
  bool mixed_;
  std::vector<std::string> parameters_;
  std::string kernel_, wrong_;
};

std::vector<std::byte> bytes_of(const auto& view) {
  const auto* first = static_cast<const std::byte*>(view.data);
  return {first, first + byte_size(view.dtype, view.size())};
}

// Of x's rows every second, third ..
RmsNorm<Host> with_every(index every, RmsNorm<Host> op) {
  if (every == 1) return op;
  op.x.extents[0] = op.y.extents[0] = op.x.extents[0] / every;
  op.x.strides[0] *= every;
  return op;
}

// The kernel's results in y, and what it was to be.
struct Kernel {
  RandomTensors tensors;
  Npu npu;
  RmsNorm<Host> op;
  std::string source;
  std::vector<std::byte> right{};

  explicit Kernel(const RmsNormShape& shape, std::uint32_t cores = 0, index every = 1)
      : npu(npu_of(cores)), op(with_every(every, shape.make(tensors))), source(source_of(npu, op).value_or("")) {
    const std::vector<std::byte> residual = op.residual.present() ? bytes_of(op.residual) : std::vector<std::byte>();
    EXPECT_TRUE(inlay::run(npu, op).ok());
    right = results();
    if (op.residual.present()) std::memcpy(op.residual.data, residual.data(), residual.size());
    std::memset(op.y.data, 0x5a, static_cast<std::size_t>(byte_size(op.y.dtype, op.y.size())));
  }
  std::vector<std::byte> results() const {
    std::vector<std::byte> all = bytes_of(op.y);
    if (op.residual.present()) {
      const std::vector<std::byte> more = bytes_of(op.residual);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }
  Operands operands() const {
    return {{"x", const_cast<void*>(op.x.data)},
            {"weight", const_cast<void*>(op.weight.data)},
            {"y", op.y.data},
            {"residual", op.residual.data}};
  }
  const Device& device() const { return npu.runtime().device(); }
};

// A token of each sequence behind its cache, f16, exact.
struct Attention {
  RandomTensors tensors;
  Npu npu;
  IncreFlashAttention<Host> op;
  std::string source;
  std::vector<std::byte> right{};

  explicit Attention(const IncreFlashAttentionShape& shape, std::uint32_t cores = 0)
      : npu(npu_of(cores)), op(shape.make(tensors)), source(source_of(npu, op).value_or("")) {
    std::vector<std::byte, CacheLineAllocator<std::byte>> workspace(scratch_bytes(npu, op));
    EXPECT_TRUE(inlay::run(npu, op, workspace).ok());
    right = results();
    std::memset(op.out.data, 0x5a, right.size());
  }
  std::vector<std::byte> results() const { return bytes_of(op.out); }
  Operands operands() const {
    return {{"q", const_cast<void*>(op.q.data)},
            {"k", const_cast<void*>(op.k.data)},
            {"v", const_cast<void*>(op.v.data)},
            {"out", op.out.data}};
  }
  const Device& device() const { return npu.runtime().device(); }
};

template <class Kernel> void expect_right(const Kernel& kernel) {
  ASSERT_FALSE(kernel.source.empty()) << source_of(kernel.npu, kernel.op).error().message();
  const Ran result = Library(kernel.source).run(kernel.device(), kernel.operands());
  EXPECT_EQ(result.wrong, "") << kernel.source;
  for (const Report& report : result.reports) ADD_FAILURE() << report.message;
  EXPECT_TRUE(kernel.results() == kernel.right) << kernel.source;
}

TEST(Emit, RmsNormOfF16) { expect_right(Kernel({.rows = 48, .dim = 4096})); }
TEST(Emit, RmsNormOfF32) { expect_right(Kernel({.rows = 96, .dim = 1024, .type = DType::f32, .to = DType::f32})); }
TEST(Emit, RmsNormOfBf16) { expect_right(Kernel({.rows = 100, .dim = 512, .type = DType::bf16, .to = DType::bf16})); }
TEST(Emit, RmsNormWithWeightsInF16) { expect_right(Kernel({.rows = 96, .dim = 896, .weight = DType::f16})); }
TEST(Emit, RmsNormWithAResidual) { expect_right(Kernel({.rows = 64, .dim = 2048, .has_residual = true})); }
// Rows that no number of cores divides, and that are no whole blocks of 32 bytes.
TEST(Emit, RmsNormOfOddSizes) {
  expect_right(Kernel({.rows = 301, .dim = 100}));
  expect_right(Kernel({.rows = 7, .dim = 33, .type = DType::f32, .to = DType::f32}, 2));
}
// Tiles of more rows than the functions' scratch has room for at a time.
TEST(Emit, RmsNormOfManyShortRows) { expect_right(Kernel({.rows = 600, .dim = 16}, 1)); }
TEST(Emit, RmsNormOfRowsApart) { expect_right(Kernel({.rows = 96, .dim = 256}, 1, 3)); }
// Rows in pieces: more of them than fit.
TEST(Emit, RmsNormOfLongRows) { expect_right(Kernel({.rows = 3, .dim = 40000}, 1)); }

// Llama's group of four heads for one of the cache, one unit a core; then several units of a core, and cores with
// fewer.
TEST(Emit, DecodeAttention) {
  expect_right(Attention({.sequences = 1, .heads = 8, .kv_heads = 2, .dim = 128, .length = 700}));
}
TEST(Emit, DecodeAttentionOfManyUnits) {
  expect_right(Attention({.sequences = 5, .heads = 8, .kv_heads = 2, .dim = 64, .length = 130}, 4));
}
// Of one row, of more rows than a fractal has, and of keys that are no whole tile.
TEST(Emit, DecodeAttentionOfOtherGroups) {
  expect_right(Attention({.sequences = 2, .heads = 2, .kv_heads = 2, .dim = 64, .length = 77}, 2));
  expect_right(Attention({.sequences = 1, .heads = 24, .kv_heads = 1, .dim = 64, .length = 333}, 1));
}
// So long that it is cut into splits, whose sums are merged once all cores have met.
TEST(Emit, DecodeAttentionInSplits) {
  expect_right(Attention({.sequences = 1, .heads = 4, .kv_heads = 1, .dim = 128, .length = 5000}, 4));
}

// Does the statement call a function of the kernel's whose first verb is a barrier of the vector queue?
bool begins_with_barrier(const std::string& source, const std::string& statement) {
  const std::size_t begin = statement.find_first_not_of(' '), end = statement.find('(');
  if (begin == statement.npos || end == statement.npos) return false;
  const std::size_t function = source.find("void " + statement.substr(begin, end - begin) + "(");
  if (function == source.npos) return false;
  std::stringstream body(source.substr(source.find("{\n", function) + 2));
  for (std::string line; std::getline(body, line) && line != "}";)  // verbs are capitalized
    if (const std::size_t verb = line.find_first_not_of(' ');
        verb != line.npos && std::isupper(static_cast<unsigned char>(line[verb])) != 0)
      return line.compare(verb, 19, "PipeBarrier<PIPE_V>") == 0;
  return false;
}

// Each flag and barrier of the kernel left out: told by a flag that is missing or left, or by a race. A barrier that
// nothing tells of has another behind it, the first statement of a function.
template <class Kernel> void expect_each_sync_is_needed(const Kernel& kernel, std::size_t at_least) {
  const std::size_t begin = kernel.source.find("__global__");
  std::string numbered = kernel.source.substr(0, begin);
  std::stringstream lines(kernel.source.substr(begin));
  std::vector<std::string> syncs, behind;
  for (std::string line; std::getline(lines, line); numbered += line + "\n") {
    if (behind.size() < syncs.size()) behind.push_back(line);
    const std::size_t verb = line.find_first_not_of(' ');
    bool is_sync = false;
    for (const char* each : {"SetFlag<", "WaitFlag<", "PipeBarrier<", "CrossCoreSetFlag<", "CrossCoreWaitFlag("})
      is_sync = is_sync || (verb != line.npos && line.compare(verb, std::strlen(each), each) == 0);
    if (!is_sync) continue;
    line.insert(verb, "if (stub_left_out != " + std::to_string(syncs.size()) + ") ");
    syncs.push_back(line);
  }
  EXPECT_GE(syncs.size(), at_least);
  const Library library(numbered);
  const Ran whole = library.run(kernel.device(), kernel.operands());
  EXPECT_TRUE(whole.wrong.empty() && whole.reports.empty()) << whole.wrong;
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    const Ran result = library.run(kernel.device(), kernel.operands(), static_cast<int>(i));
    if (!result.wrong.empty() || !result.reports.empty()) continue;
    const bool is_barrier = syncs[i].find("PipeBarrier<PIPE_V>") != std::string::npos;
    EXPECT_TRUE(is_barrier && begins_with_barrier(kernel.source, behind[i])) << syncs[i] << "\n" << behind[i];
  }
}
TEST(Emit, ASyncThatIsLeftOutIsFound) { expect_each_sync_is_needed(Kernel({.rows = 24, .dim = 512}, 1), 30); }

// A row in which a square is no f32: the way that the program did not take stops the kernel.
TEST(Emit, AnotherWayThanTheRecordedOneStops) {
  const Kernel kernel({.rows = 8, .dim = 512, .type = DType::f32, .to = DType::f32}, 1);
  *static_cast<float*>(const_cast<void*>(kernel.op.x.data)) = 3e38f;
  EXPECT_THAT(Library(kernel.source).run(kernel.device(), kernel.operands()).wrong, HasSubstr("Trap"));
}

TEST(Emit, ALoopHasTheRowsOfItsCore) {
  const Kernel kernel({.rows = 960, .dim = 4096});
  EXPECT_THAT(kernel.source, HasSubstr("for (uint32_t i = 0; i < "));
  EXPECT_THAT(kernel.source, HasSubstr(" * worker"));
  EXPECT_LT(std::count(kernel.source.begin(), kernel.source.end(), '\n'), 320);  // of 20 tiles with 33 statements each
}

TEST(Emit, WhatTheTableDoesNotHaveIsRefusedByName) {
  RandomTensors tensors;
  const Npu npu = npu_of();
  const auto int8 = source_of(npu, RmsNormShape{.rows = 8, .dim = 256, .to = DType::i8}.make(tensors));
  ASSERT_FALSE(int8.has_value());
  EXPECT_THAT(std::string(int8.error().message()), HasSubstr("i8"));
  const auto attention = source_of(npu, PagedAttentionShape{.sequences = 1, .length = 256}.make(tensors));
  ASSERT_FALSE(attention.has_value());
  EXPECT_THAT(std::string(attention.error().message()), HasSubstr("scalar_read"));
}

TEST(Emit, ADeviceWithoutVectorCoresIsRefused) {
  RandomTensors tensors;
  const Npu npu = *Npu::make({.device = "hexagon-htp-like"});
  const auto source = source_of(npu, RmsNormShape{.rows = 8, .dim = 256}.make(tensors));
  ASSERT_FALSE(source.has_value());
  EXPECT_THAT(std::string(source.error().message()), HasSubstr("one stream"));
}

TEST(Emit, ThePageShowsTheTable) {
  std::stringstream page;
  page << std::ifstream(test::source_path("docs/npu_emit.md")).rdbuf();
  EXPECT_THAT(page.str(), HasSubstr(emit::verb_table_text()));
}

}  // namespace
}  // namespace inlay::npu
