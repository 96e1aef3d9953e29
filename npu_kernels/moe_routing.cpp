// Which experts a token goes to, and the rows of all tokens sorted by expert (ops/moe_routing.hpp has the equations).
//
//   unit w  | its tokens, a tile after another |    vector   scores, the largest one by one   -> weights, ids
//           |                                  |             counts of the experts           -> counts[w, :]
//                            sync_all
//   unit w  | counts of all units |                 vector   rows before its own, of the expert and of those below it
//           | its tokens again    |                 vector   rows[t, :] = base[ids[t, :]], base += experts of t
//                                                   scalar   row_tokens[rows[t, j]] = t
//
// The largest are found by one argmax for each choice, whose places are also what the counts are made of: a device
// needs no sort.
#include <inlay/ops/moe_routing.hpp>

#include <algorithm>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/moe_routing/choose.hpp"
#include "npu_kernels/moe_routing/place.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

constexpr index largest_tile = 64;           // tokens
constexpr index most_rows = index{1} << 24;  // that f32 counts

// Tokens that fit into the vector unit's memory at once.
index tokens_that_fit(const Device& device, const MoeRouting<Host>& op) {
  const index experts = op.logits.extents[1] + 8, top_k = op.weights.extents[1] + 8, groups = op.groups + 8;
  const index number = device.memory(Space::vector).align;  // of a token: a granule
  const index shared = 4096 + 14 * index{sizeof(float)} * experts;
  const index each = experts * (4 * index{sizeof(float)} + 2 * bits(op.logits.dtype) / 8) +
                     index{sizeof(float)} * (10 * top_k + 5 * groups + 3 * (experts / op.groups + 8) + 64) + number;
  return (static_cast<index>(device.memory(Space::vector).bytes) - shared) / each;
}

void route(Core& core, const MoeRoutingOperands& op) {
  const index worker = core.vector_worker(), workers = core.vector_workers();
  const index first = op.tokens() * worker / workers, last = op.tokens() * (worker + 1) / workers;
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  const MoeRoutingTiles tiles(core, op);
  MoeChoose(core, op, tiles).run(first, last);
  core.sync_all();
  MoePlace(core, op, tiles).run(first, last);
}

}  // namespace

Status declined(const Device& device, const MoeRouting<Host>& op) {
  if (tokens_that_fit(device, op) < 1)
    return unsupported("more experts than fit into the vector unit's memory are the host's");
  if (op.weights.size() > most_rows) return unsupported("more than 2^24 rows are the host's");
  return {};
}

Program program(GlobalMemory& memory, const MoeRouting<Host>& op, const Choices&) {
  const index tokens = op.logits.extents[0], experts = op.logits.extents[1];
  constexpr index tokens_of_a_unit = 4;
  const index units = memory.device().vector_units();
  const std::uint32_t cores = cores_for(tokens, units * tokens_of_a_unit, memory.cores());
  const index workers = index{cores} * units;
  MoeRoutingOperands operands{.logits = memory.bind("logits", op.logits),
                              .bias = {},
                              .weights = memory.bind("weights", op.weights, Use::out),
                              .ids = memory.bind("ids", op.ids, Use::out),
                              .rows = memory.bind("rows", op.rows, Use::out),
                              .row_tokens = memory.bind("row_tokens", op.row_tokens, Use::out),
                              .expert_ends = memory.bind("expert_ends", op.expert_ends, Use::out),
                              .counts = memory.workspace("counts", {workers, experts}, DType::f32),
                              .biased = op.bias.present(),
                              .score = op.score,
                              .groups = op.groups,
                              .groups_kept = op.groups_kept,
                              .sums_two = op.group_score == MoeGroupScore::sum_of_two,
                              .renormalize = op.renormalize,
                              .scale = op.scale,
                              .jitter = op.jitter,
                              .tile = std::clamp<index>(ceil_div(tokens, workers), 1,
                                                        std::min(largest_tile, tokens_that_fit(memory.device(), op)))};
  if (operands.biased) operands.bias = memory.bind("bias", op.bias);
  return {.body = [operands](Core& core) { route(core, operands); },
          .problem = {.bytes = rows::bytes_of(op.logits, op.bias, op.weights, op.ids, op.rows, op.row_tokens,
                                              op.expert_ends)},
          .launch = {.cores = cores}};
}

template struct Operator<MoeRouting<Host>>;

}  // namespace inlay::npu
