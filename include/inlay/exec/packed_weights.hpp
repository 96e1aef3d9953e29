// Weights that a backend would lay out in each call, packed for it once (inlay/npu.hpp). A model is a straight line of
// operators: this is a `run` that packs what its linears multiply with, and computes nothing.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <inlay/exec/batch.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>

namespace inlay::exec {

template <class Backend>
concept PacksWeights = requires(const Backend& backend, const Linear<Host>& op, std::span<std::byte> memory) {
  { packed_bytes(backend, op) } -> std::same_as<std::size_t>;
  { pack(backend, op, memory) } -> std::same_as<Status>;
  { forget(backend, memory) } -> std::same_as<std::size_t>;
};

// The memory of the blocks, as long as it lives: then the backend, which must live longer, forgets them.
template <class Backend> class PackedWeights {};
template <PacksWeights Backend> class PackedWeights<Backend> {
 public:
  explicit PackedWeights(const Backend& backend) : backend_(backend) {}
  PackedWeights(const PackedWeights&) = delete;
  PackedWeights& operator=(const PackedWeights&) = delete;
  ~PackedWeights() {
    for (const std::span<std::byte> blocks : packed_) forget(backend_, blocks);
  }

  template <class Op> void operator()(const Op&) {}
  void operator()(const Linear<Host>& op) { take(op); }
  void operator()(const LinearInt8<Host>& op) { take(op); }

  // Those of a model, by a pass over one token, which is not there: only shapes and weights are looked at.
  template <class Decoder, class Pool, class Space>
  Status take_all(Decoder& decoder, const Pool& pool, const View<2, Space>& logits) {
    BatchViews<Space> token;
    token.tokens = {nullptr, DType::i32, {1}};
    token.generated.kv_lens = token.tokens;
    decoder.forward(*this, pool, token, logits);
    return take_status();
  }

  std::size_t bytes() const { return bytes_; }
  Status take_status() { return std::exchange(status_, Status()); }  // the first failure

 private:
  template <class Op> void take(const Op& op) {
    const std::size_t bytes = packed_bytes(backend_, op);
    if (!status_.ok() || bytes == 0) return;
    auto memory = memory_.make<1>(DType::i8, {static_cast<index>(bytes)});
    if (!memory) {
      status_ = std::move(memory.error());
      return;
    }
    packed_.emplace_back(static_cast<std::byte*>(memory->data), bytes);
    bytes_ += bytes;
    status_ = pack(backend_, op, packed_.back());
  }

  const Backend& backend_;
  HostTensors memory_;
  std::vector<std::span<std::byte>> packed_;
  std::size_t bytes_ = 0;
  Status status_;
};

}  // namespace inlay::exec
