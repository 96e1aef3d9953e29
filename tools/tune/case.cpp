#include "tools/tune/case.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "measure/rounding.hpp"

namespace inlay::tools {

namespace {

constexpr std::size_t guard = 256;
constexpr std::byte watched{0xa5};

// Element k in row-major order, as an offset.
index place(const Case::Output& output, index k) {
  index at = 0;
  for (std::size_t d = output.extents.size(); d-- > 0; k /= output.extents[d])
    at += k % output.extents[d] * output.strides[d];
  return at;
}

}  // namespace

Case::~Case() {
  for (const Buffer& buffer : buffers_) cl_.release({buffer.begin.memory, 0});
  if (workspace_.bytes > 0) cl_.release({workspace_.begin.memory, 0});
}

Expected<std::size_t> Case::add_buffer(std::vector<std::byte> bytes, bool written) {
  auto made = cl_.allocate(bytes.size() + 2 * guard);
  if (!made) return failure(std::move(made.error()));
  buffers_.push_back({{made->memory, guard}, std::move(bytes), written});
  return buffers_.size() - 1;
}

Status Case::run_once(bool is_watched) {
  Status failed;
  Status status = launch_([&](std::size_t bytes) -> SpaceWorkspace<Cl> {
    asked_ = bytes;
    if (bytes == 0) return {};
    if (bytes > workspace_.bytes) {
      if (workspace_.bytes > 0) cl_.release({workspace_.begin.memory, 0});
      workspace_ = {};
      auto made = cl_.allocate(bytes + 2 * guard);
      if (!made) {
        failed = std::move(made.error());
        return {};
      }
      workspace_ = {{made->memory, guard}, bytes};
    }
    if (is_watched) {
      const std::vector<std::byte> all(bytes + 2 * guard, watched);
      failed = cl_.upload({workspace_.begin.memory, 0}, all);
    }
    return {workspace_.begin, bytes};
  });
  return failed.ok() ? std::move(status) : std::move(failed);
}

Status Case::prove() {
  for (const Buffer& buffer : buffers_) {  // all of it: the call before this one may have written anywhere
    std::vector<std::byte> all(buffer.bytes.size() + 2 * guard, watched);
    std::ranges::copy(buffer.bytes, all.begin() + guard);
    if (Status status = cl_.upload({buffer.begin.memory, 0}, all); !status.ok()) return status;
  }
  if (Status status = run_once(true); !status.ok()) return status;
  if (Status status = cl_.finish(); !status.ok()) return status;
  if (asked_ > 0)
    if (Status status = check_guards(workspace_.begin, asked_, "its workspace"); !status.ok()) return status;
  result_.clear();
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& buffer = buffers_[i];
    std::vector<std::byte> got(buffer.bytes.size());
    if (Status status = cl_.download(got, buffer.begin); !status.ok()) return status;
    std::string name = "an operand";
    for (const Output& output : outputs_)
      if (output.buffer == i) {
        name = output.name;
        if (Status status = check(output, got); !status.ok()) return status;
      }
    if (Status status = check_guards(buffer.begin, got.size(), name); !status.ok()) return status;
    if (Status status = check_gaps(i, got); !status.ok()) return status;
    if (buffer.written) result_.insert(result_.end(), got.begin(), got.end());
  }
  return {};
}

Status Case::check_guards(ClAddress begin, std::size_t bytes, const std::string& name) const {
  for (const bool behind : {false, true}) {
    std::vector<std::byte> seen(guard);
    const std::ptrdiff_t at = begin.offset + (behind ? static_cast<std::ptrdiff_t>(bytes) : -std::ptrdiff_t{guard});
    if (Status status = cl_.download(seen, {begin.memory, at}); !status.ok()) return status;
    if (std::ranges::any_of(seen, [](std::byte b) { return b != watched; }))
      return {StatusCode::corrupt_data, "wrote " + std::string(behind ? "behind " : "before ") + name};
  }
  return {};
}

Status Case::check(const Output& output, const std::vector<std::byte>& got) const {
  double largest = 0;
  for (double e : output.expected)
    if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
  const bool is_float = output.dtype == DType::f32 || output.dtype == DType::f16 || output.dtype == DType::bf16;
  const double error = is_float ? ulps_ * 0x1p-24 * largest : 0;
  for (std::size_t k = 0; k < output.expected.size(); ++k) {
    const double e = output.expected[k];
    const double g = load_element(got.data() + output.at, output.dtype, place(output, static_cast<index>(k)));
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    const bool rounds = output.dtype == DType::f16 || output.dtype == DType::bf16;
    const double bound = error + (rounds ? measure::half_ulp(output.dtype, std::abs(e) + error) : 0);
    if (std::abs(g - e) <= bound) continue;  // false with a NaN
    return {StatusCode::corrupt_data, output.name + " has " + std::to_string(g) + " at element " + std::to_string(k) +
                                          ", the reference " + std::to_string(e)};
  }
  return {};
}

Status Case::check_gaps(std::size_t buffer, const std::vector<std::byte>& got) const {
  std::vector<std::byte> expected = buffers_[buffer].bytes;
  // Bits of elements may be anything: a code of four bits may share its byte with what is none.
  std::vector<std::byte> owned(got.size());
  for (const Output& output : outputs_) {
    if (output.buffer != buffer) continue;
    const index size = bits(output.dtype);
    for (std::size_t k = 0; k < output.expected.size(); ++k) {
      const index bit = place(output, static_cast<index>(k)) * size;
      const std::size_t byte = output.at + static_cast<std::size_t>(bit / 8);
      if (size < 8) owned[byte] |= std::byte{15} << bit % 8;
      for (index b = 0; b < size / 8; ++b) owned[byte + static_cast<std::size_t>(b)] = std::byte{255};
    }
  }
  for (std::size_t b = 0; b < got.size(); ++b)
    if (((got[b] ^ expected[b]) & ~owned[b]) != std::byte{0})
      return {StatusCode::corrupt_data, "wrote byte " + std::to_string(b) + " of a buffer, which is no element's"};
  return {};
}

Expected<double> Case::seconds(double least) {
  using Clock = std::chrono::steady_clock;
  // In batches, as `finish` takes as long as some calls do.
  for (int calls = 1;; calls *= 4) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i)
      if (Status status = run_once(false); !status.ok()) return failure(std::move(status));
    if (Status status = cl_.finish(); !status.ok()) return failure(std::move(status));
    const double passed = std::chrono::duration<double>(Clock::now() - begin).count();
    constexpr int most = 4096;
    if (passed >= least || calls >= most) return passed / calls;
  }
}

}  // namespace inlay::tools
