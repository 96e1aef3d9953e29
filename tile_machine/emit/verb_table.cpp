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
    VerbRow{"vscalar", "add, mul, max, min", "@Op@s(@dst@, @a@, @value@, @count@);"},
    VerbRow{"vscalar", "div", "DivNumber(@dst@, @a@, scratch, @value@, @count@);", div_number},
    VerbRow{"vunary", "exp, log, sqrt, abs", "@Op@(@dst@, @a@, @count@);"},
    VerbRow{"vunary", "rsqrt", "OneOverRoot(@dst@, @a@, scratch, @count@);", one_over_root},
    VerbRow{"vreduce", "sum, max, min of f32", "@Reduce@Rows(@dst@, @a@, scratch, @rows@, @columns@, @a_pitch@);",
            reduce_rows},
    VerbRow{"vreduce_columns", "sum of a mask that is a column", "ReduceSum(@dst@, @a@, scratch, @count@);"},
    VerbRow{"vcompare", "with a number", "CompareNumber(@dst@, @a@, scratch, @value@, CMPMODE::@mode@, @count@);",
            compare_number},
    VerbRow{"vselect", "or a number", "SelectOrNumber(@dst@, @mask@, @a@, scratch, @value@, @count@);", select_number},
    VerbRow{"vcast", "side by side", "Cast(@dst@, @a@, RoundMode::@mode@, @count@);"},
    VerbRow{"vcast", "rows",
            "for (uint32_t r = 0; r < @rows@; ++r) Cast(@dst@[r * @dst_pitch@], @a@[r * @a_pitch@], RoundMode::@mode@, "
            "@columns@);"},
    VerbRow{"vcast", "of one type", "Muls(@dst@, @a@, static_cast<@type@>(1.0f), @count@);"},
    VerbRow{"vcast", "rows of one type",
            "for (uint32_t r = 0; r < @rows@; ++r) Muls(@dst@[r * @dst_pitch@], @a@[r * @a_pitch@], "
            "static_cast<@type@>(1.0f), @columns@);"},
    VerbRow{"vfill", "side by side", "Duplicate(@dst@, @value@, @count@);"},
    VerbRow{"scalar_read", "of the vector memory",
            "if (@a@.GetValue(0) != @value@) Trap();  // what follows is the way of @value@ alone"},
    VerbRow{"set", "two queues", "SetFlag<HardEvent::@event@>(@flag@);"},
    VerbRow{"wait", "two queues", "WaitFlag<HardEvent::@event@>(@flag@);"},
    VerbRow{"barrier", "a queue", "PipeBarrier<PIPE_@pipe@>();"},
    VerbRow{"barrier_all", "a core", "PipeBarrier<PIPE_ALL>();"},
    VerbRow{"sync_all", "all cores", "SyncAll();"},
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
