// A token for each row of logits.
//
// The stages, in this order; each sees what the one before it left, renormalised:
//
//   penalties     for a token of history[r,:], the prompt or the output behind it, in f32, in this order:
//                 v = v > 0 ? v / repetition_penalty : v * repetition_penalty     Keskar et al., 2019
//                 v = v - (c * frequency_penalty + presence_penalty)              OpenAI
//                 the second where it occurs c > 0 times in the output: behind the first prompt_lengths[r]
//                 entries of history, or anywhere in it without prompt_lengths
//   temperature   p_i ~ exp((v_i - max v) / temperature); 0 is greedy: the largest v, the first on ties
//                 p_i below e^-708 of the largest is 0, and such a token gone
//   top_n_sigma   keeps v_i >= max v - n * sigma, of the finite v; 0: all        Tang et al., 2024
//   top_k         keeps the k largest; 0: all
//   typical_p     the tokens whose -ln p_i lies nearest to the entropy, until their sum reaches
//                 typical_p; 1: all                                              Meister et al., 2022
//   top_p         the largest p_i until their sum reaches top_p; 1: all          Holtzman et al., 2020
//   min_p         keeps p_i >= min_p * max p                                     Nguyen et al., 2024
//   xtc           with xtc_probability: of the tokens with p_i >= xtc_threshold, if there are two or
//                 more, only the least likely stays                              p-e-w, 2024
//   draw          the first id (ascending) with sum_{j <= id} p_j > u * sum p
//
// Ties are broken by the smaller id everywhere; at least one token always stays. temperature_last
// lets the stages between see temperature 1, as llama.cpp orders them (default: as OpenAI and vLLM).
//
// Reproducible: u is a counter's hash (Philox4x32-10, Salmon et al., 2011) of (seed, step, row), so
// it depends neither on threads nor on what was drawn before; probabilities are computed in double by
// IEEE operations in one fixed order, so every ISA level draws the same token. With `seeds` a row has
// its own seed and its place in the batch does not count.
//
// A row with a NaN, with +infinity, or without any finite logit is an error that names it
// (corrupt_data). Its token is -1; the other rows' tokens are valid.
#pragma once

#include <limits>

#include <inlay/core/check.hpp>
#include <inlay/core/element.hpp>
#include <inlay/core/entries.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/philox.hpp>

namespace inlay {

template <class Space = Host> struct Sampling {
  ConstView<2, Space> logits;               // [rows, vocab]  f32; row stride free
  ConstView<2, Space> history = {};         // [rows, any]    i32 i64, tokens for the penalties; negative: padding
  ConstView<1, Space> prompt_lengths = {};  // [rows]         i32 i64, how much of history is the prompt
  ConstView<1, Space> seeds = {};           // [rows]         i64, in place of seed and the row's number
  ConstView<1, Space> steps = {};           // [rows]         i64, in place of step
  View<1, Space> tokens;                    // [rows]         i32 i64
  View<2, Space> probs = {};                // [rows, vocab]  f32: what the token was drawn from; 0: filtered out
  float temperature = 1;                    // >= 0
  index top_k = 0;                          // >= 0
  float top_p = 1;                          // 0..1
  float min_p = 0;                          // 0..1
  float typical_p = 1;                      // 0..1
  float top_n_sigma = 0;                    // >= 0
  float xtc_probability = 0;                // 0..1
  float xtc_threshold = 0.1f;               // 0..1; above 1/2 it never removes
  float repetition_penalty = 1;             // > 0
  float frequency_penalty = 0;
  float presence_penalty = 0;
  bool temperature_last = false;
  std::int64_t seed = 0;
  std::int64_t step = 0;  // how many tokens were drawn before: advance it by one for each call

  static constexpr std::string_view name = "sampling";
  static constexpr auto fields = FieldList{in("logits", &Sampling::logits),
                                           optional_in("history", &Sampling::history),
                                           optional_in("prompt_lengths", &Sampling::prompt_lengths),
                                           optional_in("seeds", &Sampling::seeds),
                                           optional_in("steps", &Sampling::steps),
                                           out("tokens", &Sampling::tokens),
                                           optional_out("probs", &Sampling::probs),
                                           scalar("temperature", &Sampling::temperature),
                                           scalar("top_k", &Sampling::top_k),
                                           scalar("top_p", &Sampling::top_p),
                                           scalar("min_p", &Sampling::min_p),
                                           scalar("typical_p", &Sampling::typical_p),
                                           scalar("top_n_sigma", &Sampling::top_n_sigma),
                                           scalar("xtc_probability", &Sampling::xtc_probability),
                                           scalar("xtc_threshold", &Sampling::xtc_threshold),
                                           scalar("repetition_penalty", &Sampling::repetition_penalty),
                                           scalar("frequency_penalty", &Sampling::frequency_penalty),
                                           scalar("presence_penalty", &Sampling::presence_penalty),
                                           scalar("temperature_last", &Sampling::temperature_last),
                                           scalar("seed", &Sampling::seed),
                                           scalar("step", &Sampling::step)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const Sampling<Space>& op) {
  const index rows = op.logits.extents[0], vocab = op.logits.extents[1];
  Status status =
      Check(op)
          .dtype(op.logits, DType::f32)
          .that(rows == 0 || vocab >= 1, op.logits, "has rows of no token; they must have one or more")
          .that(vocab <= std::numeric_limits<std::int32_t>::max(), op.logits, "must have fewer than 2^31 tokens")
          .dtype(op.history, ids)
          .extent(op.history, 0, rows)
          .dtype(op.prompt_lengths, ids)
          .extent(op.prompt_lengths, 0, rows)
          .that(!op.prompt_lengths.present() || op.history.present(), op.prompt_lengths,
                "is given without history; it must be left out")
          .dtype(op.seeds, DType::i64)
          .extent(op.seeds, 0, rows)
          .dtype(op.steps, DType::i64)
          .extent(op.steps, 0, rows)
          .dtype(op.tokens, ids)
          .extent(op.tokens, 0, rows)
          .dtype(op.probs, DType::f32)
          .same_shape(op.probs, op.logits)
          .not_negative(op.temperature)
          .at_least(op.top_k, 0)
          .within(op.top_p, 0, 1)
          .within(op.min_p, 0, 1)
          .within(op.typical_p, 0, 1)
          .at_least(op.top_n_sigma, 0)
          .within(op.xtc_probability, 0, 1)
          .within(op.xtc_threshold, 0, 1)
          .positive(op.repetition_penalty)
          .finite(op.frequency_penalty)
          .finite(op.presence_penalty);
  if constexpr (std::is_same_v<Space, Host>) {
    for (index r = 0; status.ok() && r < op.prompt_lengths.extents[0]; ++r)
      if (const index length = entry(op.prompt_lengths, r); length < 0 || length > op.history.extents[1])
        return invalid("prompt_lengths[" + number(r) + "] is " + number(length) + "; it must be in 0.." +
                       number(op.history.extents[1]) + ", the entries of history");
    if (status.ok() && !op.history.empty())
      for (index r = 0; r < rows; ++r) {
        const ConstView<1> row(op.history.slice(0, r, 1).data, op.history.dtype, {op.history.extents[1]});
        for (index i = 0; i < row.extents[0]; ++i)
          if (const index id = entry(row, i); id >= vocab)
            return invalid("history[" + number(r) + "," + number(i) + "] is " + number(id) + "; it must be below " +
                           number(vocab) + ", or negative for padding");
      }
  }
  return status;
}

// Where the output of row r begins in its history.
[[gnu::always_inline]] inline index output_begin(const Sampling<Host>& op, index r) {
  return op.prompt_lengths.present() ? entry(op.prompt_lengths, r) : 0;
}

}  // namespace INLAY_UNIT_ISA

// The two numbers in [0, 1) that row r draws with. Counter: step, row (0 where the row has a seed of
// its own), 0; the words of one hash are high and low halves.
struct SamplingNumbers {
  double draw, xtc;
};
inline namespace INLAY_UNIT_ISA {

[[gnu::always_inline]] inline SamplingNumbers sampling_numbers(const Sampling<Host>& op, index r) {
  const auto given = [&](const ConstView<1>& list, std::int64_t otherwise) {
    return static_cast<std::uint64_t>(list.present() ? list.as<std::int64_t>()[r * list.strides[0]] : otherwise);
  };
  const std::uint64_t step = given(op.steps, op.step);
  const std::uint32_t row = op.seeds.present() ? 0 : static_cast<std::uint32_t>(r);
  const auto words = philox(given(op.seeds, op.seed),
                            {static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32), row, 0});
  return {unit_interval(words[0], words[1]), unit_interval(words[2], words[3])};
}

// What only the data could tell: run calls it after the kernels, which mark a row that they cannot
// draw from by token -1.
template <class Space> Status outcome(const Sampling<Space>& op) {
  if constexpr (std::is_same_v<Space, Host>) {
    for (index r = 0; r < op.tokens.extents[0]; ++r) {
      if (at(op.tokens, r) >= 0) continue;
      const float* row = op.logits.template as<float>() + r * op.logits.strides[0];
      for (index i = 0; i < op.logits.extents[1]; ++i)
        if (!(row[i] <= std::numeric_limits<float>::max()))
          return {StatusCode::corrupt_data, "logits row " + number(r) + " holds " +
                                                (row[i] != row[i] ? "a NaN" : "+infinity") + " at token " + number(i) +
                                                "; every logit must be finite or -infinity"};
      return {StatusCode::corrupt_data, "logits row " + number(r) + " holds no finite logit, or +infinity, after " +
                                            "the penalties; one must be above -infinity and none beyond f32"};
    }
  }
  return {};
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
