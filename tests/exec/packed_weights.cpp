// A model on a backend that packs weights: which ones it packs, that logits are those without, and that nothing is
// left.
#include <inlay/exec/engine_on.hpp>

#include "tests/exec/support/random_session.hpp"

#include <functional>

#include <inlay/npu.hpp>

namespace inlay::exec::test {

// The same backend, of whom nobody knows that it packs.
struct Unpacked {
  using Space = Host;
  static constexpr std::string_view name = "npu";
  const Npu* npu;
};
template <class Op> Status supports(const Unpacked& as, const Op& op) { return inlay::supports(*as.npu, op); }
template <class Op> std::size_t scratch_bytes(const Unpacked& as, const Op& op) {
  return inlay::scratch_bytes(*as.npu, op);
}
template <class Op> Status compute(const Unpacked& as, const Op& op, const Workspace& workspace) {
  return inlay::compute(*as.npu, op, workspace);
}

// A backend that counts what is packed, and not forgotten again.
struct Counted : Unpacked {
  int* packed;
};
template <class Op> std::size_t packed_bytes(const Counted& as, const Op& op) {
  return inlay::packed_bytes(*as.npu, op);
}
template <class Op> Status pack(const Counted& as, const Op& op, std::span<std::byte> memory) {
  ++*as.packed;
  return inlay::pack(*as.npu, op, memory);
}
std::size_t forget(const Counted& as, std::span<std::byte> memory) {
  --*as.packed;
  return inlay::forget(*as.npu, memory);
}

namespace {

static_assert(PacksWeights<Npu> && PacksWeights<Counted> && !PacksWeights<Unpacked> && !PacksWeights<Cpu>);

Npu npu_of(std::string_view device) {
  auto npu = Npu::make({.device = std::string(device)});
  EXPECT_TRUE(npu.has_value());
  return std::move(*npu);
}

// Of a prompt and of the token behind it.
template <class Run> std::vector<float> logits(const ModelConfig& config, const std::string& type, Run run) {
  Session one = session(config, type, std::move(run), {});
  const std::vector<Token> prompt = tokens(7, config.vocab);
  std::vector<float> result = all(one, one.append(prompt, 7));
  const std::vector<float> next = all(one, one.decode(prompt.front()));
  result.insert(result.end(), next.begin(), next.end());
  return result;
}

TEST(packed_weights, change_no_logit) {
  const ModelConfig config = tiny();
  for (const std::string_view device : npu_devices())
    for (const char* type : {"f32", "bf16", "f16", "int8", "w4a16"}) {
      Npu npu = npu_of(device), other = npu_of(device);
      const auto expected = logits(config, type, Chain<Unpacked, Cpu>(Unpacked{&other}, Cpu(serial())));
      const auto found = logits(config, type, Chain<Npu&, Cpu>(npu, Cpu(serial())));
      EXPECT_EQ(found, expected) << device << ", " << type;
    }
}

TEST(packed_weights, are_all_linears_of_a_model_for_as_long_as_it_lives) {
  const ModelConfig config = tiny();
  const Npu npu = npu_of("ascend-a2-like");
  int packed = 0;
  // Gate and up are one linear; q of tiny() ends within a panel, so that q, k and v are three.
  for (const auto& [type, linears] : {std::pair("f32", 6 * 2 + 1), {"int8", 6 * 2 + 1}, {"f16", 0}, {"w4a16", 0}}) {
    {
      const Session one =
          session(config, type, Chain<Counted, Cpu>(Counted{{&npu}, &packed}, Cpu(serial())), Session::Options());
      EXPECT_EQ(packed, linears) << type;
    }
    EXPECT_EQ(packed, 0) << type;
  }
}

TEST(packed_weights, are_those_that_pay_and_none_once_their_memory_is_gone) {
  const Npu npu = npu_of("ascend-a2-like");
  const index m = 1, n = 512, k = 256;
  const auto packed_extents = linear_packed_extents(n, k, DType::f32);
  std::vector<float> x(static_cast<std::size_t>(k)), w(static_cast<std::size_t>(n * k)), y(static_cast<std::size_t>(n));
  std::vector<std::byte> f16(static_cast<std::size_t>(2 * n * k));
  const Linear<Host> op{.x = {x.data(), {m, k}}, .weight = {w.data(), packed_extents}, .y = {y.data(), {m, n}}};
  Linear<Host> lies_well = op;
  lies_well.weight = {f16.data(), DType::f16, linear_packed_extents(n, k, DType::f16)};
  const double unpacked = estimate(npu, op)->cycles;
  {
    PackedWeights<Npu> packed(npu);
    packed(lies_well);
    EXPECT_EQ(packed.bytes(), 0u);
    packed(op);
    EXPECT_EQ(packed.bytes(), packed_bytes(npu, op));
    EXPECT_TRUE(packed.take_status().ok());
    EXPECT_LT(estimate(npu, op)->cycles, unpacked);
  }
  EXPECT_EQ(estimate(npu, op)->cycles, unpacked);
}

}  // namespace
}  // namespace inlay::exec::test
