// Codes of five and six bits as the products take them. A code's upper bits are brought above its nibble by as many
// operations as multiply it by two rows; for many rows a job's codes are spread once, a panel after the other:
//
//   word 0: part 0 of the panel's registers | part 1 of them | word 1: ..
#pragma once

#include "cpu_kernels/linear/w4a16_panels.hpp"

namespace inlay::cpu {

template <class Level, simd::Codes Kind> struct SpreadCodes {
  using Part = simd::CodePart<Level>;
  static constexpr int in_panel = Panels<Level, 1>::count, parts = simd::CodeSums<Level, Kind>::parts;
  static constexpr index part_bytes = in_panel * index{sizeof(Part)}, word_bytes = parts * part_bytes;

  // Of `steps` words.
  static constexpr index panel_bytes(index steps) { return steps * word_bytes; }

  // The words of the registers begin .. end, which begin at words[v]; afterwards words[v] is where they are spread.
  static void spread(const W4Weight& w, const std::uint8_t** words, int begin, int end, std::uint8_t* to) {
    const simd::CodeTable<Level, Kind> table(w.named);
    for (int v = begin; v < end; ++v) {
      const std::uint8_t* from = words[v];
      std::uint8_t* at = to + (v - begin) / in_panel * panel_bytes(w.steps) + v % in_panel * index{sizeof(Part)};
      words[v] = at;
      for (index step = 0; step < w.steps; ++step) {
        const auto word = simd::load_words<Level, Kind>(from, v % in_panel);
        simd::unroll<parts>(
            [&](auto h) INLAY_INLINE_LAMBDA { simd::code_part<Kind, h>(word, table).store(at + h * part_bytes); });
        from += w4_step_bytes(simd::bits_of<Kind>), at += word_bytes;
      }
    }
  }
};

}  // namespace inlay::cpu
