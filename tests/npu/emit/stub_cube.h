// The cube core: rows become fractals of 16 x 16 in L1, these go to L0A and L0B, products are summed in L0C, sums leave
// to global memory. Sums are made in the machine's order: 16 products, then what they come to.
#pragma once

namespace AscendC {

constexpr uint32_t fractal = 16;
inline uint32_t in_sixteens(uint32_t extent) { return (extent + fractal - 1) / fractal * fractal; }

struct Nd2NzParams {
  uint32_t rows, columns, from_pitch, to_block, to_row;
  Nd2NzParams(uint16_t ndNum, uint16_t nValue, uint16_t dValue, uint16_t, uint16_t srcDValue, uint16_t dstNzC0Stride,
              uint16_t dstNzNStride, uint16_t)
      : rows(nValue), columns(dValue), from_pitch(srcDValue), to_block(dstNzC0Stride), to_row(dstNzNStride) {
    if (ndNum != 1) stub::complain(0, "one matrix at a time is known here");
  }
};
template <class T> void DataCopy(LocalTensor<T> to, GlobalTensor<T> from, const Nd2NzParams& form, STUB_LINE) {
  if (to.space != stub::staging || form.to_row != 1) stub::complain(line, "fractals are made in L1, row after row");
  stub::aligned(to.address, 32, line);
  const uint32_t blocks = in_sixteens(form.columns) / fractal;
  for (uint32_t b = 0; b < blocks; ++b)
    for (uint32_t r = 0; r < form.rows; ++r)
      for (uint32_t c = 0; c < fractal; ++c) {
        const uint32_t column = b * fractal + c;
        *to[(b * form.to_block + r) * fractal + c].data(1, line) =
            column < form.columns ? from.first[uint64_t{r} * form.from_pitch + column] : static_cast<T>(0.0f);
      }
  inlay_npu_copy(&stub::launch().log, stub::at(line, "DataCopy"), "global", "staging", "nd2nz",
                 rows_of(to.span(form.rows * fractal), blocks, form.to_block * 32),
                 rows_of(from.bytes(form.columns * sizeof(T)), form.rows, form.from_pitch * sizeof(T)));
}

struct LoadData2DParams {
  uint32_t first, repeats, stride;
  bool turned;
  LoadData2DParams(uint16_t startIndex, uint8_t repeatTimes, uint16_t srcStride, uint8_t, uint16_t dstGap,
                   bool ifTranspose, uint8_t)
      : first(startIndex), repeats(repeatTimes), stride(srcStride), turned(ifTranspose) {
    if (dstGap != 0) stub::complain(0, "fractals lie side by side here");
  }
};
template <class T> void LoadData(LocalTensor<T> to, LocalTensor<T> from, const LoadData2DParams& form, STUB_LINE) {
  if (from.space != stub::staging || (to.space != stub::left && to.space != stub::right))
    stub::complain(line, "LoadData goes from L1 to L0A or L0B");
  stub::aligned(to.address, 512, line);
  stub::aligned(from.address, 512, line);
  for (uint32_t i = 0; i < form.repeats; ++i) {
    const T* source = from[(form.first + i * form.stride) * 256].data(256, line);
    T* target = to[i * 256].data(256, line);
    for (uint32_t r = 0; r < fractal; ++r)
      for (uint32_t c = 0; c < fractal; ++c)
        target[r * fractal + c] = form.turned ? source[c * fractal + r] : source[r * fractal + c];
  }
  inlay_npu_copy(&stub::launch().log, stub::at(line, "LoadData"), "staging", stub::space_names[to.space],
                 form.turned ? "turn" : nullptr, to.span(form.repeats * 256),
                 rows_of(from[form.first * 256].span(256), form.repeats, form.stride * 512));
}

struct MmadParams {
  uint16_t m = 0, n = 0, k = 0;
  bool cmatrixInitVal = true;
};
template <class T>
void Mmad(LocalTensor<float> sum, LocalTensor<T> a, LocalTensor<T> b, const MmadParams& form, STUB_LINE) {
  if (sum.space != stub::accumulator || a.space != stub::left || b.space != stub::right)
    stub::complain(line, "Mmad multiplies L0A by L0B into L0C");
  if (form.m == 1) stub::complain(line, "one row is a vector to Mmad");
  const uint32_t m = in_sixteens(form.m), n = in_sixteens(form.n), k = in_sixteens(form.k);
  for (uint32_t r = 0; r < form.m; ++r)
    for (uint32_t c = 0; c < form.n; ++c) {
      float& to = *sum[(c / fractal * m + r) * fractal + c % fractal].data(1, line);
      const T* x = a[r / fractal * k * fractal + r % fractal * fractal].data(1, line);
      const T* y = b[c / fractal * 256 + c % fractal * fractal].data(1, line);
      float all = form.cmatrixInitVal ? 0.0f : to;
      for (uint32_t j = 0; j < form.k; j += fractal) {
        const T *p = x + j * fractal, *q = y + j * n;
        float block = static_cast<float>(p[0]) * static_cast<float>(q[0]);
        for (uint32_t i = 1; i < fractal && j + i < form.k; ++i)
          block = std::fma(static_cast<float>(p[i]), static_cast<float>(q[i]), block);
        all += block;
      }
      to = all;
    }
  inlay_npu_matrix(&stub::launch().log, stub::at(line, "Mmad"), form.m, form.n, form.k, type_name<T>(), "f32",
                   form.cmatrixInitVal, sum.span(m * n), a.span(m * k), b.span(k * n));
}

enum class QuantMode_t { NoQuant, F322F16, F322BF16 };
struct FixpipeConfig {};
constexpr FixpipeConfig CFG_ROW_MAJOR{};
struct FixpipeParamsV220 {
  uint32_t columns, rows, from_block, to_pitch;
  QuantMode_t quantPre = QuantMode_t::NoQuant;
  FixpipeParamsV220(uint16_t nSize, uint16_t mSize, uint16_t srcStride, uint32_t dstStride, bool)
      : columns(nSize), rows(mSize), from_block(srcStride), to_pitch(dstStride) {}
};
template <class To, class From, const FixpipeConfig& config>
void Fixpipe(GlobalTensor<To> to, LocalTensor<From> from, const FixpipeParamsV220& form, STUB_LINE) {
  const bool same = std::is_same_v<To, From>;
  if (from.space != stub::accumulator || same != (form.quantPre == QuantMode_t::NoQuant))
    stub::complain(line, "Fixpipe empties L0C, and rounds by its mode");
  for (uint32_t r = 0; r < form.rows; ++r)
    for (uint32_t c = 0; c < form.columns; ++c)
      to.first[uint64_t{r} * form.to_pitch + c] =
          static_cast<To>(*from[(c / fractal * form.from_block + r) * fractal + c % fractal].data(1, line));
  inlay_npu_copy(&stub::launch().log, stub::at(line, "Fixpipe"), "accumulator", "global", nullptr,
                 rows_of(to.bytes(form.columns * sizeof(To)), form.rows, form.to_pitch * sizeof(To)),
                 from.span(in_sixteens(form.columns) * form.from_block));
}

}  // namespace AscendC
