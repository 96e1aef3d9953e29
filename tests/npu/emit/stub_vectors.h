// The vector unit: of the first n elements, or of repeats of 256 bytes with strides in blocks of 32 bytes.
#pragma once

namespace AscendC {

struct Touched {  // by one instruction
  inlay_npu_bytes target, sources[3];
  uint32_t count;
};
template <class To, class From>
void told(uint32_t line, const char* verb, const char* op, uint64_t n, const Touched& by) {
  inlay_npu_vector(&stub::launch().log, stub::at(line, verb), op, type_name<From>(), type_name<To>(), n, 1, 0,
                   by.target, by.sources, by.count);
}
template <class T> inlay_npu_bytes span_of(LocalTensor<T> tensor, uint64_t n, uint32_t line) {
  stub::aligned(tensor.address, 32, line);
  tensor.data(n, line);
  return tensor.span(n);
}

struct BinaryRepeatParams {
  uint32_t blocks[3], repeats[3];  // of dst, src0, src1
  BinaryRepeatParams(uint8_t dstBlk, uint8_t src0Blk, uint8_t src1Blk, uint8_t dstRep, uint8_t src0Rep, uint8_t src1Rep)
      : blocks{dstBlk, src0Blk, src1Blk}, repeats{dstRep, src0Rep, src1Rep} {}
};
inline uint64_t element_at(const BinaryRepeatParams& form, int which, uint32_t repeat, uint32_t lane) {
  return (uint64_t{repeat} * form.repeats[which] + lane / 8 * form.blocks[which]) * 8 + lane % 8;
}

#define STUB_BINARY(Name, op, expression)                                                                              \
  template <class T> void Name(LocalTensor<T> dst, LocalTensor<T> a, LocalTensor<T> b, int count, STUB_LINE) {         \
    const uint64_t n = static_cast<uint64_t>(count);                                                                   \
    const Touched touched{span_of(dst, n, line), {span_of(a, n, line), span_of(b, n, line)}, 2};                       \
    for (uint64_t i = 0; i < n; ++i) {                                                                                 \
      const float x = a.data(n, line)[i], y = b.data(n, line)[i];                                                      \
      dst.data(n, line)[i] = static_cast<T>(expression);                                                               \
    }                                                                                                                  \
    told<T, T>(line, #Name, op, n, touched);                                                                           \
  }                                                                                                                    \
  inline void Name(LocalTensor<float> dst, LocalTensor<float> a, LocalTensor<float> b, uint64_t mask, uint8_t repeats, \
                   const BinaryRepeatParams& form, STUB_LINE) {                                                        \
    if (mask < 1 || mask > 64) stub::complain(line, "a mask of " + std::to_string(mask));                              \
    const auto lanes = static_cast<uint32_t>(mask);                                                                    \
    const auto span = [&](LocalTensor<float> of, int which) {                                                          \
      return span_of(of, element_at(form, which, repeats - 1u, lanes - 1) + 1, line);                                  \
    };                                                                                                                 \
    told<float, float>(line, #Name, op, uint64_t{lanes} * repeats, {span(dst, 0), {span(a, 1), span(b, 2)}, 2});       \
    for (uint32_t r = 0; r < repeats; ++r)                                                                             \
      for (uint32_t lane = 0; lane < lanes; ++lane) {                                                                  \
        const float x = *a[element_at(form, 1, r, lane)].data(1, line);                                                \
        const float y = *b[element_at(form, 2, r, lane)].data(1, line);                                                \
        *dst[element_at(form, 0, r, lane)].data(1, line) = expression;                                                 \
      }                                                                                                                \
  }
STUB_BINARY(Add, "add", x + y)
STUB_BINARY(Sub, "sub", x - y)
STUB_BINARY(Mul, "mul", x* y)
STUB_BINARY(Div, "div", x / y)
STUB_BINARY(Max, "max", x > y ? x : y)
STUB_BINARY(Min, "min", x < y ? x : y)

#define STUB_NUMBER(Name, op, expression)                                                         \
  template <class T> void Name(LocalTensor<T> dst, LocalTensor<T> a, T b, int count, STUB_LINE) { \
    const uint64_t n = static_cast<uint64_t>(count);                                              \
    told<T, T>(line, #Name, op, n, {span_of(dst, n, line), {span_of(a, n, line)}, 1});            \
    for (uint64_t i = 0; i < n; ++i) {                                                            \
      const float x = a.data(n, line)[i], y = b;                                                  \
      dst.data(n, line)[i] = static_cast<T>(expression);                                          \
    }                                                                                             \
  }
STUB_NUMBER(Adds, "add", x + y)
STUB_NUMBER(Muls, "mul", x* y)
STUB_NUMBER(Maxs, "max", x > y ? x : y)
STUB_NUMBER(Mins, "min", x < y ? x : y)

template <class T> void Duplicate(LocalTensor<T> dst, T value, int count, STUB_LINE) {
  const uint64_t n = static_cast<uint64_t>(count);
  told<T, T>(line, "Duplicate", "fill", n, {span_of(dst, n, line), {}, 0});
  for (uint64_t i = 0; i < n; ++i) dst.data(n, line)[i] = value;
}
inline void Sqrt(LocalTensor<float> dst, LocalTensor<float> a, int count, STUB_LINE) {
  const uint64_t n = static_cast<uint64_t>(count);
  told<float, float>(line, "Sqrt", "sqrt", n, {span_of(dst, n, line), {span_of(a, n, line)}, 1});
  for (uint64_t i = 0; i < n; ++i) dst.data(n, line)[i] = std::sqrt(a.data(n, line)[i]);
}
inline void Exp(LocalTensor<float> dst, LocalTensor<float> a, int count, STUB_LINE) {
  const uint64_t n = static_cast<uint64_t>(count);
  told<float, float>(line, "Exp", "exp", n, {span_of(dst, n, line), {span_of(a, n, line)}, 1});
  for (uint64_t i = 0; i < n; ++i) dst.data(n, line)[i] = stub_exp(a.data(n, line)[i]);
}
inline void CreateVecIndex(LocalTensor<float> dst, float first, int count, STUB_LINE) {
  const uint64_t n = static_cast<uint64_t>(count);
  told<float, float>(line, "CreateVecIndex", "iota", n, {span_of(dst, n, line), {}, 0});
  for (uint64_t i = 0; i < n; ++i) dst.data(n, line)[i] = first + static_cast<float>(i);
}
inline void Abs(LocalTensor<float> dst, LocalTensor<float> a, int count, STUB_LINE) {
  const uint64_t n = static_cast<uint64_t>(count);
  told<float, float>(line, "Abs", "abs", n, {span_of(dst, n, line), {span_of(a, n, line)}, 1});
  for (uint64_t i = 0; i < n; ++i) dst.data(n, line)[i] = std::fabs(a.data(n, line)[i]);
}
template <class To, class From>
void Cast(LocalTensor<To> dst, LocalTensor<From> a, RoundMode mode, uint32_t count, STUB_LINE) {
  if ((mode == RoundMode::CAST_NONE) != (sizeof(To) > sizeof(From))) stub::complain(line, "a cast of this mode");
  told<To, From>(line, "Cast", "cast", count, {span_of(dst, count, line), {span_of(a, count, line)}, 1});
  for (uint32_t i = 0; i < count; ++i)
    dst.data(count, line)[i] = static_cast<To>(static_cast<float>(a.data(count, line)[i]));
}

struct BrcbRepeatParams {
  uint32_t block, repeat;
  BrcbRepeatParams(uint16_t dstBlk, uint16_t dstRep) : block(dstBlk), repeat(dstRep) {}
};
// Eight elements a repeat, each into a block of eight.
inline void Brcb(LocalTensor<float> dst, LocalTensor<float> a, uint8_t repeats, const BrcbRepeatParams& form,
                 STUB_LINE) {
  const uint32_t n = repeats * 8u;
  const uint64_t last = uint64_t{repeats - 1u} * form.repeat + 7 * form.block;
  told<float, float>(line, "Brcb", "broadcast_row", n, {span_of(dst, (last + 1) * 8, line), {span_of(a, n, line)}, 1});
  for (uint32_t i = 0; i < n * 8; ++i)
    *dst[(i / 64 * form.repeat + i / 8 % 8 * form.block) * 8 + i % 8].data(1, line) = a.data(n, line)[i / 8];
}

inline bool holds(CMPMODE mode, float x, float y) {
  switch (mode) {
    case CMPMODE::LT: return x < y;
    case CMPMODE::LE: return x <= y;
    case CMPMODE::GT: return x > y;
    case CMPMODE::GE: return x >= y;
    case CMPMODE::EQ: return x == y;
    default: return x != y;
  }
}
inline void CompareScalar(LocalTensor<uint8_t> dst, LocalTensor<float> a, float b, CMPMODE mode, uint32_t count,
                          STUB_LINE) {
  if (count % 64 != 0) stub::complain(line, "CompareScalar of " + std::to_string(count) + " elements");
  told<uint8_t, float>(line, "CompareScalar", "compare", count,
                       {span_of(dst, count / 8, line), {span_of(a, count, line)}, 1});
  std::memset(dst.data(count / 8, line), 0, count / 8);
  for (uint32_t i = 0; i < count; ++i)
    if (holds(mode, a.data(count, line)[i], b))
      dst.data(count / 8, line)[i / 8] = static_cast<uint8_t>(dst.data(count / 8, line)[i / 8] | 1u << i % 8);
}
inline void Select(LocalTensor<float> dst, LocalTensor<uint8_t> mask, LocalTensor<float> a, float b, SELMODE,
                   uint32_t count, STUB_LINE) {
  told<float, float>(line, "Select", "select", count,
                     {span_of(dst, count, line), {span_of(mask, (count + 7) / 8, line), span_of(a, count, line)}, 2});
  for (uint32_t i = 0; i < count; ++i)
    dst.data(count, line)[i] = (mask.data(i / 8 + 1, line)[i / 8] >> i % 8 & 1) != 0 ? a.data(count, line)[i] : b;
}

// In the order of the machine, which is halves; the documentation says neighbours first.
template <class F> float whole_repeat(LocalTensor<float> a, uint32_t mask, float neutral, F&& f, uint32_t line) {
  float lanes[64];
  for (uint32_t i = 0; i < 64; ++i) lanes[i] = i < mask ? a.data(mask, line)[i] : neutral;
  for (uint32_t half = 32; half > 0; half /= 2)
    for (uint32_t i = 0; i < half; ++i) lanes[i] = f(lanes[i], lanes[i + half]);
  return lanes[0];
}
#define STUB_WHOLE(Name, op, neutral, expression, ...)                                                             \
  inline void Name(LocalTensor<float> dst, LocalTensor<float> a, int mask, int repeats, int, int, int __VA_ARGS__, \
                   STUB_LINE) {                                                                                    \
    if (repeats != 1) stub::complain(line, "one repeat at a time is known here");                                  \
    stub::aligned(dst.address, 4, line);                                                                           \
    const auto lanes = static_cast<uint32_t>(mask);                                                                \
    told<float, float>(line, #Name, op, lanes, {dst.span(1), {span_of(a, lanes, line)}, 1});                       \
    *dst.data(1, line) = whole_repeat(                                                                             \
        a, lanes, neutral, [](float x, float y) { return expression; }, line);                                     \
  }
STUB_WHOLE(WholeReduceSum, "reduce_sum", 0.0f, x + y, )
STUB_WHOLE(WholeReduceMax, "reduce_max", -INFINITY, x > y ? x : y, , ReduceOrder)
STUB_WHOLE(WholeReduceMin, "reduce_min", INFINITY, x < y ? x : y, , ReduceOrder)

inline void ReduceSum(LocalTensor<float> dst, LocalTensor<float> a, LocalTensor<float> work, int count, STUB_LINE) {
  const auto n = static_cast<uint32_t>(count);
  told<float, float>(line, "ReduceSum", "reduce_sum", n,
                     {dst.span(1), {span_of(a, n, line), span_of(work, 64, line)}, 2});
  float sum = 0;
  for (uint32_t first = 0; first < n; first += 64)
    sum += whole_repeat(
        a[first], n - first < 64 ? n - first : 64, 0.0f, [](float x, float y) { return x + y; }, line);
  *dst.data(1, line) = sum;
}

}  // namespace AscendC
