#include <inlay/ops/moe_routing.hpp>

#include <algorithm>

#include "cl_kernels/moe_routing.clh"
#include "cl_kernels/moe_routing_tunables.hpp"
#include "cl_kernels/runtime/launch.hpp"

namespace inlay::cl {

namespace {

// Tokens that are chosen for at a time have scratch; tokens of a piece are placed one after another.
constexpr index tokens_at_once = 4096, piece = 16;

struct Sizes {
  index tokens, experts, blocks, padded, groups, pieces;

  Sizes(const Cl& cl, const MoeRouting<Cl>& op)
      : tokens(std::min(op.logits.extents[0], tokens_at_once)),
        experts(op.logits.extents[1]),
        blocks(groups_of(experts, cl.runtime().tuned(moe_routing_width))),
        padded(blocks * cl.runtime().tuned(moe_routing_width)),
        groups(op.groups),
        pieces(groups_of(op.logits.extents[0], piece)) {}
};

}  // namespace

template <> std::size_t scratch_bytes(Cl& cl, const MoeRouting<Cl>& op) {
  const Sizes of(cl, op);
  return 2 * WorkspaceCutter::padded<float>(of.tokens * of.padded) +
         WorkspaceCutter::padded<float>(of.tokens * of.blocks) + WorkspaceCutter::padded<float>(of.tokens * of.groups) +
         WorkspaceCutter::padded<cl_int>(of.pieces * of.experts) + WorkspaceCutter::padded<cl_int>(of.experts);
}

template <> Status compute(Cl& cl, const MoeRouting<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const Sizes of(cl, op);
  const index tokens = op.logits.extents[0];
  BufferCutter cutter(workspace);
  const BufferArg scores = cutter.take<float>(of.tokens * of.padded);
  const BufferArg choices = cutter.take<float>(of.tokens * of.padded);
  const BufferArg maxima = cutter.take<float>(of.tokens * of.blocks);
  const BufferArg values = cutter.take<float>(of.tokens * of.groups);
  const BufferArg counts = cutter.take<cl_int>(of.pieces * of.experts);
  const BufferArg starts = cutter.take<cl_int>(of.experts);
  const int lanes = cl.runtime().lanes(moe_routing_lanes), top_k = static_cast<int>(op.weights.extents[1]);
  const ProgramKey key = ProgramKey("moe_routing")
                             .number("LANES", lanes)
                             .number("WIDTH", cl.runtime().tuned(moe_routing_width))
                             .type("X", op.logits.dtype)
                             .flag("ALIGNED", aligned(cl, op.logits, op.bias));
  for (index first = 0; first < tokens; first += of.tokens) {
    const index count = std::min(of.tokens, tokens - first);
    Status status = launch(cl, key, "moe_routing_choose", {.groups = {count}, .lanes = {lanes}},
                           MoeRoutingChooseArguments{.logits_stride = op.logits.strides[0],
                                                     .weights_stride = op.weights.strides[0],
                                                     .ids_stride = op.ids.strides[0],
                                                     .experts = of.experts,
                                                     .padded = of.padded,
                                                     .blocks = of.blocks,
                                                     .groups = of.groups,
                                                     .groups_kept = op.groups_kept,
                                                     .top_k = top_k,
                                                     .score = static_cast<Int>(op.score),
                                                     .sum_of_two = op.group_score == MoeGroupScore::sum_of_two,
                                                     .renormalize = op.renormalize,
                                                     .scale = op.scale,
                                                     .jitter = op.jitter},
                           {{"logits", op.logits.slice(0, first, count)},
                            {"bias", op.bias},
                            {"weights", op.weights.slice(0, first, count)},
                            {"ids", op.ids.slice(0, first, count)},
                            {"scores", scores},
                            {"choices", choices},
                            {"maxima", maxima},
                            {"values", values}});
    if (!status.ok()) return status;
  }
  const auto sort = [&](const char* name, const Grid& grid) {
    return launch(cl, key, name, grid,
                  MoeRoutingSortArguments{.ids_stride = op.ids.strides[0],
                                          .rows_stride = op.rows.strides[0],
                                          .tokens = tokens,
                                          .experts = of.experts,
                                          .pieces = of.pieces,
                                          .piece = piece,
                                          .top_k = top_k},
                  {{"ids", op.ids},
                   {"counts", counts},
                   {"starts", starts},
                   {"rows", op.rows},
                   {"row_tokens", op.row_tokens},
                   {"expert_ends", op.expert_ends}});
  };
  const Grid pieces{.groups = {of.pieces}, .lanes = {lanes}};
  if (tokens > 0)
    if (Status status = sort("moe_routing_count", pieces); !status.ok()) return status;
  if (Status status = sort("moe_routing_end", {.groups = {1}, .lanes = {lanes}}); !status.ok()) return status;
  return tokens > 0 ? sort("moe_routing_place", pieces) : Status();
}

}  // namespace inlay::cl
