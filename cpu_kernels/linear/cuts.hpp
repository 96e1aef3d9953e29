// What the kernels of linear, linear_int8 and linear_w4a16 cut their work by, without the kernels: tests stand their
// sizes around these numbers.
#pragma once

#include <inlay/core/dtype.hpp>

namespace inlay::cpu {

// linear: rows of x that are packed at a time, and panels of a task where there are row tiles enough.
inline constexpr index linear_row_chunk = 128;
inline constexpr index linear_group = 8;

// The slices of two panels take 24 KiB of L1 in f32. Every block is a sum of its own, added to the
// blocks before it: 192 + k/192 roundings deep instead of k. Part of the numbers: every level has it.
inline constexpr index linear_k_block = 192;

// Rows that fill the registers: rows * panels accumulators, the weights, one broadcast.
//   AVX-512  32 registers: 12 x 2 panels of one register
//   AVX2     16 registers:  6 x 1 panel of two
//   NEON     32 registers:  6 x 1 panel of four
//   scalar   compilers make 4 SSE registers of a panel: 2 x 1
constexpr int linear_tile_rows(index lanes) { return lanes == 16 ? 12 : lanes == 1 ? 2 : 6; }
inline constexpr int max_tile_panels = 4;

// linear_int8: tokens of the largest tile.
inline constexpr int int8_tile_rows = 12;

// linear_w4a16: slots whose sums are one chain at most; rows whose x stays in L2 (120 KiB of 128 slots), and panels
// whose totals do (120 KiB for as many rows). Registers: rows * columns sums, columns codes, one broadcast.
inline constexpr index w4_block = 128;
inline constexpr index w4_chunk_rows = 240;
inline constexpr index w4_job_panels = 8;
constexpr int w4_tile_rows(index lanes) { return lanes == 16 ? 12 : lanes == 1 ? 4 : 6; }
// Up to so many rows meet codes in registers, and panels side by side: eight sums of one row hide the latency of fma at
// AVX2. AVX-512 has as many of four panels, as the sums of one segment go on beside those of the next: GB/s of four, of
// reading the same bytes, and of eight panels, of which each is a stream, symmetric in groups of 32 (Zen 5, two
// threads, 150 to 440 MB, medians of 11 or 15 by turns):
//
//                       896 inputs          2048 inputs         4864 inputs         8192 inputs
//   4 bits            41.7, 50.0, 40.5    42.4, 43.5, 37.2    42.7, 42.2, 38.8    42.5, 35.2, 36.0
//     converted       58.9, 91.5, 65.6    43.1, 42.1, 39.9
//     two rows        44.9, 51.4, 43.5    39.6, 39.6, 39.6
//   6 bits            37.6, 44.7, 37.2    38.1, 37.2, 35.3
//   8 bits            37.5, 43.2, 35.9    38.7, 39.2, 34.7
//     two rows        38.5, 44.2, 36.7    65.8, 76.2, 66.5
//
// One panel with four sums of every fourth slot reads 45 to 52 where these read 42 (AVX2 38 to 46 where four panels
// read 34), but then a row has other sums than beside more rows, whose tiles have no registers for them. One panel with
// four segments at once, each summed as ever: 37 to 41. Two panels that ask for the next job in one stream: 46, and 48
// where memory reads 90 and these 61.
constexpr int w4_few_rows_most(index lanes) { return lanes == 16 ? 8 : lanes == 1 ? 1 : 4; }
constexpr int w4_row_panels(index lanes, int rows) {
  if (lanes == 16) return rows <= 4 ? 4 : 2;
  const index sums = rows == 1 || lanes == 8 ? 8 : 16, panels = sums * lanes / 16 / rows;
  return lanes == 1 ? 1 : static_cast<int>(panels);
}
// int8_activations: rows of a tile; panels of a job; and the jobs that each thread has at least, where there are rows
// enough to cut. Two registers of codes by four rows at AVX2: by one and eight, broadcasts take two thirds of the
// loads. At AVX-512 six rows by two have registers for their totals too, which eight and twelve have not: 0.79, 0.71
// and 0.49 of the int8 peak (Zen 5, 4 bits, one thread, in L1 and L2); seven reach 0.76, five 0.79, four 0.76. Codes of
// five bits take so long to spread that eight rows are faster by 9% (those of six bits by 2%, but 0.87 of the speed
// with 32 rows from memory). For the same reason up to eight rows of theirs, of six bits and of eight are one tile: two
// of four take 1.25, 1.05 and 1.1 of the time. Of 4 bits they take as long, and 0.87 of it with 8192 inputs, as two
// tiles may ask for a larger job.
constexpr int w4_int8_tile_rows(index lanes, int bits) { return lanes != 16 ? 4 : bits == 5 ? 8 : 6; }
constexpr int w4_int8_alone_rows(index lanes, int bits) { return lanes != 16 ? 4 : bits == 4 ? 6 : 8; }
inline constexpr int w4_int8_pair_rows = 8;  // of neon_i8mm, by two registers of codes
// Panels that one row reads side by side, each with streams of codes, of scales and maybe of offsets. AVX-512 reads one
// after the other: where memory is slow it likes few streams, and no latency is left to hide, as the sums of the next
// segment begin while those of this one end. GB/s of one panel, with 8192 bytes asked for ahead, and of what there was
// before (two of 4 bits, four of 5 and 6, eight of 8, with 2048), in between a plain reading of the same bytes (Zen 5,
// two threads, 280 to 450 MB, medians of eleven by turns):
//
//                  896 inputs          2048 inputs         4864 inputs
//   4 bits       43.1, 35.6 of 40.6   69.1, 54.9 of 73.5   56.5, 52.0 of 67.2
//     offsets    47.3, 37.9 of 48.6   44.0, 38.7 of 44.7   46.6, 42.7 of 50.1
//   named        47.1, 36.8 of 45.9   43.0, 35.6 of 39.3   48.0, 45.4 of 50.4
//   5 bits       49.8, 39.9 of 47.3   46.0, 36.5 of 42.4   49.4, 41.7 of 49.9
//   6 bits       46.8, 35.8 of 42.2   45.6, 37.2 of 42.8   44.2, 37.8 of 40.5
//   8 bits       46.8, 40.2 of 46.6   47.7, 41.2 of 46.8   43.4, 38.1 of 42.6
//
// One panel with 2048 is as fast where memory reads 45 GB/s, and 0.80 to 0.86 of it where it reads 70; one panel into
// L1, 16384 bytes ahead, or with the parts of a word in two sums: no difference. NEON has registers for the sums and
// the totals of two panels. At AVX2 the time of two panels as a part of that of four (Zen 3, two threads, medians of 21
// by turns, then with 1024 bytes asked for ahead in place of 2048; four panels of 8 bits with 1024: 0.94, 0.99 and
// 0.94):
//
//                        4096 x 57344   2048 x 65536   896 x 145920
//   4 bits, symmetric     1.01, 0.98     0.98, 0.94     0.96, 0.92
//   4 bits, offsets       0.89, 0.91     0.93, 0.88     0.95, 0.91
//   4 bits, in units      0.90, 0.86     0.94, 0.91
//   5 bits                0.94, 0.94     1.01, 1.02     0.96, 1.03
//   6 bits, in units      0.97, 1.02     0.94, 0.98
//   8 bits                1.03, 0.97     1.04, 0.99     1.04, 1.00
constexpr int w4_int8_row_panels(index lanes, int bits) {
  return lanes == 16 || lanes == 1 ? 1 : lanes == 8 && bits == 8 ? 4 : 2;
}
inline constexpr index w4_int8_job_panels = 4;
inline constexpr index w4_int8_jobs_per_thread = 4;  // (eight: prefill of SmolLM2-135M 0.99 to 1.01, Zen 5)
// What a job asks for ahead, the next one, is at most so many bytes: one tile that asks for more than this is slower,
// as it waits for its own, and several are not, up to what was measured (Zen 5, 1 MB of second-level cache).
inline constexpr index w4_ahead_of_one_tile = 192 * 1024, w4_ahead_of_tiles = 448 * 1024;
// So many rows of a job are worth that its codes of five and six bits are spread before. Those of so many bytes at
// once, or of one panel: each tile of rows reads them again.
inline constexpr index w4_spread_rows = 12;
inline constexpr index w4_spread_bytes_at_once = 1 << 17;

}  // namespace inlay::cpu
