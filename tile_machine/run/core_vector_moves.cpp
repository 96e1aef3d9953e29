// The vector unit: casts, broadcasts, permutations and layouts.
#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

namespace {

bool plain(const Tensor& tensor) { return tensor.layout == Layout::nd && !tensor.flipped; }

}  // namespace

void MachineCore::vbroadcast_row(const Tensor& destination, const Tensor& a, Site site) {
  const Operands o = operands("vbroadcast_row", VectorOp::broadcast_row, {&destination}, {&a}, site);
  if (!o.ok) return;
  if (!fits(o.source[0], o.dst())) return misfit("vbroadcast_row", o.dst(), a, site);
  const auto body = [to = tile(o.dst()), from = tile(o.source[0])] { tiles::broadcast_row(to, from); };
  vector_op("vbroadcast_row", VectorOp::broadcast_row, o, o.dst().elements(), body, site);
}

void MachineCore::vcast(const Tensor& destination, const Tensor& a, Round round, Site site) {
  const VectorOp op = bits(destination.dtype) == 4 ? VectorOp::pack4
                      : bits(a.dtype) == 4         ? VectorOp::unpack4
                                                   : VectorOp::cast;
  const Operands o = operands("vcast", op, {&destination}, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst().shape) return misfit("vcast", o.dst(), a, site);
  const auto body = [to = tile(o.dst()), x = tile(o.source[0]), round] { tiles::cast(to, x, round); };
  vector_op("vcast", op, o, o.dst().elements(), body, site);
}

void MachineCore::unpack4(const Tensor& destination, const Tensor& a, Site site) {
  const Operands o = operands("unpack4", VectorOp::unpack4, {&destination}, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst().shape) return misfit("unpack4", o.dst(), a, site);
  if (bits(o.source[0].dtype) != 4) return illegal("unpack4", "it takes i4 or u4, not " + describe(a), site);
  const auto body = [to = tile(o.dst()), x = tile(o.source[0])] { tiles::cast(to, x, Round::nearest); };
  vector_op("unpack4", VectorOp::unpack4, o, o.dst().elements(), body, site);
}

void MachineCore::vshuffle(const Tensor& destination, const Tensor& a, const Tensor& columns, Site site) {
  const Operands o = operands("vshuffle", VectorOp::shuffle, {&destination}, {&a, &columns}, site);
  if (!o.ok) return;
  const Tensor& order = o.source[1];
  if (o.source[0].rows() != o.dst().rows()) return misfit("vshuffle", o.dst(), a, site);
  if (order.shape != Shape{1, o.dst().columns()}) return misfit("vshuffle", o.dst(), columns, site);
  if (order.dtype != DType::i32) return illegal("vshuffle", "columns are i32, not " + describe(order), site);
  const auto body = [to = tile(o.dst()), x = tile(o.source[0]), y = tile(order)] { tiles::shuffle(to, x, y); };
  vector_op("vshuffle", VectorOp::shuffle, o, o.dst().elements(), body, site);
}

void MachineCore::vgather(const Tensor& destination, const Tensor& a, const Tensor& columns, Site site) {
  const Operands o = operands("vgather", VectorOp::gather, {&destination}, {&a, &columns}, site);
  if (!o.ok) return;
  const Tensor &x = o.source[0], &which = o.source[1];
  if (x.rows() != 1 && x.rows() != o.dst().rows()) return misfit("vgather", o.dst(), a, site);
  if (which.columns() != o.dst().columns() || (which.rows() != 1 && which.rows() != o.dst().rows()))
    return misfit("vgather", o.dst(), columns, site);
  if (which.dtype != DType::i32) return illegal("vgather", "columns are i32, not " + describe(which), site);
  const auto body = [to = tile(o.dst()), from = tile(x), at = tile(which)] { tiles::gather(to, from, at); };
  vector_op("vgather", VectorOp::gather, o, o.dst().elements(), body, site);
}

void MachineCore::viota(const Tensor& destination, Iota sequence, Site site) {
  const Operands o = operands("viota", VectorOp::iota, {&destination}, {}, site);
  if (!o.ok) return;
  const auto body = [to = tile(o.dst()), sequence] { tiles::iota(to, sequence); };
  vector_op("viota", VectorOp::iota, o, o.dst().elements(), body, site);
}

void MachineCore::vfill(const Tensor& destination, float value, Site site) {
  const Operands o = operands("vfill", VectorOp::fill, {&destination}, {}, site);
  if (!o.ok) return;
  const auto body = [to = tile(o.dst()), value] { tiles::fill(to, value); };
  vector_op("vfill", VectorOp::fill, o, o.dst().elements(), body, site);
}

void MachineCore::vtranspose(const Tensor& destination, const Tensor& a, Site site) {
  const Operands o = operands("vtranspose", VectorOp::transpose, {&destination}, {&a}, site);
  if (!o.ok) return;
  const Tensor turned = o.source[0].transposed();
  if (turned.shape != o.dst().shape) return misfit("vtranspose", o.dst(), a, site);
  if (o.source[0].dtype != o.dst().dtype || !plain(o.dst()) || !plain(o.source[0]))
    return illegal("vtranspose", "it takes one nd tensor into another of its type, not " + describe(a), site);
  const auto body = [to = tile(o.dst()), from = tile(turned)] { tiles::copy(to, from); };
  vector_op("vtranspose", VectorOp::transpose, o, o.dst().elements(), body, site);
}

void MachineCore::relayout(const char* verb, const Tensor& destination, const Tensor& a, Layout to_layout, Site site) {
  const Operands o = operands(verb, VectorOp::pack_nz, {&destination}, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst().shape) return misfit(verb, o.dst(), a, site);
  const bool pack = to_layout == Layout::nz;
  if (o.dst().layout != to_layout || (o.source[0].layout == Layout::nz) == pack || o.source[0].dtype != o.dst().dtype)
    return illegal(verb,
                   std::string("it takes an ") + (pack ? "nd tensor into an nz" : "nz tensor into an nd") +
                       " one of its type, not " + describe(a),
                   site);
  const auto body = [to = tile(o.dst()), from = tile(o.source[0])] { tiles::copy(to, from); };
  vector_op(verb, VectorOp::pack_nz, o, o.dst().elements(), body, site);
}

void MachineCore::vpack_nz(const Tensor& dst, const Tensor& a, Site site) {
  relayout("vpack_nz", dst, a, Layout::nz, site);
}

void MachineCore::vunpack_nz(const Tensor& dst, const Tensor& a, Site site) {
  relayout("vunpack_nz", dst, a, Layout::nd, site);
}

}  // namespace inlay::npu
