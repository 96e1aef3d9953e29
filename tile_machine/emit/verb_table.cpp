#include "tile_machine/emit/verb_table.hpp"

#include <array>

namespace inlay::npu::emit {

namespace {

// Row by row, and of each row up to 255 repeats of 64 at a time: b's block is the same for all of them.
constexpr std::string_view column = R"(
// dst[r, c] = a[r, c] @sign@ b[r]: each b[r] fills a block of scratch, which all blocks of its row take.
__aicore__ inline void @Op@Column(const LocalTensor<float>& dst, const LocalTensor<float>& a, const LocalTensor<float>& b,
                               const LocalTensor<float>& scratch, uint32_t rows, uint32_t columns, uint32_t dstPitch,
                               uint32_t aPitch) {
  for (uint32_t first = 0; first < rows; first += 64) {
    const uint32_t some = rows - first < 64 ? rows - first : 64;
    PipeBarrier<PIPE_V>();
    Brcb(scratch, b[first], (some + 7) / 8, BrcbRepeatParams(1, 8));
    PipeBarrier<PIPE_V>();
    for (uint32_t r = 0; r < some; ++r) {
      const LocalTensor<float> to = dst[(first + r) * dstPitch], from = a[(first + r) * aPitch];
      uint32_t c = 0;
      while (columns - c >= 64) {
        const uint32_t repeats = (columns - c) / 64 < 255 ? (columns - c) / 64 : 255;
        @Op@(to[c], from[c], scratch[r * 8], 64, repeats, BinaryRepeatParams(1, 1, 0, 8, 8, 0));
        c += repeats * 64;
      }
      if (c < columns) @Op@(to[c], from[c], scratch[r * 8], columns - c, 1, BinaryRepeatParams(1, 1, 0, 8, 8, 0));
    }
  }
}
)";

constexpr std::string_view div_number = R"(
// dst = a / value: a division, where a product with 1 / value would be rounded twice.
__aicore__ inline void DivNumber(const LocalTensor<float>& dst, const LocalTensor<float>& a,
                                 const LocalTensor<float>& scratch, float value, uint32_t count) {
  PipeBarrier<PIPE_V>();
  Duplicate(scratch, value, count);
  PipeBarrier<PIPE_V>();
  Div(dst, a, scratch, count);
}
)";

constexpr std::string_view one_over_root = R"(
// dst = 1 / sqrt(a), each rounded once; Rsqrt has fewer digits.
__aicore__ inline void OneOverRoot(const LocalTensor<float>& dst, const LocalTensor<float>& a,
                                   const LocalTensor<float>& scratch, uint32_t count) {
  PipeBarrier<PIPE_V>();
  Sqrt(dst, a, count);
  Duplicate(scratch, 1.0f, count);
  PipeBarrier<PIPE_V>();
  Div(dst, scratch, dst, count);
}
)";

constexpr std::string_view one_over = R"(
// dst = 1 / a, rounded once; Reciprocal has fewer digits.
__aicore__ inline void OneOver(const LocalTensor<float>& dst, const LocalTensor<float>& a,
                               const LocalTensor<float>& scratch, uint32_t count) {
  PipeBarrier<PIPE_V>();
  Duplicate(scratch, 1.0f, count);
  PipeBarrier<PIPE_V>();
  Div(dst, scratch, a, count);
}
)";

// Of each row so many numbers at a time as scratch holds.
constexpr std::string_view scaled_to = R"(
// dst[r, c] = a[r, c] * value, rounded to 16 bits.
__aicore__ inline void @Op@sTo(const LocalTensor<@type@>& dst, const LocalTensor<float>& a,
                           const LocalTensor<float>& scratch, float value, uint32_t rows, uint32_t columns,
                           uint32_t dstPitch, uint32_t aPitch) {
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < columns; c += 512) {
      const uint32_t some = columns - c < 512 ? columns - c : 512;
      PipeBarrier<PIPE_V>();
      @Op@s(scratch, a[r * aPitch + c], value, some);
      PipeBarrier<PIPE_V>();
      Cast(dst[r * dstPitch + c], scratch, RoundMode::CAST_RINT, some);
    }
}
)";

constexpr std::string_view mixed_rows = R"(
// dst[r, c] = a[r, c] @sign@ b[r, c] of 16 bits, rounded to 16 bits.
__aicore__ inline void @Op@Mixed(const LocalTensor<@type@>& dst, const LocalTensor<float>& a,
                             const LocalTensor<@type@>& b, const LocalTensor<float>& scratch, uint32_t rows,
                             uint32_t columns, uint32_t dstPitch, uint32_t aPitch, uint32_t bPitch) {
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < columns; c += 512) {
      const uint32_t some = columns - c < 512 ? columns - c : 512;
      PipeBarrier<PIPE_V>();
      Cast(scratch, b[r * bPitch + c], RoundMode::CAST_NONE, some);
      PipeBarrier<PIPE_V>();
      @Op@(scratch, a[r * aPitch + c], scratch, some);
      PipeBarrier<PIPE_V>();
      Cast(dst[r * dstPitch + c], scratch, RoundMode::CAST_RINT, some);
    }
}
)";

constexpr std::string_view column_to = R"(
// dst[r, c] = a[r, c] @sign@ b[r], rounded to 16 bits: eight rows' blocks of b, and 384 results, are in scratch.
__aicore__ inline void @Op@ColumnTo(const LocalTensor<@type@>& dst, const LocalTensor<float>& a,
                                const LocalTensor<float>& b, const LocalTensor<float>& scratch, uint32_t rows,
                                uint32_t columns, uint32_t dstPitch, uint32_t aPitch) {
  for (uint32_t r = 0; r < rows; ++r) {
    if (r % 8 == 0) {
      PipeBarrier<PIPE_V>();
      Brcb(scratch, b[r], 1, BrcbRepeatParams(1, 8));
    }
    for (uint32_t c = 0; c < columns; c += 384) {
      const uint32_t some = columns - c < 384 ? columns - c : 384;
      PipeBarrier<PIPE_V>();
      if (some >= 64)
        @Op@(scratch[64], a[r * aPitch + c], scratch[r % 8 * 8], 64, some / 64, BinaryRepeatParams(1, 1, 0, 8, 8, 0));
      if (some % 64 > 0)
        @Op@(scratch[64 + some / 64 * 64], a[r * aPitch + c + some / 64 * 64], scratch[r % 8 * 8], some % 64, 1,
            BinaryRepeatParams(1, 1, 0, 8, 8, 0));
      PipeBarrier<PIPE_V>();
      Cast(dst[r * dstPitch + c], scratch[64], RoundMode::CAST_RINT, some);
    }
  }
}
)";

// Where dst is src1 and neither moves, repeats may depend on one another.
constexpr std::string_view reduce_rows = R"(
// dst[r] = the @reduction@ of a[r, ..]: 64 lanes first, then their one number.
__aicore__ inline void @Reduce@Rows(const LocalTensor<float>& dst, const LocalTensor<float>& a,
                               const LocalTensor<float>& scratch, uint32_t rows, uint32_t columns, uint32_t pitch) {
  for (uint32_t r = 0; r < rows; ++r) {
    const LocalTensor<float> from = a[r * pitch];
    PipeBarrier<PIPE_V>();
    Duplicate(scratch, @neutral@, 64);
    uint32_t c = 0;
    while (columns - c >= 64) {
      const uint32_t repeats = (columns - c) / 64 < 255 ? (columns - c) / 64 : 255;
      PipeBarrier<PIPE_V>();
      @Op@(scratch, from[c], scratch, 64, repeats, BinaryRepeatParams(1, 1, 1, 0, 8, 0));
      c += repeats * 64;
    }
    if (c < columns) {
      PipeBarrier<PIPE_V>();
      @Op@(scratch, from[c], scratch, columns - c, 1, BinaryRepeatParams(1, 1, 1, 0, 8, 0));
    }
    PipeBarrier<PIPE_V>();
    @Whole@(dst[r], scratch, 64, 1, 1, 1, 8@order@);
  }
}
)";

constexpr std::string_view compare_number = R"(
// mask = a ? value as 1 and 0. Compare takes whole repeats of 64: lanes behind the last are computed and not used.
__aicore__ inline void CompareNumber(const LocalTensor<float>& mask, const LocalTensor<float>& a,
                                     const LocalTensor<float>& scratch, float value, CMPMODE mode, uint32_t count) {
  const LocalTensor<uint8_t> bits = scratch.ReinterpretCast<uint8_t>();
  PipeBarrier<PIPE_V>();
  CompareScalar(bits, a, value, mode, (count + 63) / 64 * 64);
  PipeBarrier<PIPE_V>();
  Duplicate(mask, 1.0f, count);
  PipeBarrier<PIPE_V>();
  Select(mask, bits, mask, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
}
)";

constexpr std::string_view select_number = R"(
// dst = mask != 0 ? yes : a number.
__aicore__ inline void SelectOrNumber(const LocalTensor<float>& dst, const LocalTensor<float>& mask,
                                      const LocalTensor<float>& yes, const LocalTensor<float>& scratch, float no,
                                      uint32_t count) {
  const LocalTensor<uint8_t> bits = scratch.ReinterpretCast<uint8_t>();
  PipeBarrier<PIPE_V>();
  CompareScalar(bits, mask, 0.0f, CMPMODE::NE, (count + 63) / 64 * 64);
  PipeBarrier<PIPE_V>();
  Select(dst, bits, yes, no, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
}
)";

constexpr std::string_view number_or = R"(
// dst = mask != 0 ? a number : no.
__aicore__ inline void SelectNumberOr(const LocalTensor<float>& dst, const LocalTensor<float>& mask,
                                      const LocalTensor<float>& no, const LocalTensor<float>& scratch, float yes,
                                      uint32_t count) {
  const LocalTensor<uint8_t> bits = scratch.ReinterpretCast<uint8_t>();
  PipeBarrier<PIPE_V>();
  CompareScalar(bits, mask, 0.0f, CMPMODE::EQ, (count + 63) / 64 * 64);
  PipeBarrier<PIPE_V>();
  Select(dst, bits, no, yes, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
}
)";

// L1 has blocks of 16 columns; L0A takes fractals row by row of them, L0B those of 16 of the depth after one another,
// each with its columns as rows.
constexpr std::string_view load_left = R"(
__aicore__ inline void LoadLeft(const LocalTensor<@type@>& left, const LocalTensor<@type@>& staged, uint32_t rows,
                                uint32_t depth, uint32_t pitch) {
  const uint32_t across = (depth + 15) / 16;
  for (uint32_t r = 0; r < rows; r += 16)
    LoadData(left[r * across * 16], staged[r * 16], LoadData2DParams(0, across, pitch / 16, 0, 0, false, 0));
}
)";

constexpr std::string_view load_columns = R"(
// Rows of the staged tile are the right operand's columns.
__aicore__ inline void LoadRightColumns(const LocalTensor<@type@>& right, const LocalTensor<@type@>& staged,
                                        uint32_t depth, uint32_t columns, uint32_t pitch) {
  const uint32_t across = (columns + 15) / 16;
  for (uint32_t k = 0; k < depth; k += 16)
    LoadData(right[k * across * 16], staged[k * pitch], LoadData2DParams(0, across, 1, 0, 0, false, 0));
}
)";

constexpr std::string_view load_rows = R"(
// Rows of the staged tile are the right operand's: each fractal is turned on its way.
__aicore__ inline void LoadRightRows(const LocalTensor<@type@>& right, const LocalTensor<@type@>& staged, uint32_t depth,
                                     uint32_t columns, uint32_t pitch) {
  const uint32_t across = (columns + 15) / 16;
  for (uint32_t k = 0; k < depth; k += 16)
    LoadData(right[k * across * 16], staged[k * 16], LoadData2DParams(0, across, pitch / 16, 0, 0, true, 0));
}
)";

constexpr std::string_view multiply = R"(
// sum (+)= left * right.
__aicore__ inline void Multiply(const LocalTensor<float>& sum, const LocalTensor<@type@>& left,
                                const LocalTensor<@type@>& right, uint32_t rows, uint32_t columns, uint32_t depth,
                                bool init) {
  MmadParams form;
  form.m = rows;
  form.n = columns;
  form.k = depth;
  form.cmatrixInitVal = init;
  if (!init) PipeBarrier<PIPE_M>();
  Mmad(sum, left, right, form);
}
)";

constexpr std::string_view drain_sum = R"(
__aicore__ inline void Drain(const GlobalTensor<@type@>& to, const LocalTensor<float>& sum, uint32_t rows,
                             uint32_t columns, uint32_t sumRows, uint32_t pitch) {
  FixpipeParamsV220 form(columns, rows, sumRows, pitch, false);
  form.quantPre = QuantMode_t::@mode@;
  Fixpipe<@type@, float, CFG_ROW_MAJOR>(to, sum, form);
}
)";

constexpr std::array table = {
    VerbRow{"copy", "global to vector",
            "DataCopyPad(@to@, @from@, DataCopyExtParams(@rows@, @bytes@, @from_gap@, @to_gap@, 0), "
            "DataCopyPadExtParams<@type@>(false, 0, 0, 0));"},
    VerbRow{"copy", "vector to global",
            "DataCopyPad(@to@, @from@, DataCopyExtParams(@rows@, @bytes@, @from_gap@, @to_gap@, 0));"},
    VerbRow{"vbinary", "side by side", "@Op@(@dst@, @a@, @b@, @count@);"},
    VerbRow{"vbinary", "rows",
            "for (uint32_t r = 0; r < @rows@; ++r) @Op@(@dst@[r * @dst_pitch@], @a@[r * @a_pitch@], @b@[r * "
            "@b_pitch@], @columns@);"},
    VerbRow{"vbinary", "b is a column",
            "@Op@Column(@dst@, @a@, @b@, scratch, @rows@, @columns@, @dst_pitch@, @a_pitch@);", column},
    VerbRow{"vbinary", "b of 16 bits, rounded to them",
            "@Op@Mixed(@dst@, @a@, @b@, scratch, @rows@, @columns@, @dst_pitch@, @a_pitch@, @b_pitch@);", mixed_rows},
    VerbRow{"vbinary", "b is a column, rounded to 16 bits",
            "@Op@ColumnTo(@dst@, @a@, @b@, scratch, @rows@, @columns@, @dst_pitch@, @a_pitch@);", column_to},
    VerbRow{"vscalar", "add, mul, max, min", "@Op@s(@dst@, @a@, @value@, @count@);"},
    VerbRow{"vscalar", "rows",
            "for (uint32_t r = 0; r < @rows@; ++r) @Op@s(@dst@[r * @dst_pitch@], @a@[r * @a_pitch@], @value@, "
            "@columns@);"},
    VerbRow{"vscalar", "rounded to 16 bits",
            "@Op@sTo(@dst@, @a@, scratch, @value@, @rows@, @columns@, @dst_pitch@, @a_pitch@);", scaled_to},
    VerbRow{"vscalar", "div", "DivNumber(@dst@, @a@, scratch, @value@, @count@);", div_number},
    VerbRow{"vunary", "exp, log, sqrt, abs", "@Op@(@dst@, @a@, @count@);"},
    VerbRow{"vunary", "rows",
            "for (uint32_t r = 0; r < @rows@; ++r) @Op@(@dst@[r * @dst_pitch@], @a@[r * @a_pitch@], @columns@);"},
    VerbRow{"vunary", "recip", "OneOver(@dst@, @a@, scratch, @count@);", one_over},
    VerbRow{"vunary", "rsqrt", "OneOverRoot(@dst@, @a@, scratch, @count@);", one_over_root},
    VerbRow{"vreduce", "sum, max, min of f32", "@Reduce@Rows(@dst@, @a@, scratch, @rows@, @columns@, @a_pitch@);",
            reduce_rows},
    VerbRow{"vreduce_columns", "sum of a mask that is a column", "ReduceSum(@dst@, @a@, scratch, @count@);"},
    VerbRow{"vcompare", "with a number", "CompareNumber(@dst@, @a@, scratch, @value@, CMPMODE::@mode@, @count@);",
            compare_number},
    VerbRow{"vselect", "or a number", "SelectOrNumber(@dst@, @mask@, @a@, scratch, @value@, @count@);", select_number},
    VerbRow{"vselect", "a number or a tile", "SelectNumberOr(@dst@, @mask@, @a@, scratch, @value@, @count@);",
            number_or},
    VerbRow{"vcast", "side by side", "Cast(@dst@, @a@, RoundMode::@mode@, @count@);"},
    VerbRow{"vcast", "rows",
            "for (uint32_t r = 0; r < @rows@; ++r) Cast(@dst@[r * @dst_pitch@], @a@[r * @a_pitch@], RoundMode::@mode@, "
            "@columns@);"},
    VerbRow{"vcast", "of one type", "Muls(@dst@, @a@, static_cast<@type@>(1.0f), @count@);"},
    VerbRow{"vcast", "rows of one type",
            "for (uint32_t r = 0; r < @rows@; ++r) Muls(@dst@[r * @dst_pitch@], @a@[r * @a_pitch@], "
            "static_cast<@type@>(1.0f), @columns@);"},
    VerbRow{"vfill", "side by side", "Duplicate(@dst@, @value@, @count@);"},
    VerbRow{"vfill", "rows",
            "for (uint32_t r = 0; r < @rows@; ++r) Duplicate(@dst@[r * @dst_pitch@], @value@, @columns@);"},
    VerbRow{"viota", "a row", "CreateVecIndex(@dst@, @value@, @count@);"},
    VerbRow{"nd2nz", "rows of global memory",
            "DataCopy(@to@, @from@, Nd2NzParams(1, @rows@, @columns@, 0, @from_pitch@, @to_pitch@, 1, 0));"},
    VerbRow{"load_a", "rows", "LoadLeft(@to@, @from@, @rows@, @columns@, @pitch@);", load_left},
    VerbRow{"load_b", "of columns", "LoadRightColumns(@to@, @from@, @rows@, @columns@, @pitch@);", load_columns},
    VerbRow{"load_b", "of rows", "LoadRightRows(@to@, @from@, @rows@, @columns@, @pitch@);", load_rows},
    VerbRow{"mma", "into f32", "Multiply(@sum@, @left@, @right@, @rows@, @columns@, @depth@, @init@);", multiply},
    VerbRow{"drain", "to global memory", "Drain(@to@, @sum@, @rows@, @columns@, @sum_rows@, @to_pitch@);", drain_sum},
    VerbRow{"scalar_read", "of the vector memory",
            "if (@a@.GetValue(0) != @value@) Trap();  // what follows is the way of @value@ alone"},
    VerbRow{"set", "two queues", "SetFlag<HardEvent::@event@>(@flag@);"},
    VerbRow{"wait", "two queues", "WaitFlag<HardEvent::@event@>(@flag@);"},
    VerbRow{"barrier", "a queue", "PipeBarrier<PIPE_@pipe@>();"},
    VerbRow{"barrier_all", "a core", "PipeBarrier<PIPE_ALL>();"},
    VerbRow{"stream_set", "cube and vector cores", "CrossCoreSetFlag<2, PIPE_@pipe@>(@flag@);"},
    VerbRow{"stream_wait", "cube and vector cores", "CrossCoreWaitFlag(@flag@);"},
    VerbRow{"sync_all", "all cores", "SyncAll();"},
    VerbRow{"sync_all", "cube and vector cores", "SyncAll<false>();"},
};

}  // namespace

std::span<const VerbRow> verb_table() { return table; }

const VerbRow& row_of(std::string_view verb, std::string_view form) {
  for (const VerbRow& row : table)
    if (row.verb == verb && row.form == form) return row;
  return table.front();
}

std::string filled(std::string_view text, const Places& places) {
  std::string result;
  while (true) {
    const std::size_t begin = text.find('@');
    result += text.substr(0, begin);
    if (begin == text.npos) return result;
    const std::size_t end = text.find('@', begin + 1);
    const auto found = places.find(text.substr(begin + 1, end - begin - 1));
    if (found != places.end()) result += found->second;
    text.remove_prefix(end + 1);
  }
}

std::string verb_table_text() {
  std::string result = "| verb | of | in Ascend C |\n|---|---|---|\n";
  for (const VerbRow& row : table)
    result.append("| `").append(row.verb).append("` | ").append(row.form).append(" | `").append(row.call).append(
        "` |\n");
  return result;
}

}  // namespace inlay::npu::emit
