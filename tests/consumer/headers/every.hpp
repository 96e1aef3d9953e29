// Every operator of one unit, by pointers: what they point to has to be there when the program is linked.
#pragma once

#include <tuple>

#include <inlay/inlay.hpp>

template <class Op> using RunOf = inlay::Status (*)(const Op&, inlay::Workspace);

template <class... Ops> struct Every {
  std::tuple<RunOf<Ops>...> run;
  template <class Op> inlay::Status operator()(const Op& op, inlay::Workspace workspace = {}) const {
    return std::get<RunOf<Op>>(run)(op, workspace);
  }
};

using inlay::Host;
using Unit =
    Every<inlay::Add<Host>, inlay::Dequantize<Host>, inlay::Embedding<Host>, inlay::FlashAttention<Host>,
          inlay::Gelu<Host>, inlay::IncreFlashAttention<Host>, inlay::ReshapeAndCache<Host>, inlay::CopyBlocks<Host>,
          inlay::SwapBlocks<Host>, inlay::LayerNorm<Host>, inlay::Linear<Host>, inlay::LinearInt8<Host>,
          inlay::LinearW4a16<Host>, inlay::MergeStates<Host>, inlay::MoeCombine<Host>, inlay::MoeRouting<Host>,
          inlay::PagedAttention<Host>, inlay::Quantize<Host>, inlay::RmsNorm<Host>, inlay::Rope<Host>,
          inlay::RopeTable<Host>, inlay::Sampling<Host>, inlay::Softmax<Host>, inlay::Swiglu<Host>>;

// What no two units may have one of is seen in those of all operators; with AVX-512 the two that are run do.
using Two = Every<inlay::FlashAttention<Host>, inlay::RmsNorm<Host>>;

extern const Unit baseline, with_avx2, native;
extern const Two with_avx512;
