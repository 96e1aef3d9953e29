// One operator through inlay.h: random calls, nearly valid ones beside the same struct in C++, and spoiled ones.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "bindings/c/call.hpp"
#include "tests/fuzz/operators/every.hpp"
#include "tests/fuzz/operators/mutate.hpp"

namespace inlay::fuzz {

using c::Call;

// A change of a call that makes it one to refuse, whatever the operator; false where it cannot be done to this call.
inline bool spoil(Draw& d, Call& call) {
  if (call.arguments.empty()) return false;
  inlay_argument& argument =
      call.arguments[static_cast<std::size_t>(d.below(static_cast<index>(call.arguments.size())))];
  switch (d.below(8)) {
    case 0: call.arguments.push_back(inlay_argument(argument)); return true;
    case 1: argument.name = d.pick({"", "none", "X", "x\n", static_cast<const char*>(nullptr)}); return true;
    case 2: argument.reserved = static_cast<int32_t>(d.pick<index>({1, -1, 1 << 30})); return true;
    case 3: {
      const int32_t kind = static_cast<int32_t>(d.pick<index>({0, 1, 2, 3, 4, 5, 6, 7, -1, 1 << 30}));
      if (kind == argument.kind) return false;
      argument = inlay_argument{argument.name, kind, 0, {nullptr}};
      if (kind == INLAY_TENSOR) {  // one that is null is left out
        if (call.tensors.empty()) return false;
        argument.tensor = &call.tensors.front().dl;
      }
      return true;
    }
    default: break;
  }
  if (argument.kind == INLAY_FLAG) return argument.integer = d.pick<index>({2, -1, least, largest}), true;
  if (argument.kind == INLAY_WORD) return argument.word = d.pick({"", "erf ", static_cast<const char*>(nullptr)}), true;
  if (argument.kind == INLAY_NUMBER) return argument.number = d.pick({1e39, -1e300}), true;
  if (argument.kind == INLAY_LIST && d.chance(50)) return argument.list = {nullptr, 2}, true;
  if (argument.kind != INLAY_TENSOR && argument.kind != INLAY_LIST) return false;
  DLTensor& tensor =
      const_cast<DLTensor&>(argument.kind == INLAY_TENSOR ? *argument.tensor : *argument.list.tensors[0]);
  switch (d.below(7)) {
    case 0: return tensor.ndim += static_cast<int32_t>(d.pick<index>({-1, 1, 100, -100})), true;
    case 1: return tensor.device.device_type = static_cast<int32_t>(d.pick<index>({0, 2, 3, 7, -1})), true;
    case 2: return tensor.dtype.lanes = static_cast<uint16_t>(d.pick<index>({0, 2, 65535})), true;
    case 3: return tensor.dtype.bits = static_cast<uint8_t>(d.pick<index>({0, 1, 7, 128, 255})), true;
    case 4: return tensor.dtype.code = static_cast<uint8_t>(d.pick<index>({3, 5, 7, 255})), true;
    case 5: return tensor.shape = nullptr, true;
    default:
      tensor.byte_offset = ~std::uint64_t{0} - static_cast<std::uint64_t>(d.below(2));
      return reinterpret_cast<std::uintptr_t>(tensor.data) > 1 || tensor.data == nullptr;
  }
}

// The same call in other words.
inline void paraphrase(Draw& d, Call& call) {
  for (std::size_t i = call.arguments.size(); i > 1; --i)
    if (d.chance(30))
      std::swap(call.arguments[i - 1], call.arguments[static_cast<std::size_t>(d.below(static_cast<index>(i)))]);
  for (Call::Tensor& one : call.tensors) {
    DLTensor& tensor = one.dl;
    if (d.chance(20) && tensor.data != nullptr) {
      tensor.byte_offset = static_cast<std::uint64_t>(d.below(4096));
      tensor.data = static_cast<char*>(tensor.data) - tensor.byte_offset;
    }
    index step = 1;
    bool contiguous = true;
    for (std::size_t k = one.shape.size(); k-- > 0; step = saturating_multiply(step, one.shape[k]))
      contiguous &= one.strides[k] == step;
    if (contiguous && d.chance(50)) tensor.strides = nullptr;
  }
}

// Memory for random tensors, 8 KiB each: what 4^5 elements of 8 bytes take.
class Arena {
 public:
  static constexpr std::size_t each = 4 * 4 * 4 * 4 * 4 * 8, count = 40;
  std::byte* tensor(std::size_t i) { return memory_.data() + i % count * each; }
  bool untouched() const { return std::memcmp(memory_.data(), before_.data(), memory_.size()) == 0; }
  void restore() { std::memcpy(memory_.data(), before_.data(), memory_.size()); }

 private:
  static std::vector<std::byte> content() {  // zeros, so that indices are within whatever there is
    return std::vector<std::byte>(each * count);
  }
  std::vector<std::byte> memory_ = content(), before_ = content();
};

// Any tensor under any name: small, or of a size that no memory has.
inline Call random_call(Draw& d, Arena& arena, const std::string& op) {
  Call call;
  std::size_t fields = 0;
  EXPECT_EQ(inlay_field_count(op.c_str(), &fields), INLAY_OK);
  const bool alike = d.chance(50);  // of one extent and type, which many operators take
  const auto tensor = [&](int rank) {
    Call::Tensor& made = call.tensors.emplace_back();
    DLTensor& dl = made.dl;
    if (d.chance(alike ? 1 : 5)) rank = static_cast<int>(d.between(-1, 7));
    const bool impossible = d.chance(alike ? 1 : 5);
    index step = 1;
    made.shape.resize(8), made.strides.resize(8);
    for (int k = rank; k-- > 0;) {
      const auto at = static_cast<std::size_t>(k);
      made.shape[at] = impossible ? d.pick<index>({-1, least, largest, index{1} << 61})
                       : alike    ? 2
                                  : d.pick<index>({0, 1, 1, 2, 2, 3, 4, 4});
      made.strides[at] = d.chance(97) ? step : d.below(3);
      if (!impossible) step *= made.shape[at] < 1 ? 1 : made.shape[at];
    }
    dl.data = d.chance(3) || impossible ? nullptr : arena.tensor(call.tensors.size() - 1);
    dl.device.device_type = d.chance(98) ? kDLCPU : static_cast<int32_t>(d.below(20));
    dl.ndim = rank;
    const auto [code, bits] = inlay::detail::dl_types[d.chance(alike ? 95 : 60) ? 0 : d.below(dtype_count)];
    dl.dtype = {static_cast<uint8_t>(d.chance(98) ? code : static_cast<unsigned>(d.below(256))),
                static_cast<uint8_t>(d.chance(98) ? bits : static_cast<unsigned>(d.below(65))),
                static_cast<uint16_t>(d.chance(99))};
    dl.shape = made.shape.data(), dl.strides = d.chance(50) ? nullptr : made.strides.data();
    return &dl;
  };
  for (std::size_t i = 0; i < fields; ++i) {
    inlay_field field{};
    field.size = sizeof field;
    EXPECT_EQ(inlay_field_at(op.c_str(), i, &field), INLAY_OK);
    const bool wanted = field.role == INLAY_IN || field.role == INLAY_OUT || field.role == INLAY_INOUT;
    if (!d.chance(wanted ? 98 : 25)) continue;
    const int32_t kind = d.chance(97) ? field.kind : static_cast<int32_t>(d.between(-1, 8));
    const int rank = field.rank > 0 ? field.rank : 2;
    inlay_argument argument{field.name, kind, 0, {nullptr}};
    if (kind == INLAY_TENSOR) argument.tensor = tensor(rank);
    if (kind == INLAY_LIST) {
      auto& list = call.lists.emplace_back();
      for (index n = d.below(4); n > 0; --n) list.push_back(tensor(rank));
      argument.list = {list.data(), list.size()};
    }
    if (kind == INLAY_INTEGER) argument.integer = d.pick<index>({0, 1, 2, 4, 8, -1, least, largest, index{1} << 40});
    if (kind == INLAY_FLAG) argument.integer = d.below(2);
    if (kind == INLAY_NUMBER) argument.number = d.pick({0.0, 1.0, 0.5, -1.0, 1e30, std::nan(""), HUGE_VAL, 1e39});
    if (kind == INLAY_WORD) {
      index words = 0;
      while (field.words != nullptr && field.words[words] != nullptr) ++words;
      argument.word = words > 0 ? field.words[d.below(words)] : "none";
    }
    call.arguments.push_back(argument);
    if (d.chance(1)) call.arguments.push_back(argument);
  }
  return call;
}

template <class Op> class Calls {
 public:
  Calls() {
    inlay_backend_options options{};
    options.size = sizeof options, options.threads = 1;
    EXPECT_EQ(inlay_backend_open(&options, &cpu_), INLAY_OK) << inlay_message();
    options.threads = 0, options.name = "reference";
    EXPECT_EQ(inlay_backend_open(&options, &reference_), INLAY_OK) << inlay_message();
  }
  ~Calls() { inlay_backend_close(cpu_), inlay_backend_close(reference_); }

  void run(std::uint64_t seed) {
    SCOPED_TRACE("INLAY_FUZZ_SEED=" + std::to_string(seed) + " INLAY_FUZZ_RUNS=1");
    Draw d(rooms_, seed);
    d.chance(35) ? expect_no_harm(d) : expect_the_same(d);
  }
  void report(std::ostream& out) const {
    out << Op::name << ": " << ran_ << " ran, " << refused_ << " were refused; of random ones " << random_ran_
        << " ran, " << random_refused_ << " were refused\n";
  }
  bool ran_enough(std::uint64_t runs) const { return ran_ * 8 >= runs; }

 private:
  void expect_words(const std::string& words) {
    const std::string message = inlay_message();
    ASSERT_EQ(message.rfind(std::string(Op::name) + ": ", 0), 0u) << message;
    ASSERT_EQ(message, std::string(Op::name) + ": " + words);
  }

  void expect_the_same(Draw& d) {
    Op op{};
    draw(d, op);
    Mutator<Op>(d, op).change(d.chance(40) ? 0 : 1);
    for_each_field(op, [](const auto&, auto& value) {  // what is left out has no dtype in C
      if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>)
        if (!value.present()) value = {};
    });
    Call call = c::call_of(op);
    paraphrase(d, call);
    const bool spoiled = d.chance(30) && spoil(d, call);
    const bool on_cpu = d.chance(70);
    const inlay_backend* const backend = on_cpu ? cpu_ : reference_;
    d.remember();
    std::size_t bytes = 0;
    if (spoiled || !call.expressible) {
      ++refused_;
      EXPECT_EQ(inlay_run(backend, name_, call.arguments.data(), call.arguments.size(), nullptr, 0),
                INLAY_INVALID_ARGUMENT);
      EXPECT_NE(inlay_workspace_bytes(backend, name_, call.arguments.data(), call.arguments.size(), &bytes), INLAY_OK);
      ASSERT_EQ(std::string(inlay_message()).rfind(std::string(Op::name) + ": ", 0), 0u) << inlay_message();
      return expect_untouched(d);
    }
    if (check(op).ok() && !writes_nothing(op) && too_large(d, op)) return;
    Cpu cpu(serial());
    const Status expected = on_cpu ? inlay::run(cpu, op, [&](std::size_t n) { return scratch_.take(n, false); })
                                   : inlay::run(Reference{}, op);
    const std::vector<std::vector<std::byte>> outputs = bytes_of(d);
    d.restore();
    const inlay_code sized =
        inlay_workspace_bytes(backend, name_, call.arguments.data(), call.arguments.size(), &bytes);
    ASSERT_LE(bytes, ScratchRoom::most);
    const Workspace workspace = d.chance(50) ? scratch_.take(bytes, false) : Workspace{};
    const inlay_code code =
        inlay_run(backend, name_, call.arguments.data(), call.arguments.size(), workspace.data(), workspace.size());
    ASSERT_EQ(code, static_cast<inlay_code>(expected.code())) << expected.message() << " / " << inlay_message();
    if (!expected.ok()) {
      ASSERT_NO_FATAL_FAILURE(expect_words(std::string(expected.message())));
    }
    ASSERT_EQ(sized == INLAY_OK, expected.ok() || expected.code() == StatusCode::corrupt_data);
    ASSERT_TRUE(outputs == bytes_of(d)) << "other bits than in C++";
    ++(expected.ok() ? ran_ : refused_);
  }

  void expect_no_harm(Draw& d) {
    if constexpr (Op::name == "skeleton") return;
    const Call call = random_call(d, arena_, std::string(Op::name));
    const inlay_backend* const backend = d.chance(50) ? cpu_ : reference_;
    const inlay_code code = inlay_run(backend, name_, call.arguments.data(), call.arguments.size(), nullptr, 0);
    ++(code == INLAY_OK ? random_ran_ : random_refused_);
    if (code == INLAY_OK || code == INLAY_CORRUPT_DATA) return arena_.restore();
    ASSERT_EQ(code, INLAY_INVALID_ARGUMENT) << inlay_message();
    ASSERT_EQ(std::string(inlay_message()).rfind(std::string(Op::name) + ": ", 0), 0u) << inlay_message();
    ASSERT_TRUE(arena_.untouched()) << "written in spite of " << inlay_message();
  }

  void expect_untouched(Draw& d) {
    for (const Placed& one : d.placed())
      ASSERT_TRUE(one.bytes == 0 || std::memcmp(one.begin, one.before.data(), one.bytes) == 0)
          << "written in spite of " << inlay_message();
  }
  static std::vector<std::vector<std::byte>> bytes_of(Draw& d) {
    std::vector<std::vector<std::byte>> all;
    for (const Placed& one : d.placed()) all.emplace_back(one.begin, one.begin + one.bytes);
    return all;
  }
  // As Session of fuzz/operators has it: not for want of a contract, but of time.
  static bool too_large(const Draw& d, const Op& op) {
    bool large = false;
    for_each_view(op, [&](const auto&, const auto& view) {
      if (!view.empty()) large = large || view.size() > (index{1} << 15) || !d.owns(view);
    });
    return large;
  }

  const char* const name_ = Op::name.data();
  inlay_backend *cpu_ = nullptr, *reference_ = nullptr;
  Rooms rooms_{96, std::size_t{1} << 20};
  ScratchRoom scratch_;
  Arena arena_;
  std::uint64_t ran_ = 0, refused_ = 0, random_ran_ = 0, random_refused_ = 0;
};

}  // namespace inlay::fuzz
