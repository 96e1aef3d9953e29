// Weights that C packs: to their operators they are what the same call of C++ packs; wrong ones are told so.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include <inlay/cpu.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/weights/linear_int8_pack.hpp>
#include <inlay/weights/linear_pack.hpp>
#include <inlay/weights/linear_w4a16_import.hpp>
#include "bindings/c/call.hpp"
#include "bindings/c/packers.hpp"

namespace inlay::test {
namespace {

constexpr index n = 37, k = 96, tokens = 3;  // a panel that is not full

struct Backend {
  inlay_backend* cpu = nullptr;
  Backend() { EXPECT_EQ(inlay_backend_open(nullptr, &cpu), INLAY_OK) << inlay_message(); }
  ~Backend() { inlay_backend_close(cpu); }
};

inlay_weight_info describe(const inlay_weight* weight) {
  inlay_weight_info info{};
  info.size = sizeof info;
  EXPECT_EQ(inlay_weight_describe(weight, &info), INLAY_OK) << inlay_message();
  return info;
}

std::vector<float> noise(index count, float scale = 1) {
  std::vector<float> values;
  for (index i = 0; i < count; ++i) values.push_back(scale * std::sin(0.37f * static_cast<float>(i * i % 1009)));
  return values;
}
template <class T> std::vector<T> words(index count, unsigned range = ~0u) {
  std::vector<T> values;
  for (index i = 0; i < count; ++i)
    values.push_back(static_cast<T>((static_cast<unsigned>(i + 1) * 2654435761u >> 3) % range));
  return values;
}

// Packs through C, and computes y of noise with what was packed.
template <class Packer> std::vector<float> through_c(const Packer& packer, const char* op) {
  Backend backend;
  c::Call call = c::call_of(packer);
  inlay_weight* weight = nullptr;
  EXPECT_EQ(inlay_weight_pack(backend.cpu, Packer::name.data(), call.arguments.data(), call.arguments.size(), &weight),
            INLAY_OK)
      << inlay_message();
  if (weight == nullptr) return {};
  const inlay_weight_info info = describe(weight);
  EXPECT_STREQ(info.op, op);
  EXPECT_EQ(info.n, n);
  EXPECT_EQ(info.k, k);
  EXPECT_GE(info.bytes, n * k / 2);
  std::vector<float> x = noise(tokens * k), y(tokens * n, -77);
  c::Call rest;
  rest.give("x", ConstView<2>(x.data(), {tokens, k}));
  rest.give("y", View<2>(y.data(), {tokens, n}));
  std::vector<inlay_argument> arguments(info.arguments, info.arguments + info.argument_count);
  arguments.insert(arguments.end(), rest.arguments.begin(), rest.arguments.end());
  EXPECT_EQ(inlay_run(backend.cpu, info.op, arguments.data(), arguments.size(), nullptr, 0), INLAY_OK)
      << inlay_message();
  inlay_weight_close(weight);
  return y;
}

template <class Op> std::vector<float> in_cpp(Op op) {
  std::vector<float> x = noise(tokens * k), y(tokens * n, -99);
  op.x = {x.data(), {tokens, k}};
  op.y = {y.data(), {tokens, n}};
  std::vector<std::byte, CacheLineAllocator<std::byte>> scratch;
  const Status status = run(Cpu(), op, [&](std::size_t bytes) {
    scratch.resize(bytes);
    return Workspace(scratch.data(), bytes);
  });
  EXPECT_TRUE(status.ok()) << status.message();
  return y;
}
std::vector<float> in_cpp(const Expected<PackedW4>& packed) {
  EXPECT_TRUE(packed) << packed.error().message();
  return in_cpp(packed->op({}, {}));
}

TEST(weights, of_floats_are_packed_for_linear) {
  const std::vector<float> w = noise(n * k);
  const ConstView<2> rows(w.data(), {n, k});
  Linear<Host> linear{};
  linear.weight_rows = rows;
  const std::vector<float> exact = in_cpp(linear);
  EXPECT_EQ(through_c(c::PackLinear{rows}, "linear"), exact);
  const auto rounded = through_c(c::PackLinear{rows, c::FloatType::bf16}, "linear");
  EXPECT_NE(rounded, exact);
  for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(rounded[i], exact[i], 0.2) << i;
}

TEST(weights, of_floats_are_rounded_to_8_bits) {
  const std::vector<float> w = noise(n * k);
  const ConstView<2> rows(w.data(), {n, k});
  std::vector<std::int8_t> codes(n * k), memory(48 * k);
  std::vector<float> scales(n);
  std::vector<std::int32_t> sums(n);
  ASSERT_TRUE(run(Reference{},
                  Quantize<Host>{.x = rows, .y = {codes.data(), {n, k}}, .row_scale = {scales.data(), {n}}},
                  [](std::size_t) { return Workspace{}; })
                  .ok());
  const View<3> packed(memory.data(), linear_int8::packed_extents(n, k));
  ASSERT_TRUE(pack_linear_int8({codes.data(), {n, k}}, packed, {sums.data(), {n}}).ok());
  LinearInt8<Host> op{};
  op.weight = packed, op.weight_sum = {sums.data(), {n}}, op.weight_scale = {scales.data(), {n}};
  EXPECT_EQ(through_c(c::QuantizeInt8{rows}, "linear_int8"), in_cpp(op));
}

TEST(weights, of_codes_are_packed_for_linear_int8) {
  const auto w = words<std::int8_t>(n * k, 256);
  const auto x = words<std::int8_t>(tokens * k, 256);
  Backend backend;
  c::Call call = c::call_of(c::PackLinearInt8{{w.data(), {n, k}}});
  inlay_weight* weight = nullptr;
  ASSERT_EQ(inlay_weight_pack(backend.cpu, "pack_linear_int8", call.arguments.data(), call.arguments.size(), &weight),
            INLAY_OK)
      << inlay_message();
  const inlay_weight_info info = describe(weight);
  std::vector<std::int32_t> y(tokens * n);
  call.give("x", ConstView<2>(x.data(), {tokens, k}));
  call.give("y", View<2>(y.data(), {tokens, n}));
  std::vector<inlay_argument> arguments(info.arguments, info.arguments + info.argument_count);
  arguments.insert(arguments.end(), call.arguments.end() - 2, call.arguments.end());
  ASSERT_EQ(inlay_run(backend.cpu, info.op, arguments.data(), arguments.size(), nullptr, 0), INLAY_OK)
      << inlay_message();
  for (index t = 0; t < tokens; ++t)
    for (index o = 0; o < n; ++o) {
      std::int32_t sum = 0;
      for (index i = 0; i < k; ++i)
        sum += x[static_cast<std::size_t>(t * k + i)] * w[static_cast<std::size_t>(o * k + i)];
      ASSERT_EQ(y[static_cast<std::size_t>(t * n + o)], sum) << t << ", " << o;
    }
  inlay_weight_close(weight);
}

TEST(weights, of_floats_are_rounded_to_4_bits) {
  const std::vector<float> w = noise(n * k);
  const ConstView<2> rows(w.data(), {n, k});
  EXPECT_EQ(through_c(c::QuantizeW4a16{.weight = rows, .group = 32}, "linear_w4a16"), in_cpp(quantize_w4a16(rows, 32)));
  EXPECT_EQ(
      through_c(
          c::QuantizeW4a16{.weight = rows, .group = 24, .bits = 8, .symmetric = false, .scales = c::FloatType::own},
          "linear_w4a16"),
      in_cpp(quantize_w4a16(rows, 24, 8, false, DType::f32)));
}

TEST(weights, of_gptq_are_imported) {
  constexpr index channels = 37, groups = 3;
  const auto qweight = words<std::int32_t>(k / 8 * channels), qzeros = words<std::int32_t>(groups * 5),
             g_idx = words<std::int32_t>(k, groups);
  const std::vector<float> scales = noise(groups * channels, 0.01f);
  const c::ImportGptq packer{.qweight = {qweight.data(), {k / 8, channels}},
                             .qzeros = {qzeros.data(), {groups, 5}},
                             .scales = {scales.data(), {groups, channels}},
                             .g_idx = {g_idx.data(), {k}},
                             .group = 32,
                             .v2 = true};
  EXPECT_EQ(through_c(packer, "linear_w4a16"), in_cpp(import_gptq({.qweight = packer.qweight,
                                                                   .qzeros = packer.qzeros,
                                                                   .scales = packer.scales,
                                                                   .g_idx = packer.g_idx,
                                                                   .group = 32,
                                                                   .v2 = true})));
}

TEST(weights, of_awq_are_refused_or_imported) {
  constexpr index channels = 40, groups = 3;
  const auto qweight = words<std::int32_t>(k * channels / 8), qzeros = words<std::int32_t>(groups * channels / 8);
  const std::vector<float> scales = noise(groups * channels, 0.01f);
  const c::ImportAwq packer{.qweight = {qweight.data(), {k, channels / 8}},
                            .qzeros = {qzeros.data(), {groups, channels / 8}},
                            .scales = {scales.data(), {groups, channels}},
                            .group = 32};
  Backend backend;
  const c::Call call = c::call_of(packer);
  inlay_weight* weight = nullptr;
  ASSERT_EQ(inlay_weight_pack(backend.cpu, "import_awq", call.arguments.data(), call.arguments.size(), &weight),
            INLAY_OK)
      << inlay_message();
  const auto expected =
      import_awq({.qweight = packer.qweight, .qzeros = packer.qzeros, .scales = packer.scales, .group = 32});
  const inlay_weight_info info = describe(weight);
  ASSERT_STREQ(info.arguments[0].name, "codes");
  EXPECT_EQ(std::memcmp(info.arguments[0].tensor->data, expected->codes.data(), expected->codes.size()), 0);
  EXPECT_EQ(info.bytes, static_cast<std::int64_t>(expected->bytes()));
  inlay_weight_close(weight);
}

TEST(weights, of_gguf_and_onnx_are_imported) {
  const auto rows = words<std::uint8_t>(n * k / 32 * 18, 61);  // scales of f16 that are small
  const c::ImportGguf gguf{.rows = {rows.data(), {n, k / 32 * 18}}, .type = GgmlType::Q4_0};
  EXPECT_EQ(through_c(gguf, "linear_w4a16"), in_cpp(import_gguf(GgmlType::Q4_0, rows.data(), n, k)));
  const std::vector<float> scales = noise(n * 3, 0.01f);
  const c::ImportOnnx onnx{.b = {rows.data(), {n, 3, 16}}, .scales = {scales.data(), {n, 3}}, .k = k};
  EXPECT_EQ(through_c(onnx, "linear_w4a16"), in_cpp(import_onnx({.b = onnx.b, .scales = onnx.scales, .k = k})));
}

TEST(weights, live_without_what_they_are_made_of) {
  Backend backend;
  auto w = std::make_unique<std::vector<float>>(noise(n * k));
  const c::Call call = c::call_of(c::PackLinear{{w->data(), {n, k}}});
  inlay_weight* weight = nullptr;
  ASSERT_EQ(inlay_weight_pack(backend.cpu, "pack_linear", call.arguments.data(), 1, &weight), INLAY_OK);
  const float first = w->front();
  w.reset();
  const inlay_weight_info info = describe(weight);
  EXPECT_EQ(*static_cast<const float*>(info.arguments[0].tensor->data), first);
  inlay_weight_close(weight);
  inlay_weight_close(nullptr);
}

struct Refused {
  const char* what;
  const char* packer;
  std::function<void(std::vector<inlay_argument>&, DLTensor&)> spoil;
  const char* words;
};

TEST(weights, that_are_wrong_are_refused_in_words) {
  static int64_t empty[] = {0, k}, together[] = {0, 1}, negative[] = {n, -1};
  const Refused rows[] = {
      {"a packer that there is not", "pack", [](auto&, auto&) {},
       "there is no packer 'pack'; it must be one of pack_linear "},
      {"a missing tensor", "pack_linear", [](auto& a, auto&) { a.clear(); },
       "pack_linear: weight is missing; it must be given"},
      {"a dtype", "pack_linear", [](auto&, auto& t) { t.dtype.code = kDLInt; },
       "pack_linear: weight has dtype i32; it must be one of f32 f16 bf16"},
      {"another dtype", "pack_linear_int8", [](auto&, auto&) {},
       "pack_linear_int8: weight has dtype f32; it must be one of i8 u8"},
      {"a device", "quantize_int8", [](auto&, auto& t) { t.device.device_type = 2; },
       "quantize_int8: weight: DLTensor has device type 2"},
      {"no memory", "quantize_int8", [](auto&, auto& t) { t.data = nullptr; },
       "quantize_int8: weight has shape [37, 96] but no memory"},
      {"nothing", "pack_linear", [](auto&, auto& t) { t.shape = empty; },
       "pack_linear: weight has no elements; it must have some"},
      {"a negative extent", "pack_linear", [](auto&, auto& t) { t.shape = negative; },
       "pack_linear: weight has shape [37, -1]"},
      {"one row, many times", "pack_linear", [](auto&, auto& t) { t.strides = together; },
       "pack_linear: weight has rows that share memory"},
      {"bits", "quantize_w4a16", [](auto& a, auto&) { a.push_back(inlay_give_integer("bits", 7)); },
       "quantize_w4a16: bits is 7; it must be 4, 5, 6 or 8"},
      {"a group", "quantize_w4a16", [](auto& a, auto&) { a.push_back(inlay_give_integer("group", 12)); },
       "quantize_w4a16: group is 12; it must be a multiple of 8"},
      {"a negative group", "quantize_w4a16", [](auto& a, auto&) { a.push_back(inlay_give_integer("group", -8)); },
       "quantize_w4a16: group is -8"},
      {"a type of floats", "pack_linear", [](auto& a, auto&) { a.push_back(inlay_give_word("dtype", "f64")); },
       "pack_linear: dtype is 'f64'; it must be one of own f32 f16 bf16"},
      {"an argument of another packer", "pack_linear",
       [](auto& a, auto&) { a.push_back(inlay_give_integer("bits", 4)); }, "pack_linear: there is no argument 'bits'"},
      {"rows of half a block", "import_gguf",
       [](auto& a, auto& t) {
         a[0].name = "rows", t.dtype = {kDLUInt, 8, 1};
       },
       "import_gguf: rows has rows of 96 bytes; they must be a multiple of 18, the bytes of a block"},
      {"floats of GGUF", "import_gguf",
       [](auto& a, auto& t) {
         a[0].name = "rows", t.dtype = {kDLUInt, 8, 1};
         a.push_back(inlay_give_word("type", "F16"));
       },
       "import_gguf: type is 1; it must be one of a block format"},
      {"no k", "import_onnx", [](auto& a, auto&) { a.clear(); }, "import_onnx: b is missing"},
  };
  Backend backend;
  const std::vector<float> w = noise(n * k), before = w;
  for (const Refused& row : rows) {
    SCOPED_TRACE(row.what);
    int64_t shape[] = {n, k};
    DLTensor tensor{};
    tensor.data = const_cast<float*>(w.data());
    tensor.device.device_type = kDLCPU;
    tensor.ndim = 2, tensor.dtype = {kDLFloat, 32, 1}, tensor.shape = shape;
    std::vector<inlay_argument> arguments{inlay_give_tensor("weight", &tensor)};
    row.spoil(arguments, tensor);
    auto* weight = reinterpret_cast<inlay_weight*>(8);
    EXPECT_EQ(inlay_weight_pack(backend.cpu, row.packer, arguments.data(), arguments.size(), &weight),
              INLAY_INVALID_ARGUMENT);
    EXPECT_EQ(weight, nullptr);
    EXPECT_NE(std::string(inlay_message()).find(row.words), std::string::npos)
        << row.words << " in: " << inlay_message();
  }
  EXPECT_EQ(w, before);
}

TEST(weights, that_are_not_finite_are_refused) {
  Backend backend;
  std::vector<float> w = noise(n * k);
  w[5 * k + 7] = std::nanf("");
  for (const char* packer : {"quantize_int8", "quantize_w4a16"}) {
    const c::Call call = c::call_of(c::QuantizeInt8{{w.data(), {n, k}}});
    inlay_weight* weight = nullptr;
    EXPECT_EQ(inlay_weight_pack(backend.cpu, packer, call.arguments.data(), 1, &weight), INLAY_INVALID_ARGUMENT);
    EXPECT_NE(std::string(inlay_message()).find("row 5"), std::string::npos) << inlay_message();
  }
}

TEST(weights, and_pointers_that_are_null) {
  Backend backend;
  inlay_weight* weight = nullptr;
  const auto says = [](const char* words) {
    EXPECT_NE(std::string(inlay_message()).find(words), std::string::npos) << words << " in: " << inlay_message();
  };
  EXPECT_EQ(inlay_weight_pack(backend.cpu, "pack_linear", nullptr, 0, nullptr), INLAY_INVALID_ARGUMENT);
  says("weight is null; it must be where the weight is put");
  EXPECT_EQ(inlay_weight_pack(nullptr, "pack_linear", nullptr, 0, &weight), INLAY_INVALID_ARGUMENT);
  says("backend is null");
  EXPECT_EQ(inlay_weight_pack(backend.cpu, nullptr, nullptr, 0, &weight), INLAY_INVALID_ARGUMENT);
  says("packer is null");
  EXPECT_EQ(inlay_weight_pack(backend.cpu, "pack_linear", nullptr, 3, &weight), INLAY_INVALID_ARGUMENT);
  says("pack_linear: arguments is null; it must point to 3");
  inlay_weight_info info{};
  info.size = sizeof info;
  EXPECT_EQ(inlay_weight_describe(nullptr, &info), INLAY_INVALID_ARGUMENT);
  says("weight is null; it must be one that inlay_weight_pack gave");
}

// A backend whose threads leave tasks out: there is no weight then.
TEST(weights, that_nobody_packed_to_the_end_are_none) {
  inlay_backend_options options{};
  options.size = sizeof options, options.width = 2;
  options.run = [](void*, size_t, void (*)(void*, size_t), void*) {};
  inlay_backend* backend = nullptr;
  ASSERT_EQ(inlay_backend_open(&options, &backend), INLAY_OK) << inlay_message();
  const std::vector<float> w = noise(n * k);
  const c::Call call = c::call_of(c::QuantizeW4a16{{w.data(), {n, k}}});
  auto* weight = reinterpret_cast<inlay_weight*>(8);
  EXPECT_EQ(inlay_weight_pack(backend, "quantize_w4a16", call.arguments.data(), 1, &weight), INLAY_INTERNAL);
  EXPECT_EQ(weight, nullptr);
  inlay_backend_close(backend);
}

template <class... Packers> void expect_rows() {
  EXPECT_EQ(inlay_packer_count(), sizeof...(Packers));
  std::size_t at = 0;
  (
      [&] {
        SCOPED_TRACE(Packers::name);
        EXPECT_EQ(inlay_packer_name(at++), Packers::name);
        std::size_t count = 0, i = 0;
        ASSERT_EQ(inlay_field_count(Packers::name.data(), &count), INLAY_OK) << inlay_message();
        EXPECT_EQ(count, Packers::fields.count);
        inlay_field field{};
        field.size = sizeof field;
        const Packers made{};
        for_each_field(made, [&](const auto& declared, const auto&) {
          ASSERT_EQ(inlay_field_at(Packers::name.data(), i++, &field), INLAY_OK) << inlay_message();
          EXPECT_EQ(field.name, declared.name);
        });
        EXPECT_EQ(inlay_field_at(Packers::name.data(), count, &field), INLAY_INVALID_ARGUMENT);
      }(),
      ...);
  EXPECT_EQ(inlay_packer_name(at), nullptr);
}

TEST(weights, have_packers_whose_fields_are_told) {
  expect_rows<c::PackLinear, c::PackLinearInt8, c::QuantizeInt8, c::QuantizeW4a16, c::ImportGptq, c::ImportAwq,
              c::ImportGguf, c::ImportOnnx>();
}

}  // namespace
}  // namespace inlay::test
