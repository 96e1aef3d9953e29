// Matrix products and quantization of ONNX through Inlay's operators.
#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/weights/linear_int8_pack.hpp>

#include "tools/onnx/node.hpp"

namespace inlay::tools {

namespace {

tl::unexpected<Status> no(const std::string& reason) { return failure(StatusCode::unsupported, reason); }

// a [.., m, k] times b [.., k, n] as a list of plain products. A vector is a matrix with one row (a) or
// one column (b), which the result loses again.
struct Products {
  index count = 1, m = 0, k = 0, n = 0;
  std::vector<index> dims;  // of the result
  bool repeats_b = false;   // one b for all products
};

Expected<Products> products(const OnnxTensor& a, const OnnxTensor& b) {
  Products p;
  p.k = a.dims.back();
  p.m = a.rank() > 1 ? a.dims[a.rank() - 2] : 1;
  p.n = b.rank() > 1 ? b.dims.back() : 1;
  const std::vector<index> batch_a(a.dims.begin(), a.dims.begin() + std::max<index>(a.rank() - 2, 0));
  const std::vector<index> batch_b(b.dims.begin(), b.dims.begin() + std::max<index>(b.rank() - 2, 0));
  if (!batch_b.empty() && batch_a != batch_b && !batch_a.empty()) return no("no broadcast between batches of matrices");
  p.dims = batch_a.empty() ? batch_b : batch_a;
  for (index dim : p.dims) p.count *= dim;
  p.repeats_b = batch_b.empty();
  if (batch_a.empty() && !batch_b.empty() && a.rank() > 1) return no("no broadcast between batches of matrices");
  if (a.rank() > 1) p.dims.push_back(p.m);
  if (b.rank() > 1) p.dims.push_back(p.n);
  return p;
}

// b [.., k, n] as rows of weights, [.., n, k].
OnnxTensor weight_rows(const OnnxTensor& b, const Products& p) {
  OnnxTensor flat = b;
  flat.dims = {p.repeats_b ? 1 : p.count, p.k, p.n};
  return transposed(flat, {0, 2, 1});
}

View<2> matrix(OnnxTensor& x, index which, index rows, index columns) {
  View<2> part = x.view<2>({rows, columns});
  part.data = static_cast<unsigned char*>(part.data) + byte_size(x.dtype, which * rows * columns);
  return part;
}

OnnxTensor as_f32(const OnnxNode& node, std::size_t input) { return converted(*node.inputs[input], DType::f32); }

// Packs one weight [n, k]; u8 is shifted by 128, and so is its zero point.
struct Int8Weight {
  OnnxTensor packed, sums, zero;

  Status pack(View<2> rows, const std::optional<OnnxTensor>& zero_point) {
    const auto extents = linear_int8::packed_extents(rows.extents[0], rows.extents[1]);
    packed = OnnxTensor(DType::i8, {extents[0], extents[1], extents[2]});
    sums = OnnxTensor(DType::i32, {rows.extents[0]});
    const double shift = rows.dtype == DType::u8 ? 128 : 0;
    zero = OnnxTensor(DType::i8, {zero_point ? zero_point->size() : 1});
    for (index i = 0; i < zero.size(); ++i) zero.set(i, (zero_point ? zero_point->get(i) : 0) - shift);
    return pack_linear_int8(rows, packed.view<3>(extents), sums.view<1>({rows.extents[0]}));
  }
  LinearInt8<Host> op(ConstView<2> x, View<2> y) {
    const View<3> weight = packed.view<3>({packed.dims[0], packed.dims[1], packed.dims[2]});
    LinearInt8<Host> op{.x = x, .weight = weight, .weight_sum = sums.view<1>({sums.dims[0]}), .y = y};
    op.weight_zero = zero.view<1>({zero.dims[0]});
    return op;
  }
};

// A scale for the whole tensor, for an index of one axis, or for blocks of the last one, as the
// operators' matrix of scales: rows x columns of the tensor and of its scales.
struct Granularity {
  index rows = 1, columns = 1, column_group = 0;
  OnnxTensor scale, zero;  // one for each row (or group of columns)
};

Expected<Granularity> granularity(const OnnxNode& node, const OnnxTensor& x, DType zero_type) {
  const OnnxTensor& scale = *node.inputs[1];
  const OnnxTensor* zero = node.has(2) ? &*node.inputs[2] : nullptr;
  Granularity g;
  const auto spread = [&](index count, auto&& source) {
    g.scale = OnnxTensor(scale.dtype, {count});
    g.zero = OnnxTensor(zero_type, {count});
    for (index i = 0; i < count; ++i) {
      g.scale.set(i, scale.get(source(i)));
      g.zero.set(i, zero ? zero->get(source(i)) : 0);
    }
  };
  if (scale.size() == 1) {
    g.columns = x.size();
    spread(1, [](index) { return 0; });
    return g;
  }
  const index rank = x.rank(), axis = node.axis("axis", 1, rank);
  if (scale.rank() == rank && node.integer("block_size", 0) > 0) {
    if (axis != rank - 1) return no("no blocks along an axis other than the last");
    g.rows = x.extent(0, rank - 1);
    g.columns = x.dims.back();
    g.column_group = node.integer("block_size", 0);
    spread(scale.size(), [](index i) { return i; });
    return g;
  }
  g.rows = x.extent(0, axis + 1);
  g.columns = x.extent(axis + 1, rank);
  spread(g.rows, [&](index row) { return row % x.dims[axis]; });
  return g;
}

View<2> scales_of(OnnxTensor& scale, const Granularity& g) {
  return scale.view<2>({g.rows, g.rows ? scale.size() / g.rows : 0});
}

}  // namespace

Expected<OnnxOutputs> run_matmul(exec::Eager& run, OnnxNode& node) {
  OnnxTensor &a = *node.inputs[0], &b = *node.inputs[1];
  auto p = products(a, b);
  if (!p) return failure(std::move(p.error()));
  if (!floats.contains(a.dtype)) return no("linear multiplies floats; integers have MatMulInteger");
  OnnxTensor rows = weight_rows(b, *p), y(a.dtype, p->dims);
  if (y.size() == 0) return finish(run, {y});  // of which there may be millions of products
  for (index i = 0; i < p->count; ++i)
    run(Linear<Host>{.x = matrix(a, a.rank() > 1 ? i : 0, p->m, p->k),
                     .weight_rows = matrix(rows, p->repeats_b ? 0 : i, p->n, p->k),
                     .y = matrix(y, i, p->m, p->n)});
  return finish(run, {y});
}

Expected<OnnxOutputs> run_matmul_integer(exec::Eager& run, OnnxNode& node) {
  OnnxTensor &a = *node.inputs[0], &b = *node.inputs[1];
  auto p = products(a, b);
  if (!p) return failure(std::move(p.error()));
  OnnxTensor rows = weight_rows(b, *p), y(DType::i32, p->dims);
  if (y.size() == 0) return finish(run, {y});
  for (index i = 0; i < p->count; ++i) {
    Int8Weight weight;
    Status status =
        weight.pack(matrix(rows, p->repeats_b ? 0 : i, p->n, p->k), node.has(3) ? node.inputs[3] : std::nullopt);
    if (!status.ok()) return failure(std::move(status));
    LinearInt8<Host> op = weight.op(matrix(a, a.rank() > 1 ? i : 0, p->m, p->k), matrix(y, i, p->m, p->n));
    if (node.has(2)) op.x_zero = node.inputs[2]->view<1>({node.inputs[2]->size()});
    run(op);
  }
  return finish(run, {y});
}

Expected<OnnxOutputs> run_qlinear_matmul(exec::Eager& run, OnnxNode& node) {
  OnnxTensor &a = *node.inputs[0], &b = *node.inputs[3];
  auto p = products(a, b);
  if (!p) return failure(std::move(p.error()));
  OnnxTensor a_scale = as_f32(node, 1), b_scale = as_f32(node, 4), y_scale = as_f32(node, 6);
  OnnxTensor& y_zero = *node.inputs[7];
  OnnxTensor rows = weight_rows(b, *p), y(y_zero.dtype, p->dims);
  if (y.size() == 0) return finish(run, {y});
  for (index i = 0; i < p->count; ++i) {
    Int8Weight weight;
    Status status = weight.pack(matrix(rows, p->repeats_b ? 0 : i, p->n, p->k), node.inputs[5]);
    if (!status.ok()) return failure(std::move(status));
    LinearInt8<Host> op = weight.op(matrix(a, a.rank() > 1 ? i : 0, p->m, p->k), matrix(y, i, p->m, p->n));
    op.x_scale = a_scale.view<1>({a_scale.size()});
    op.x_zero = node.inputs[2]->view<1>({node.inputs[2]->size()});
    op.weight_scale = b_scale.view<1>({b_scale.size()});
    op.y_scale = y_scale.view<1>({y_scale.size()});
    op.y_zero = y_zero.view<1>({y_zero.size()});
    run(op);
  }
  return finish(run, {y});
}

Expected<OnnxOutputs> run_quantize(exec::Eager& run, OnnxNode& node) {
  OnnxTensor& x = *node.inputs[0];
  DType type = node.has(2) ? node.inputs[2]->dtype : DType::u8;
  if (const auto wanted = node.integer("output_dtype", 0); wanted != 0 && !node.has(2)) {
    if (wanted != onnx_type(DType::u8) && wanted != onnx_type(DType::i8) && wanted != onnx_type(DType::u4) &&
        wanted != onnx_type(DType::i4))
      return no("no type " + onnx_type_name(static_cast<int>(wanted)));
    for (DType each : {DType::u8, DType::i8, DType::u4, DType::i4})
      if (onnx_type(each) == wanted) type = each;
  }
  auto g = granularity(node, x, type);
  if (!g) return failure(std::move(g.error()));
  OnnxTensor y(type, x.dims);
  run(Quantize<Host>{.x = x.view<2>({g->rows, g->columns}),
                     .scale = scales_of(g->scale, *g),
                     .zero = scales_of(g->zero, *g),
                     .y = y.view<2>({g->rows, g->columns}),
                     .column_group = g->column_group});
  return finish(run, {y});
}

Expected<OnnxOutputs> run_dequantize(exec::Eager& run, OnnxNode& node) {
  OnnxTensor& x = *node.inputs[0];
  auto g = granularity(node, x, x.dtype);
  if (!g) return failure(std::move(g.error()));
  OnnxTensor y(node.inputs[1]->dtype, x.dims);
  run(Dequantize<Host>{.x = x.view<2>({g->rows, g->columns}),
                       .scale = scales_of(g->scale, *g),
                       .zero = scales_of(g->zero, *g),
                       .y = y.view<2>({g->rows, g->columns}),
                       .column_group = g->column_group});
  return finish(run, {y});
}

}  // namespace inlay::tools
