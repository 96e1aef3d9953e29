#include <cmath>
#include <utility>

#include <inlay/model/fused_linears.hpp>
#include <inlay/model/random_weights.hpp>
#include <inlay/weights/linear_pack.hpp>

#include "executor/model/weight_source.hpp"

namespace inlay::exec {

namespace {

class RandomSource final : public WeightSource {
 public:
  RandomSource(const Parallel& parallel, const std::string& type, std::uint64_t seed)
      : parallel_(parallel), type_(type), next_(seed << 40) {}

  // Packed bytes are made as they are: a layout of random numbers is as random as its numbers. The
  // scale keeps activations near one through all layers.
  Expected<LinearWeight> linear(const TensorFacts& tensor) override {
    if (tensor.rank == 2) {
      const bool decides = tensor.part == Part::router;
      return linear(decides ? "f32" : type_, tensor.extents[0], tensor.extents[1]);
    }
    std::vector<LinearWeight> experts;
    for (index e = 0; e < tensor.extents[0]; ++e) {
      auto one = linear(type_, tensor.extents[1], tensor.extents[2]);
      if (!one) return one;
      experts.push_back(std::move(*one));
    }
    return stacked(std::move(experts));
  }

  // Norms lie near one, biases around zero.
  Expected<ConstView<1>> vector(const TensorFacts& tensor, Weights& weights) override {
    const index n = tensor.rank == 1 ? tensor.extents[0] : tensor.extents[0] * tensor.extents[1];
    const bool norm = !tensor.name.ends_with(".bias");
    auto values = norm ? OwnedTensor<1>::make(DType::f32, {n}) : random<1>(DType::f32, {n}, 0.5f);
    if (!values) return failure(std::move(values.error()));
    for (index i = 0; norm && i < n; ++i) values->view().as<float>()[i] = 1 + 0.1f * static_cast<float>(i % 7);
    weights.vectors.push_back(std::move(*values));
    return ConstView<1>(weights.vectors.back());
  }

  Expected<EmbeddingTable> embedding(const TensorFacts& tensor, Weights& weights) override {
    auto table = random<2>(DType::f16, {tensor.extents[0], tensor.extents[1]}, 1);
    if (!table) return failure(std::move(table.error()));
    weights.tables.push_back(std::move(*table));
    return EmbeddingTable{.rows = weights.tables.back()};
  }

 private:
  template <int Rank>
  Expected<OwnedTensor<Rank>> random(DType type, const std::array<index, Rank>& extents, float scale) {
    auto made = OwnedTensor<Rank>::make(type, extents);
    if (made) fill(type, made->view().data, made->view().size(), scale);
    return made;
  }

  static std::uint32_t mix(std::uint64_t i) {
    i = (i + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    i = (i ^ (i >> 27)) * 0x94d049bb133111ebu;
    return static_cast<std::uint32_t>(i >> 32);
  }

  // Uniform in -scale..scale; bytes are any byte.
  void fill(DType type, void* data, index count, float scale) {
    const std::uint64_t first = next_;
    next_ += static_cast<std::uint64_t>(count);
    parallel_.ranges(count, 1 << 16, [&](index begin, index end) {
      for (index i = begin; i < end; ++i) {
        const std::uint32_t r = mix(first + static_cast<std::uint64_t>(i));
        const float value = scale * (static_cast<float>(r >> 8) * 0x1p-23f - 1);
        switch (type) {
          case DType::f16: static_cast<f16*>(data)[i] = f16(value); break;
          case DType::bf16: static_cast<bf16*>(data)[i] = bf16(value); break;
          case DType::f32: static_cast<float*>(data)[i] = value; break;
          default: static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(r); break;
        }
      }
    });
  }

  Expected<LinearWeight> linear(const std::string& type, index n, index k) {
    const float scale = 2 / std::sqrt(static_cast<float>(k));
    if (type == "int8") return int8(n, k, scale);
    if (type == "w4a16") return w4(n, k, scale);
    const DType dtype = type == "f32" ? DType::f32 : type == "f16" ? DType::f16 : DType::bf16;
    auto packed = random<3>(dtype, linear_packed_extents(n, k, dtype), scale);
    if (!packed) return failure(std::move(packed.error()));
    return LinearWeight(n, LinearWeight::Float{std::move(*packed)});
  }
  Expected<LinearWeight> int8(index n, index k, float scale) {
    auto rows = random<2>(DType::i8, {n, k}, 0);
    if (!rows) return failure(std::move(rows.error()));
    auto packed = OwnedTensor<3>::make(DType::i8, linear_int8::packed_extents(n, k));
    if (!packed) return failure(std::move(packed.error()));
    auto sums = OwnedTensor<1>::make(DType::i32, {n});
    if (!sums) return failure(std::move(sums.error()));
    auto scales = OwnedTensor<1>::make(DType::f32, {n});
    if (!scales) return failure(std::move(scales.error()));
    for (index o = 0; o < n; ++o) scales->view().as<float>()[o] = scale / 128;
    if (Status status = pack_linear_int8(*rows, *packed, *sums); !status.ok()) return failure(std::move(status));
    return LinearWeight(n, LinearWeight::Int8{std::move(*packed), std::move(*sums), std::move(*scales)});
  }

  Expected<LinearWeight> w4(index n, index k, float scale) {
    constexpr index group = 32;
    PackedW4 packed;
    packed.n = n;
    packed.k = packed.slots = k;
    packed.group = group;
    packed.codes = AlignedBytes(static_cast<std::size_t>(w4_panels(n) * w4_steps(k, 4) * w4_step_bytes(4)));
    const index scales = w4_panels(n) * w4_groups(k, group) * w4_panel;
    packed.scales = AlignedBytes(static_cast<std::size_t>(scales) * sizeof(f16));
    fill(DType::u8, packed.codes.data(), static_cast<index>(packed.codes.size()), 0);
    fill(DType::f16, packed.scales.data(), scales, scale / 8);
    return LinearWeight(n, std::move(packed));
  }

  Parallel parallel_;
  std::string type_;
  std::uint64_t next_;
};

}  // namespace

Expected<Weights> random_weights(const ModelConfig& config, const std::string& type, const Parallel& parallel,
                                 std::uint64_t seed, const RankCut& cut) {
  RandomSource source(parallel, type, seed);
  return weights_from(
      source, config, [](index, index) {}, cut);
}

}  // namespace inlay::exec
