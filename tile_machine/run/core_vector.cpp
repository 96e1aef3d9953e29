// The vector unit: arithmetic, comparisons and reductions.
#include <algorithm>

#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/run/machine_core.hpp"

namespace inlay::npu {

namespace {

constexpr std::initializer_list<VectorOp> arithmetic = {VectorOp::add, VectorOp::sub, VectorOp::mul,
                                                        VectorOp::div, VectorOp::max, VectorOp::min};
constexpr std::initializer_list<VectorOp> arithmetic_and_bits = {
    VectorOp::add,     VectorOp::sub,    VectorOp::mul,     VectorOp::div,        VectorOp::max,        VectorOp::min,
    VectorOp::bit_and, VectorOp::bit_or, VectorOp::bit_xor, VectorOp::shift_left, VectorOp::shift_right};

}  // namespace

// Operands of one shape without gaps are one row of lanes after another, whatever their rows. All others are worked
// through row by row: the last lanes of a row stay empty. A sort has a row at a time, and passes over it once for each
// doubling of its length; a transposition has blocks, and no shape of its own; the price of `grouped` has its
// broadcast.
void MachineCore::count_rows(Work& work, const Operands& o) {
  const auto each = [&](auto&& visit) {
    for (std::size_t i = 0; i < o.targets; ++i) visit(o.target[i]);
    for (std::size_t i = 0; i < o.sources; ++i) visit(o.source[i]);
  };
  const Tensor* widest = &o.dst();
  each([&](const Tensor& tensor) { widest = tensor.elements() > widest->elements() ? &tensor : widest; });
  bool flat = work.op != VectorOp::sort;
  each([&](const Tensor& tensor) {
    const bool alike = tensor.shape == widest->shape || work.op == VectorOp::transpose;
    flat = flat && alike && tensor.region().runs <= 1;
  });
  for (std::size_t i = 0; i < o.sources; ++i)
    work.column = work.column || (o.source[i].columns() == 1 && widest->columns() > 1 && work.op != VectorOp::grouped);
  const auto passes = static_cast<index>(work.elements) / std::max<index>(1, widest->elements());
  work.rows = flat ? 1 : static_cast<std::uint32_t>(std::max<index>(1, widest->rows() * passes));
}

MachineCore::Operands MachineCore::operands(const char* verb, VectorOp op, std::initializer_list<const Tensor*> targets,
                                            std::initializer_list<const Tensor*> sources, Site site) {
  Operands result;
  if (stopped() || !runs(Pipe::vector)) return result;
  if (!device().vector.cost[static_cast<std::size_t>(op)].available) {
    illegal(verb,
            device().name + " has no vector operation " + std::string(name(op)) + ": its description gives it no price",
            site);
    return result;
  }
  const auto in_reach = [&](const Tensor& tensor) {
    if (!usable(verb, {&tensor}, site)) return false;
    if (device().same_memory(tensor.space, Space::vector))
      return aligned_rows(verb, tensor, device().vector.align, "vector operands", site);
    illegal(verb, describe(tensor) + " is not in the vector unit's memory", site);
    return false;
  };
  for (const Tensor* each : targets)
    if (!in_reach(result.target[result.targets++] = target(*each, verb, site))) return result;
  for (const Tensor* each : sources)
    if (!in_reach(result.source[result.sources++] = resolve(*each))) return result;
  result.ok = takes_types(verb, op, result, site);
  return result;
}

// Elements of half a byte are packed and unpacked, no more; those of eight bytes are the scalar unit's.
bool MachineCore::takes_types(const char* verb, VectorOp op, const Operands& o, Site site) {
  const bool bitwise = op >= VectorOp::bit_and && op <= VectorOp::shift_right;
  const auto refuse = [&](const Tensor& tensor, const char* why) {
    illegal(verb, why + describe(tensor), site);
    return false;
  };
  for (std::size_t i = 0; i < o.targets + o.sources; ++i) {
    const Tensor& tensor = i < o.targets ? o.target[i] : o.source[i - o.targets];
    const int width = bits(tensor.dtype);
    if (width == 64 || (width == 4 && op != VectorOp::pack4 && op != VectorOp::unpack4))
      return refuse(tensor, "the vector unit does not compute with ");
    if (bitwise && tensor.dtype != DType::i32 && tensor.dtype != DType::i8 && tensor.dtype != DType::u8)
      return refuse(tensor, "it takes i32, i8 or u8, not ");
    if (bitwise && tensor.dtype != o.dst().dtype) return refuse(tensor, "all operands must have one type, not also ");
  }
  return true;
}

void MachineCore::enqueue_vector(const char* verb, VectorOp op, const Operands& o, index count,
                                 std::function<void()> body, Site site) {
  Entry work_entry = entry(Event::work, Pipe::vector, verb, site);
  work_entry.work.unit = Unit::vector;
  work_entry.work.op = op;
  work_entry.work.in = o.sources == 0 ? o.dst().dtype : o.source[0].dtype;
  work_entry.work.out = o.dst().dtype;
  work_entry.work.elements = static_cast<std::uint64_t>(count);
  count_rows(work_entry.work, o);
  std::vector<Footprint> footprints = no_footprints();
  for (std::size_t i = 0; i < o.sources; ++i) footprints.push_back(footprint({o.source[i]}));
  for (std::size_t i = 0; i < o.targets; ++i) footprints.push_back(footprint({o.target[i], true}));
  enqueue(work_entry, std::move(footprints), std::move(body));
}

void MachineCore::misfit(const char* verb, const Tensor& dst, const Tensor& operand, Site site) {
  illegal(verb, "the shapes of " + describe(operand) + " and " + describe(dst) + " do not fit", site);
}

bool MachineCore::takes(const char* verb, VectorOp op, std::initializer_list<VectorOp> known, Site site) {
  if (std::find(known.begin(), known.end(), op) != known.end()) return true;
  std::string names;
  for (VectorOp each : known) names += (names.empty() ? "" : ", ") + std::string(name(each));
  illegal(verb, "it takes " + names + ", not " + std::string(name(op)), site);
  return false;
}

void MachineCore::vbinary(VectorOp op, const Tensor& destination, const Tensor& a, const Tensor& b, Site site) {
  if (!takes("vbinary", op, arithmetic_and_bits, site)) return;
  const Operands o = operands("vbinary", op, {&destination}, {&a, &b}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst().shape) return misfit("vbinary", o.dst(), a, site);
  if (!fits(o.source[1], o.dst())) return misfit("vbinary", o.dst(), b, site);
  const auto body = [op, to = tile(o.dst()), x = tile(o.source[0]), y = tile(o.source[1])] {
    tiles::binary(op, to, x, y);
  };
  vector_op("vbinary", op, o, o.dst().elements(), body, site);
}

void MachineCore::vscalar(VectorOp op, const Tensor& destination, const Tensor& a, Scalar b, Site site) {
  if (!takes("vscalar", op, arithmetic_and_bits, site)) return;
  const Operands o = operands("vscalar", op, {&destination}, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst().shape) return misfit("vscalar", o.dst(), a, site);
  if (op >= VectorOp::bit_and && !b.whole) return illegal("vscalar", "bits need a whole number", site);
  const auto body = [op, to = tile(o.dst()), x = tile(o.source[0]), b] { tiles::scalar(op, to, x, b); };
  vector_op("vscalar", op, o, o.dst().elements(), body, site);
}

void MachineCore::vgrouped(VectorOp op, const Tensor& destination, const Tensor& a, const Tensor& b, index group,
                           Site site) {
  if (!takes("vgrouped", op, arithmetic, site)) return;
  const Operands o = operands("vgrouped", VectorOp::grouped, {&destination}, {&a, &b}, site);
  if (!o.ok) return;
  if (group < 1) return illegal("vgrouped", "group is " + std::to_string(group) + "; it must be 1 or more", site);
  if (o.source[0].shape != o.dst().shape) return misfit("vgrouped", o.dst(), a, site);
  const Tensor& of_groups = o.source[1];
  if (of_groups.columns() != ceil_div(o.dst().columns(), group) ||
      (of_groups.rows() != 1 && of_groups.rows() != o.dst().rows()))
    return misfit("vgrouped", o.dst(), b, site);
  const auto body = [op, to = tile(o.dst()), x = tile(o.source[0]), y = tile(of_groups), group] {
    tiles::grouped(op, to, x, y, group);
  };
  vector_op("vgrouped", VectorOp::grouped, o, o.dst().elements(), body, site);
}

void MachineCore::vunary(VectorOp op, const Tensor& destination, const Tensor& a, Site site) {
  if (!takes("vunary", op,
             {VectorOp::exp, VectorOp::log, VectorOp::sqrt, VectorOp::rsqrt, VectorOp::recip, VectorOp::tanh,
              VectorOp::erf, VectorOp::abs},
             site))
    return;
  const Operands o = operands("vunary", op, {&destination}, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst().shape) return misfit("vunary", o.dst(), a, site);
  const auto body = [op, to = tile(o.dst()), x = tile(o.source[0])] { tiles::unary(op, to, x); };
  vector_op("vunary", op, o, o.dst().elements(), body, site);
}

void MachineCore::vcompare(Compare how, const Tensor& mask, const Tensor& a, const Tensor& b, Site site) {
  const Operands o = operands("vcompare", VectorOp::compare, {&mask}, {&a, &b}, site);
  if (!o.ok) return;
  for (std::size_t i = 0; i < 2; ++i)
    if (!fits(o.source[i], o.dst())) return misfit("vcompare", o.dst(), o.source[i], site);
  const auto body = [how, to = tile(o.dst()), x = tile(o.source[0]), y = tile(o.source[1])] {
    tiles::compare(how, to, x, y);
  };
  vector_op("vcompare", VectorOp::compare, o, o.dst().elements(), body, site);
}

void MachineCore::vcompare(Compare how, const Tensor& mask, const Tensor& a, Scalar b, Site site) {
  const Operands o = operands("vcompare", VectorOp::compare, {&mask}, {&a}, site);
  if (!o.ok) return;
  if (!fits(o.source[0], o.dst())) return misfit("vcompare", o.dst(), a, site);
  const auto body = [how, to = tile(o.dst()), x = tile(o.source[0]), b] { tiles::compare(how, to, x, b); };
  vector_op("vcompare", VectorOp::compare, o, o.dst().elements(), body, site);
}

void MachineCore::vselect(const Tensor& destination, const Tensor& mask, const Tensor& yes, const Tensor& no,
                          Site site) {
  const Operands o = operands("vselect", VectorOp::select, {&destination}, {&mask, &yes, &no}, site);
  if (!o.ok) return;
  for (const Tensor& source : o.source)
    if (!fits(source, o.dst())) return misfit("vselect", o.dst(), source, site);
  const auto body = [to = tile(o.dst()), m = tile(o.source[0]), x = tile(o.source[1]), y = tile(o.source[2])] {
    tiles::select(to, m, x, y);
  };
  vector_op("vselect", VectorOp::select, o, o.dst().elements(), body, site);
}

void MachineCore::vreduce(VectorOp op, const Tensor& destination, const Tensor& a, Site site) {
  if (!takes("vreduce", op, {VectorOp::reduce_sum, VectorOp::reduce_max, VectorOp::reduce_min}, site)) return;
  const Operands o = operands("vreduce", op, {&destination}, {&a}, site);
  if (!o.ok) return;
  if (o.dst().columns() != 1 || o.dst().rows() != o.source[0].rows()) return misfit("vreduce", o.dst(), a, site);
  const std::uint32_t lanes = std::max<std::uint32_t>(1, device().vector.bytes / sizeof(float));
  const auto body = [op, to = tile(o.dst()), x = tile(o.source[0]), lanes] { tiles::reduce(op, to, x, lanes); };
  vector_op("vreduce", op, o, o.source[0].elements(), body, site);
}

void MachineCore::vreduce_columns(VectorOp op, const Tensor& destination, const Tensor& a, Site site) {
  if (!takes("vreduce_columns", op, {VectorOp::column_sum, VectorOp::column_max}, site)) return;
  const Operands o = operands("vreduce_columns", op, {&destination}, {&a}, site);
  if (!o.ok) return;
  if (o.dst().rows() != 1 || o.dst().columns() != o.source[0].columns())
    return misfit("vreduce_columns", o.dst(), a, site);
  const auto body = [op, to = tile(o.dst()), x = tile(o.source[0])] { tiles::reduce_columns(op, to, x); };
  vector_op("vreduce_columns", op, o, o.source[0].elements(), body, site);
}

bool MachineCore::orders(const char* verb, const Tensor& a, const Tensor& columns, Site site) {
  if (a.dtype == DType::i32)
    illegal(verb, "it orders what f32 holds, not " + describe(a), site);
  else if (columns.dtype != DType::i32)
    illegal(verb, "columns are i32, not " + describe(columns), site);
  else
    return true;
  return false;
}

void MachineCore::vargmax(const Tensor& value, const Tensor& column, const Tensor& a, Site site) {
  const Operands o = operands("vargmax", VectorOp::argmax, {&value, &column}, {&a}, site);
  if (!o.ok) return;
  const Tensor &x = o.source[0], &index_of = o.target[1];
  for (const Tensor& each : o.target)
    if (each.shape != Shape{x.rows(), 1} || x.columns() < 1) return misfit("vargmax", each, a, site);
  if (!orders("vargmax", x, index_of, site)) return;
  const auto body = [values = tile(o.dst()), columns = tile(index_of), from = tile(x)] {
    tiles::largest(values, columns, from);
  };
  vector_op("vargmax", VectorOp::argmax, o, x.elements(), body, site);
}

void MachineCore::vtopk(const Tensor& values, const Tensor& columns, const Tensor& a, Site site) {
  const Operands o = operands("vtopk", VectorOp::sort, {&values, &columns}, {&a}, site);
  if (!o.ok) return;
  const Tensor &x = o.source[0], &order = o.target[1];
  const bool right = o.dst().rows() == x.rows() && o.dst().columns() <= x.columns() && order.shape == o.dst().shape;
  if (!right) return misfit("vtopk", o.dst().shape == order.shape ? o.dst() : order, a, site);
  if (!orders("vtopk", x, order, site)) return;
  index doublings = 1;  // a sort passes over its row once for each
  while (index{1} << doublings < x.columns()) ++doublings;
  const auto body = [to = tile(o.dst()), places = tile(order), from = tile(x)] { tiles::largest(to, places, from); };
  vector_op("vtopk", VectorOp::sort, o, x.elements() * doublings, body, site);
}

}  // namespace inlay::npu
