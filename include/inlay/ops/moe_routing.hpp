// Which experts a token goes to, with what weight, and the rows of all tokens sorted by expert.
//                       vLLM fused_topk, grouped_topk and moe_permute; Ascend MoeGatingTopK and MoeInitRouting
//
//   s[t,e] = softmax over all experts of logits[t,:]    score softmax              Shazeer et al., 2017; Qwen, Mixtral
//          = 1 / (1 + exp(-logits[t,e]))                score sigmoid              DeepSeek-V3, 2024
//   c[t,e] = s[t,e] + bias[e], or logits[t,e] itself where there is no bias: every score rises with its logit
//
//   groups of experts / groups neighbours each; of them the groups_kept whose value is largest are kept:
//                the largest c of the group                             group_score best             DeepSeek-V2, 2024
//                the sum of s + bias over the group's two largest c     group_score sum_of_two       DeepSeek-V3, 2024
//   ids[t,:]     the top_k experts of these groups with the largest c, best first
//   weights[t,j] = s[t,ids[t,j]]; with renormalize divided by (sum_j s[t,ids[t,j]] + 1e-20); then times scale
//
//   score softmax_of_chosen: the largest logits are chosen, and s is a softmax over these alone      gpt-oss, Granite
//
//   score sparsemixer: the largest logits are chosen, and each is weighed among those that are left and near it
//                                                                                                   Phi-3.5-MoE, 2024
//   weights[t,j] = 1 / sum_e exp(logits[t,e] - l)                                     with l = logits[t,ids[t,j]]
//                  over the e that are none of ids[t,0..j-1] and near:
//                  l - logits[t,e] <= 2 jitter max(|logits[t,e]|, l), each side of which is rounded to f32
//
//   rows[t,j]         where (t, j) lies among all (token, choice) pairs sorted by expert, then by token
//   row_tokens[r]     the token of row r: what embedding gathers x by; row_tokens[rows[t,j]] = t
//   expert_ends[e]    how many rows the experts 0 .. e have: rows expert_ends[e-1] .. expert_ends[e] are those of e
//
// Of equals, groups and experts both, the one with the lower number comes first. Without bias and sum_of_two the choice
// is one of logits and exact. Otherwise it may differ from the formula's where two c (or groups' values) differ by no
// more than 2^-20 * max(1, the larger's size): s is computed in f32. ids, rows, row_tokens and expert_ends always fit
// together, and do not depend on threads.
//
// Not finite: an infinite logit counts as the largest finite f32 of its sign, so that of a softmax's infinities each
// has the same share. NaN counts as the lowest in the choice, and all weights of its token are NaN; its ids are valid.
// c and the values of groups are held within the finite f32 too: a bias of -infinity puts an expert behind all others,
// and so does NaN.
//
// Without tokens expert_ends is all 0.
#pragma once

#include <limits>

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

enum class MoeScore : unsigned char { softmax, sigmoid, softmax_of_chosen, sparsemixer };
enum class MoeGroupScore : unsigned char { best, sum_of_two };

template <class Space = Host> struct MoeRouting {
  ConstView<2, Space> logits;          // [tokens, experts]  f32 f16 bf16; row stride free
  ConstView<1, Space> bias = {};       // [experts]          f32; optional: counts in the choice alone
  View<2, Space> weights;              // [tokens, top_k]    f32; top_k in 1..experts
  View<2, Space> ids;                  // [tokens, top_k]    i32
  View<2, Space> rows;                 // [tokens, top_k]    i32
  View<1, Space> row_tokens;           // [tokens * top_k]   i32
  View<1, Space> expert_ends;          // [experts]          i32
  MoeScore score = MoeScore::softmax;  // the last two: without bias and with one group
  index groups = 1;                    // divides experts; 2 experts or more a group with sum_of_two
  index groups_kept = 1;               // 1..groups, of top_k experts or more together
  MoeGroupScore group_score = MoeGroupScore::best;
  bool renormalize = false;
  float scale = 1;
  float jitter = 0;  // 0 or more with sparsemixer, else 0

  static constexpr std::string_view name = "moe_routing";
  static constexpr auto fields = FieldList{in("logits", &MoeRouting::logits),
                                           optional_in("bias", &MoeRouting::bias),
                                           out("weights", &MoeRouting::weights),
                                           out("ids", &MoeRouting::ids),
                                           out("rows", &MoeRouting::rows),
                                           out("row_tokens", &MoeRouting::row_tokens),
                                           out("expert_ends", &MoeRouting::expert_ends),
                                           scalar("score", &MoeRouting::score),
                                           scalar("groups", &MoeRouting::groups),
                                           scalar("groups_kept", &MoeRouting::groups_kept),
                                           scalar("group_score", &MoeRouting::group_score),
                                           scalar("renormalize", &MoeRouting::renormalize),
                                           scalar("scale", &MoeRouting::scale),
                                           scalar("jitter", &MoeRouting::jitter)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const MoeRouting<Space>& op) {
  constexpr index most = std::numeric_limits<std::int32_t>::max();
  const index tokens = op.logits.extents[0], experts = op.logits.extents[1], top_k = op.weights.extents[1];
  const index pairs = saturating_multiply(tokens, top_k);
  const bool divided = op.groups >= 1 && experts % op.groups == 0;
  const index of_group = divided ? experts / op.groups : 0;
  const bool mixes = op.score == MoeScore::sparsemixer, alone = mixes || op.score == MoeScore::softmax_of_chosen;
  return Check(op)
      .dtype(op.logits, floats)
      .that(experts >= 1 && experts <= most, op.logits,
            [&] { return "has " + number(experts) + " experts; there must be 1 or more, and fewer than 2^31"; })
      .dtype(op.bias, DType::f32)
      .extent(op.bias, 0, experts)
      .dtype(op.weights, DType::f32)
      .extent(op.weights, 0, tokens)
      .that(top_k >= 1 && top_k <= experts, op.weights,
            [&] {
              return "has rows of " + number(top_k) + ", top_k; it must be in 1.." + number(experts) + ", the experts";
            })
      .that(pairs <= most, op.weights, "must have fewer than 2^31 elements")
      .dtype(op.ids, DType::i32)
      .same_shape(op.ids, op.weights)
      .dtype(op.rows, DType::i32)
      .same_shape(op.rows, op.weights)
      .dtype(op.row_tokens, DType::i32)
      .extent(op.row_tokens, 0, pairs)
      .dtype(op.expert_ends, DType::i32)
      .extent(op.expert_ends, 0, experts)
      .that(op.score <= MoeScore::sparsemixer, op.score,
            [&] {
              return "is " + format_value(op.score) + "; it must be softmax, sigmoid, softmax_of_chosen or sparsemixer";
            })
      .that(op.group_score <= MoeGroupScore::sum_of_two, op.group_score,
            [&] { return "is " + format_value(op.group_score) + "; it must be best or sum_of_two"; })
      .that(divided, op.groups,
            [&] { return "is " + number(op.groups) + "; it must divide " + number(experts) + ", the experts"; })
      .within(op.groups_kept, 1, op.groups)
      .that(saturating_multiply(op.groups_kept > 0 ? op.groups_kept : 0, of_group) >= top_k, op.groups_kept,
            [&] {
              return "is " + number(op.groups_kept) + ", groups of " + number(of_group) +
                     " experts; together they must have " + number(top_k) + " or more, top_k";
            })
      .that(op.group_score == MoeGroupScore::best || of_group >= 2, op.groups,
            "has groups of one expert; with sum_of_two they must have 2 or more")
      .that(!alone || op.groups == 1, op.groups,
            [&] { return "is " + number(op.groups) + "; it must be 1 with softmax_of_chosen and sparsemixer"; })
      .that(!alone || !op.bias.present(), op.bias,
            "is given with softmax_of_chosen or sparsemixer; it must be left out")
      .finite(op.scale)
      .finite(op.jitter)
      .that(mixes ? op.jitter >= 0 : op.jitter == 0, op.jitter,
            [&] { return "is " + format_value(op.jitter) + "; it must be 0 or more with sparsemixer, else 0"; });
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
