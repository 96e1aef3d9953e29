#include "npu_kernels/rows/half_bytes.hpp"

#include <utility>

#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu::rows {

namespace {

index bytes_of(Span span) { return ceil_div(span.first % 2 + span.count, 2); }
NdTensor bytes_of(const NdTensor& all, Span span) { return all.slice(0, span.first / 2, bytes_of(span)); }
Shape bytes_of(index longest) { return {1, longest / 2 + 1}; }
Shape codes_of(index longest) { return {1, 2 * (longest / 2 + 1)}; }

Tensor part(const Tensor& row, index count) { return row.slice(0, 1, 0, count); }

// A row of bytes as the codes in them.
Tensor as_codes(Tensor bytes, DType dtype) {
  bytes.dtype = dtype;
  bytes.shape.columns *= 2;
  bytes.pitch *= 2;
  return bytes;
}

}  // namespace

HalfByteInput::HalfByteInput(Core& core, std::string_view name, const TileIterator& walk, const HalfBytes& codes,
                             index longest, SpanOf span)
    : core_(core),
      walk_(walk),
      dtype_(codes.dtype),
      span_(span),
      input_(
          core, name, walk, DType::u8, bytes_of(longest),
          [span](const Window& window) {
            return Shape{1, bytes_of(span(window))};
          },
          [span, bytes = codes.bytes](Core& loader, const Tensor& slot, const Window& window) {
            loader.copy(by_axes(slot).at(0, 0), bytes_of(bytes, span(window)));
          }),
      codes_(core.alloc(name, Space::vector, codes_of(longest), DType::f32)),
      moved_(core.alloc(name, Space::vector, {1, longest}, DType::f32)),
      next_(core.alloc("places", Space::vector, {1, longest}, DType::i32)) {
  core.viota(next_, {.first = 1});
}

Tensor HalfByteInput::wide() {
  const Span span = span_(walk_.at(step_++));
  const Tensor all = part(codes_, 2 * bytes_of(span));
  core_.vcast(all, as_codes(input_.next(), dtype_));
  input_.done();
  if (span.first % 2 == 0) return part(all, span.count);
  core_.vshuffle(part(moved_, span.count), all, part(next_, span.count));
  return part(moved_, span.count);
}

HalfByteOutput::HalfByteOutput(Core& core, std::string_view name, const HalfBytes& codes, index longest)
    : core_(core),
      codes_(codes),
      old_(core.ring(name, Space::vector, bytes_of(longest), DType::u8, {1, Pipe::load_vector, Pipe::vector})),
      new_(core.ring(name, Space::vector, bytes_of(longest), DType::u8, {1, Pipe::vector, Pipe::store})),
      place_(core.alloc("places", Space::vector, codes_of(longest), DType::f32)),
      from_(core.alloc("places of values", Space::vector, codes_of(longest), DType::i32)),
      kept_(core.alloc("codes", Space::vector, codes_of(longest), DType::f32)),
      moved_(core.alloc("values", Space::vector, codes_of(longest), DType::f32)),
      inside_(core.alloc("inside", Space::vector, codes_of(longest), DType::f32)),
      below_(core.alloc("below", Space::vector, codes_of(longest), DType::f32)) {
  core.viota(place_, {});
}

void HalfByteOutput::store(index first, const Tensor& values) {
  const Span span{first, values.columns()};
  if (span.count == 0) return;
  const index bytes = bytes_of(span), all = 2 * bytes, off = first % 2;
  core_.copy(by_axes(part(old_.acquire(), bytes)).at(0, 0), bytes_of(codes_.bytes, span));
  old_.commit();
  core_.vcast(part(kept_, all), as_codes(part(old_.wait(), bytes), codes_.dtype));
  old_.release();

  core_.viota(part(from_, all), {.first = static_cast<double>(-off)});  // outside of the values: 0
  core_.vshuffle(part(moved_, all), values, part(from_, all));
  core_.vcompare(Compare::greater_equal, part(inside_, all), part(place_, all), static_cast<float>(off));
  core_.vcompare(Compare::less, part(below_, all), part(place_, all), static_cast<float>(off + span.count));
  core_.vbinary(VectorOp::mul, part(inside_, all), part(inside_, all), part(below_, all));
  core_.vselect(part(kept_, all), part(inside_, all), part(moved_, all), part(kept_, all));

  core_.vcast(as_codes(part(new_.acquire(), bytes), codes_.dtype), part(kept_, all));
  new_.commit();
  core_.copy(bytes_of(codes_.bytes, span), by_axes(part(new_.wait(), bytes)).at(0, 0));
  new_.release();
  core_.set(Pipe::store, Pipe::load_vector, 0);  // the next row may begin in this one's last byte
  core_.wait(Pipe::store, Pipe::load_vector, 0);
}

}  // namespace inlay::npu::rows
