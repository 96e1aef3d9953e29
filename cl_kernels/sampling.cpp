#include <inlay/ops/sampling.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

#include "cl_kernels/runtime/launch.hpp"
#include "cl_kernels/sampling.clh"

namespace inlay::cl {

namespace {

constexpr index block = 64, bins = 256, row_bytes = 128;  // sampling/row.clh, sampling/select.clh
enum Kind { by_block, by_likelihood, by_mass, by_nearness, by_ties, by_id };
enum Aim { at_top, at_mass, at_near, at_ties, at_above, at_draw };
enum Keep { keep_weights, keep_first, keep_near, keep_fraction, keep_last };
enum Sweep { forget, count, penalise };

index blocks_of(index vocab) { return groups_of(vocab, block); }
index room_of(index vocab) { return groups_of(vocab, 8) * 8; }

// A Row, bins and a list for each row; copy and counts only where there are penalties, sums only for top_n_sigma.
struct Scratch {
  BufferArg rows, of_rows, ids, listed, maxima, copy, counts, sums;
};
std::size_t bytes(const Sampling<Cl>& op, index rows) {
  const index vocab = op.logits.extents[1];
  return WorkspaceCutter::padded<char>(rows * row_bytes) + WorkspaceCutter::padded<cl_uint>(rows * 3 * bins) +
         2 * WorkspaceCutter::padded<cl_int>(rows * room_of(vocab)) +
         WorkspaceCutter::padded<float>(rows * blocks_of(vocab) + 8) +
         (op.history.present() ? 2 * WorkspaceCutter::padded<cl_int>(rows * vocab) : 0) +
         (op.top_n_sigma > 0 ? WorkspaceCutter::padded<double>(rows * blocks_of(vocab)) : 0);
}
Scratch scratch_of(const Sampling<Cl>& op, index rows, const SpaceWorkspace<Cl>& workspace) {
  const index vocab = op.logits.extents[1];
  BufferCutter cutter(workspace);
  Scratch scratch{};
  scratch.rows = cutter.take<char>(rows * row_bytes, "Row");
  scratch.of_rows = cutter.take<cl_uint>(rows * 3 * bins);
  scratch.ids = cutter.take<cl_int>(rows * room_of(vocab));
  scratch.listed = cutter.take<float>(rows * room_of(vocab));
  scratch.maxima = cutter.take<float>(rows * blocks_of(vocab) + 8);  // lists are read by eight
  if (op.history.present()) {
    scratch.copy = cutter.take<float>(rows * vocab);
    scratch.counts = cutter.take<cl_int>(rows * vocab);
  }
  if (op.top_n_sigma > 0) scratch.sums = cutter.take<double>(rows * blocks_of(vocab), "Double");
  return scratch;
}

// So many rows at once that their scratch stays small.
index rows_at_once(const Sampling<Cl>& op) {
  constexpr std::size_t enough = std::size_t{1} << 26;
  return std::clamp<index>(static_cast<index>(enough / bytes(op, 1)), 1, op.logits.extents[0]);
}

// The kernels of some rows, one after the other; after a failure none.
class Stages {
 public:
  using Buffers = std::initializer_list<NamedBuffer>;

  Stages(Cl& cl, index rows)
      : cl_(cl),
        rows_(rows),
        lanes_(cl.runtime().lanes(256)),
        key_(ProgramKey("sampling").number("LANES", lanes_).flag("FP64", cl.runtime().has_doubles())) {}

  // Work-items for `entries` of each row, a few each.
  template <class Arguments> void sweep(const char* name, index entries, const Arguments& arguments, Buffers buffers) {
    const index in_group = lanes_ * (cl_.runtime().per_item() ? 1024 : 4);
    const index most = std::max<index>(cl_.runtime().busy_groups() / rows_, 1);
    start(name, {.groups = {std::clamp<index>(groups_of(entries, in_group), 1, most), rows_}, .lanes = {lanes_}},
          arguments, buffers);
  }
  template <class Arguments>
  void entry_each(const char* name, index entries, const Arguments& arguments, Buffers buffers) {
    if (entries > 0)
      start(name, {.groups = {groups_of(entries, lanes_), rows_}, .lanes = {lanes_}}, arguments, buffers);
  }
  template <class Arguments> void group_each(const char* name, const Arguments& arguments, Buffers buffers) {
    start(name, {.groups = {1, rows_}, .lanes = {lanes_}}, arguments, buffers);
  }
  template <class Arguments> void item_each(const char* name, const Arguments& arguments, Buffers buffers) {
    start(name, {.groups = {1, rows_}, .lanes = {}}, arguments, buffers);
  }
  template <class Arguments> void one_item(const char* name, const Arguments& arguments, Buffers buffers) {
    start(name, {}, arguments, buffers);
  }
  Status result() { return std::move(status_); }

 private:
  template <class Arguments>
  void start(const char* name, const Grid& grid, const Arguments& arguments, Buffers buffers) {
    if (status_.ok()) status_ = launch(cl_, key_, name, grid, arguments, buffers);
  }

  Cl& cl_;
  index rows_, lanes_;
  ProgramKey key_;
  Status status_;
};

int words(DType type) { return bits(type) / 32; }

struct Slots {
  FaultSlot history, prompt, token;
};
Slots fault_slots(Cl& cl, const Sampling<Cl>& op) {
  const index vocab = op.logits.extents[1], length = op.history.extents[1];
  using At = std::int64_t;
  return {.history = cl.runtime().fault_slot([=](At at, At value) {
            return offence<Sampling<Cl>>(invalid(
                "history[" + std::to_string(at / length) + "," + std::to_string(at % length) + "] is " +
                std::to_string(value) + "; it must be below " + std::to_string(vocab) + ", or negative for padding"));
          }),
          .prompt = cl.runtime().fault_slot([=](At at, At value) {
            return offence<Sampling<Cl>>(invalid("prompt_lengths[" + std::to_string(at) + "] is " +
                                                 std::to_string(value) + "; it must be in 0.." +
                                                 std::to_string(length) + ", the entries of history"));
          }),
          // The words of outcome(op).
          .token = cl.runtime().fault_slot([](At row, At what) -> Status {
            if (what >= 0)
              return {StatusCode::corrupt_data,
                      "logits row " + std::to_string(row) + " holds " + (what % 2 == 1 ? "a NaN" : "+infinity") +
                          " at token " + std::to_string(what / 2) + "; every logit must be finite or -infinity"};
            return {StatusCode::corrupt_data, "logits row " + std::to_string(row) +
                                                  " holds no finite logit, or +infinity, after " +
                                                  "the penalties; one must be above -infinity and none beyond f32"};
          })};
}

// Rows first .. first + count: op's views are theirs alone.
Status sample(Cl& cl, const Sampling<Cl>& op, index first, const Scratch& s, const Slots& faults) {
  const index rows = op.logits.extents[0], vocab = op.logits.extents[1], blocks = blocks_of(vocab),
              room = room_of(vocab), length = op.history.extents[1];
  const int length_words = op.prompt_lengths.present() ? words(op.prompt_lengths.dtype) : 0;
  // Every row is written in full before it is read: a history that is empty changes nothing.
  const bool penalties = op.history.present();
  const NamedBuffer states{"rows", s.rows}, ids{"ids", s.ids}, listed{"listed", s.listed}, maxima{"maxima", s.maxima};
  Stages run(cl, rows);
  run.group_each(
      "begin",
      SamplingBeginArguments{
          .first_row = first, .history_length = length, .length_words = length_words, .fault = faults.prompt},
      {states, {"of_rows", s.of_rows}, {"prompt_lengths", op.prompt_lengths}, faults_of(cl)});
  if (penalties) {
    run.sweep("copy_logits", vocab, SamplingCopyLogitsArguments{.logits_stride = op.logits.strides[0], .vocab = vocab},
              {{"logits", op.logits}, {"copy", s.copy}});
    for (int sweep : {forget, count, penalise})
      run.entry_each("history", length,
                     SamplingHistoryArguments{.history_stride = op.history.strides[0],
                                              .length = length,
                                              .vocab = vocab,
                                              .first_row = first,
                                              .history_words = words(op.history.dtype),
                                              .length_words = length_words,
                                              .sweep = sweep,
                                              .fault = faults.history,
                                              .repetition = op.repetition_penalty,
                                              .frequency = op.frequency_penalty,
                                              .presence = op.presence_penalty},
                     {states,
                      {"history", op.history},
                      {"prompt_lengths", op.prompt_lengths},
                      {"counts", s.counts},
                      {"copy", s.copy},
                      faults_of(cl)});
  }
  // From here on the logits are the penalised ones.
  const NamedBuffer logits("logits", penalties ? s.copy : buffer_of(op.logits));
  const index stride = penalties ? vocab : op.logits.strides[0];
  if (op.probs.present())
    run.sweep("clear_probs", vocab, SamplingClearProbsArguments{.probs_stride = op.probs.strides[0], .vocab = vocab},
              {states, {"probs", op.probs}});
  const SamplingScanArguments of_logits{.logits_stride = stride, .vocab = vocab, .blocks = blocks};
  run.sweep("scan", vocab, of_logits, {states, logits, maxima});

  const float hot = op.temperature_last ? 1 : op.temperature;
  const bool greedy = op.temperature == 0;
  const index most = op.top_k > 0 ? std::min(op.top_k, vocab) : vocab;  // tokens that masses are added of
  const int token_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(most) - 1));
  const float scale = std::ldexp(1.0f, 63 - token_bits);
  const int id_digits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(vocab)) + 7) / 8;
  const index id_mask = (index{1} << 8 * id_digits) - 1;
  float temperature = hot;

  const auto aim = [&](Aim what, index number, float share) {
    run.item_each(
        "aim",
        SamplingAimArguments{
            .number = number, .seed = op.seed, .step = op.step, .first_row = first, .at_what = what, .share = share},
        {states, {"seeds", op.seeds}, {"steps", op.steps}});
  };
  // Digits of 8 bits, `digits` of a key's in all; those below `end` do not count. One group does it where lists are
  // short, or rows are many.
  const auto select = [&](Kind kind, int digits = 8, int end = 0) {
    const bool listed_by_block = op.top_k > 0 && op.top_k <= blocks / 8;
    const bool to_the_end = kind == by_id;
    constexpr index few = 4096;
    if (listed_by_block || vocab <= few || rows >= cl.runtime().busy_groups()) {
      run.group_each("select_alone",
                     SamplingSelectAloneArguments{.blocks = blocks,
                                                  .room = room,
                                                  .id_mask = id_mask,
                                                  .kind = kind,
                                                  .top = 8 * digits - 8,
                                                  .end = 8 * end,
                                                  .to_the_end = to_the_end,
                                                  .temperature = temperature,
                                                  .scale = scale},
                     {states, maxima, ids, {"logits", s.listed}});
      return;
    }
    for (int digit = digits - 1; digit >= end; --digit) {
      run.sweep("histogram", kind == by_block ? blocks : vocab,
                SamplingHistogramArguments{.blocks = blocks,
                                           .room = room,
                                           .id_mask = id_mask,
                                           .kind = kind,
                                           .shift = 8 * digit,
                                           .first = digit == digits - 1,
                                           .temperature = temperature,
                                           .scale = scale},
                {states, {"of_rows", s.of_rows}, maxima, ids, {"logits", s.listed}});
      run.group_each("pick", SamplingPickArguments{.shift = 8 * digit, .to_the_end = to_the_end},
                     {states, {"of_rows", s.of_rows}});
    }
  };
  const auto measure = [&](bool leans, float threshold = -1) {
    if (threshold < 0) run.item_each("clear_sums", SamplingRowsArguments{}, {states});
    run.sweep("measure", vocab,
              SamplingMeasureArguments{
                  .room = room, .leans = leans, .temperature = temperature, .scale = scale, .threshold = threshold},
              {states, listed});
  };
  const auto keep = [&](Keep which, float fraction = 0) {
    run.sweep("keep", vocab,
              SamplingKeepArguments{.room = room, .which = which, .fraction = fraction, .temperature = temperature},
              {states, ids, listed});
    run.item_each("settle", SamplingRowsArguments{}, {states});
  };

  if (greedy && !op.temperature_last) {
    run.sweep("likeliest", vocab, of_logits, {states, logits, maxima});
  } else {
    const bool sigma = op.top_n_sigma > 0 && std::isfinite(op.top_n_sigma);
    if (sigma)
      for (int squares : {0, 1}) {
        run.sweep(
            "deviate", vocab,
            SamplingDeviateArguments{.logits_stride = stride, .vocab = vocab, .blocks = blocks, .squares = squares},
            {states, logits, {"sums", s.sums}});
        run.item_each("add_deviations",
                      SamplingAddDeviationsArguments{.blocks = blocks, .squares = squares, .n = op.top_n_sigma},
                      {states, {"sums", s.sums}});
      }
    if (op.top_k > 0 && op.top_k <= blocks && !sigma) {
      aim(at_top, op.top_k, 0);
      select(by_block, 8, 4);  // the logit's digits: a bound, no cut
    }
    run.sweep("gather", vocab,
              SamplingGatherArguments{.logits_stride = stride, .vocab = vocab, .blocks = blocks, .room = room},
              {states, logits, maxima, ids, listed});
    run.item_each("pad", SamplingPadArguments{.room = room}, {states, listed});
    if (op.top_k > 0) {
      aim(at_top, op.top_k, 0);
      select(by_likelihood);
      keep(keep_first);
    }
    // Weights of zero count nowhere but in an order, and where a later temperature raises them.
    if (op.temperature_last || op.typical_p < 1 || op.xtc_probability > 0) keep(keep_weights);
    if (op.typical_p < 1) {
      measure(true);
      aim(at_near, 0, op.typical_p);
      select(by_nearness);
      aim(at_ties, 0, 0);
      select(by_ties);
      keep(keep_near);
    }
    if (op.top_p < 1) {
      measure(false);
      aim(at_mass, 0, op.top_p);
      select(by_mass);
      keep(keep_first);
    }
    if (op.min_p > 0) keep(keep_fraction, op.min_p);
    if (op.xtc_probability > 0) {
      measure(false);
      measure(false, op.xtc_threshold);
      aim(at_above, 0, op.xtc_probability);
      select(by_likelihood);
      keep(keep_last);
    }
    if (greedy) {
      run.sweep("likeliest_of_list", vocab, SamplingLikeliestOfListArguments{.room = room}, {states, ids, listed});
    } else {
      temperature = op.temperature;
      measure(false);
      aim(at_draw, 0, 0);
      select(by_id, id_digits);
      if (op.probs.present())
        run.sweep("write_probs", vocab,
                  SamplingWriteProbsArguments{
                      .room = room, .probs_stride = op.probs.strides[0], .temperature = temperature, .scale = scale},
                  {states, ids, listed, {"probs", op.probs}});
    }
  }
  run.sweep("blame", vocab, SamplingBlameArguments{.logits_stride = op.logits.strides[0], .vocab = vocab},
            {states, {"logits", op.logits}});
  run.one_item("finish",
               SamplingFinishArguments{.logits_stride = op.logits.strides[0],
                                       .probs_stride = op.probs.strides[0],
                                       .count = rows,
                                       .id_mask = id_mask,
                                       .first_row = first,
                                       .token_words = words(op.tokens.dtype),
                                       .greedy = greedy,
                                       .fault = faults.token},
               {states, {"logits", op.logits}, {"tokens", op.tokens}, {"probs", op.probs}, faults_of(cl)});
  return run.result();
}

}  // namespace

template <> std::size_t scratch_bytes(Cl&, const Sampling<Cl>& op) { return bytes(op, rows_at_once(op)); }

template <> Status compute(Cl& cl, const Sampling<Cl>& op, const SpaceWorkspace<Cl>& workspace) {
  const index rows = op.logits.extents[0], at_once = rows_at_once(op);
  const Scratch scratch = scratch_of(op, at_once, workspace);
  const Slots faults = fault_slots(cl, op);
  for (index first = 0; first < rows; first += at_once) {
    Sampling<Cl> part = op;
    const auto cut = [&](auto& view) {
      if (view.present()) view = view.slice(0, first, std::min(at_once, rows - first));
    };
    cut(part.logits), cut(part.history), cut(part.prompt_lengths), cut(part.seeds), cut(part.steps);
    cut(part.tokens), cut(part.probs);
    if (Status status = sample(cl, part, first, scratch, faults); !status.ok()) return status;
  }
  return {};
}

}  // namespace inlay::cl
