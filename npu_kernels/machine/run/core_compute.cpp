// Products, vector operations and the scalar read.
#include <algorithm>

#include "npu_kernels/machine/run/core.hpp"

namespace inlay::npu {

namespace {

// One row or one column may serve all rows and columns of the result.
bool fits(const Tensor& operand, const Tensor& dst) {
  return (operand.rows() == dst.rows() || operand.rows() == 1) &&
         (operand.columns() == dst.columns() || operand.columns() == 1);
}

index elements(const Tensor& tensor) { return tensor.rows() * tensor.columns(); }

constexpr std::initializer_list<VectorOp> arithmetic = {VectorOp::add, VectorOp::sub, VectorOp::mul,
                                                        VectorOp::div, VectorOp::max, VectorOp::min};

// Operands of one shape without gaps are one row of lanes after another, whatever their rows. All others are worked
// through row by row: the last lanes of a row stay empty.
void count_rows(Work& work, const Tensor& dst, std::initializer_list<const Tensor*> sources) {
  const Tensor* widest = &dst;
  for (const Tensor* source : sources)
    if (elements(*source) > elements(*widest)) widest = source;
  const auto gapless = [&](const Tensor& tensor) { return tensor.shape == widest->shape && tensor.region().runs <= 1; };
  bool flat = gapless(dst);
  for (const Tensor* source : sources) {
    flat = flat && gapless(*source);
    work.column = work.column || (source->columns() == 1 && widest->columns() > 1);
  }
  work.rows = flat ? 1 : static_cast<std::uint32_t>(std::max<index>(1, widest->rows()));
}

}  // namespace

void Core::mma(const Tensor& accumulator, const Tensor& left, const Tensor& right, bool init, Site site) {
  const Tensor acc = target(accumulator, "mma", site), a = resolve(left), b = resolve(right);
  if (!usable("mma", {&acc, &a, &b}, site)) return;
  if (acc.space != Space::accumulator || a.space != Space::left || b.space != Space::right)
    return illegal("mma",
                   "it multiplies left by right into an accumulator, not " + describe(a) + " by " + describe(b) +
                       " into " + describe(acc),
                   site);
  if (a.columns() != b.rows() || acc.rows() != a.rows() || acc.columns() != b.columns())
    return illegal("mma", "the shapes of " + describe(a) + ", " + describe(b) + " and " + describe(acc) + " do not fit",
                   site);
  if (a.dtype != b.dtype || device().rate(a.dtype, acc.dtype) == nullptr)
    return illegal("mma",
                   "the matrix unit does not multiply " + describe(a) + " by " + describe(b) + " into " + describe(acc),
                   site);
  if (!checked()) return tiles::multiply_on_host(tile(acc), tile(a), tile(b), init, device().numerics, run_.isa, host_);
  Work work;
  work.unit = Unit::matrix;
  work.in = a.dtype;
  work.out = acc.dtype;
  work.m = static_cast<std::uint32_t>(a.rows());
  work.n = static_cast<std::uint32_t>(b.columns());
  work.k = static_cast<std::uint32_t>(a.columns());
  work.turned = device().turns(b.flipped);
  const auto body = [to = tile(acc), x = tile(a), y = tile(b), init, &numerics = device().numerics] {
    tiles::multiply(to, x, y, init, numerics);
  };
  if (init)
    issue(Pipe::matrix, "mma", site, work, {{a}, {b}, {acc, true}}, body);
  else
    issue(Pipe::matrix, "mma", site, work, {{a}, {b}, {acc}, {acc, true}}, body);
}

void Core::vector_op(const char* verb, VectorOp op, const Tensor& dst, std::initializer_list<const Tensor*> sources,
                     index count, Site site, std::function<void()> body) {
  Entry work_entry = entry(Event::work, Pipe::vector, verb, site);
  work_entry.work.unit = Unit::vector;
  work_entry.work.op = op;
  work_entry.work.in = sources.size() == 0 ? dst.dtype : (*sources.begin())->dtype;
  work_entry.work.out = dst.dtype;
  work_entry.work.elements = static_cast<std::uint64_t>(count);
  count_rows(work_entry.work, dst, sources);
  std::vector<Footprint> footprints;
  for (const Tensor* source : sources) footprints.push_back(footprint({*source}));
  footprints.push_back(footprint({dst, true}));
  enqueue(work_entry, std::move(footprints), std::move(body));
}

// Operands of a vector verb, resolved; ok: they are in the vector's memory and fit.
struct Core::Operands {
  Tensor dst;
  std::array<Tensor, 3> source;
  bool ok = false;
};

Core::Operands Core::operands(const char* verb, VectorOp op, const Tensor& dst,
                              std::initializer_list<const Tensor*> sources, Site site) {
  Operands result;
  if (!device().vector.cost[static_cast<std::size_t>(op)].available) {
    illegal(verb, device().name + " has no vector operation " + std::string(name(op)), site);
    return result;
  }
  result.dst = target(dst, verb, site);
  if (!usable(verb, {&result.dst}, site)) return result;
  std::size_t count = 0;
  for (const Tensor* source : sources) {
    Tensor& operand = result.source[count++] = resolve(*source);
    if (!usable(verb, {&operand}, site)) return result;
  }
  result.ok = device().same_memory(result.dst.space, Space::vector);
  for (std::size_t i = 0; i < count; ++i)
    result.ok = result.ok && device().same_memory(result.source[i].space, Space::vector);
  if (!result.ok) illegal(verb, "an operand is not in the vector unit's memory", site);
  for (std::size_t i = 0; i <= count && result.ok; ++i)
    result.ok =
        aligned_rows(verb, i < count ? result.source[i] : result.dst, device().vector.align, "vector operands", site);
  return result;
}

void Core::misfit(const char* verb, const Tensor& dst, const Tensor& operand, Site site) {
  illegal(verb, "the shapes of " + describe(operand) + " and " + describe(dst) + " do not fit", site);
}

bool Core::takes(const char* verb, VectorOp op, std::initializer_list<VectorOp> known, Site site) {
  std::string names;
  for (VectorOp each : known) {
    if (each == op) return true;
    names += (names.empty() ? "" : ", ") + std::string(name(each));
  }
  illegal(verb, "it takes " + names + ", not " + std::string(name(op)), site);
  return false;
}

void Core::vbinary(VectorOp op, const Tensor& destination, const Tensor& a, const Tensor& b, Site site) {
  if (!takes("vbinary", op, arithmetic, site)) return;
  const Operands o = operands("vbinary", op, destination, {&a, &b}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst.shape) return misfit("vbinary", o.dst, a, site);
  if (!fits(o.source[1], o.dst)) return misfit("vbinary", o.dst, b, site);
  const auto body = [op, to = tile(o.dst), x = tile(o.source[0]), y = tile(o.source[1])] {
    tiles::binary(op, to, x, y);
  };
  if (!checked()) return body();
  vector_op("vbinary", op, o.dst, {&o.source[0], &o.source[1]}, elements(o.dst), site, body);
}

void Core::vscalar(VectorOp op, const Tensor& destination, const Tensor& a, float b, Site site) {
  if (!takes("vscalar", op, arithmetic, site)) return;
  const Operands o = operands("vscalar", op, destination, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst.shape) return misfit("vscalar", o.dst, a, site);
  const auto body = [op, to = tile(o.dst), x = tile(o.source[0]), b] { tiles::scalar(op, to, x, b); };
  if (!checked()) return body();
  vector_op("vscalar", op, o.dst, {&o.source[0]}, elements(o.dst), site, body);
}

void Core::vunary(VectorOp op, const Tensor& destination, const Tensor& a, Site site) {
  if (!takes("vunary", op, {VectorOp::exp, VectorOp::rsqrt, VectorOp::recip}, site)) return;
  const Operands o = operands("vunary", op, destination, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst.shape) return misfit("vunary", o.dst, a, site);
  const auto body = [op, to = tile(o.dst), x = tile(o.source[0])] { tiles::unary(op, to, x); };
  if (!checked()) return body();
  vector_op("vunary", op, o.dst, {&o.source[0]}, elements(o.dst), site, body);
}

void Core::vreduce(VectorOp op, const Tensor& destination, const Tensor& a, Site site) {
  if (!takes("vreduce", op, {VectorOp::reduce_sum, VectorOp::reduce_max}, site)) return;
  const Operands o = operands("vreduce", op, destination, {&a}, site);
  if (!o.ok) return;
  if (o.dst.columns() != 1 || o.dst.rows() != o.source[0].rows()) return misfit("vreduce", o.dst, a, site);
  const std::uint32_t lanes = std::max<std::uint32_t>(1, device().vector.bytes / sizeof(float));
  const auto body = [op, to = tile(o.dst), x = tile(o.source[0]), lanes] { tiles::reduce(op, to, x, lanes); };
  if (!checked()) return body();
  vector_op("vreduce", op, o.dst, {&o.source[0]}, elements(o.source[0]), site, body);
}

void Core::vbroadcast_row(const Tensor& destination, const Tensor& a, Site site) {
  const Operands o = operands("vbroadcast_row", VectorOp::broadcast_row, destination, {&a}, site);
  if (!o.ok) return;
  if (!fits(o.source[0], o.dst)) return misfit("vbroadcast_row", o.dst, a, site);
  const auto body = [to = tile(o.dst), x = tile(o.source[0])] { tiles::broadcast_row(to, x); };
  if (!checked()) return body();
  vector_op("vbroadcast_row", VectorOp::broadcast_row, o.dst, {&o.source[0]}, elements(o.dst), site, body);
}

void Core::vcast(const Tensor& destination, const Tensor& a, Round round, Site site) {
  const Operands o = operands("vcast", VectorOp::cast, destination, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst.shape) return misfit("vcast", o.dst, a, site);
  const auto body = [to = tile(o.dst), x = tile(o.source[0]), round] { tiles::cast(to, x, round); };
  if (!checked()) return body();
  vector_op("vcast", VectorOp::cast, o.dst, {&o.source[0]}, elements(o.dst), site, body);
}

void Core::vselect(const Tensor& destination, const Tensor& mask, const Tensor& yes, const Tensor& no, Site site) {
  const Operands o = operands("vselect", VectorOp::select, destination, {&mask, &yes, &no}, site);
  if (!o.ok) return;
  for (const Tensor& source : o.source)
    if (!fits(source, o.dst)) return misfit("vselect", o.dst, source, site);
  const auto body = [to = tile(o.dst), m = tile(o.source[0]), x = tile(o.source[1]), y = tile(o.source[2])] {
    tiles::select(to, m, x, y);
  };
  if (!checked()) return body();
  vector_op("vselect", VectorOp::select, o.dst, {&o.source[0], &o.source[1], &o.source[2]}, elements(o.dst), site,
            body);
}

void Core::unpack4(const Tensor& destination, const Tensor& a, Site site) {
  const Operands o = operands("unpack4", VectorOp::unpack4, destination, {&a}, site);
  if (!o.ok) return;
  if (o.source[0].shape != o.dst.shape) return misfit("unpack4", o.dst, a, site);
  if (bits(o.source[0].dtype) != 4) return illegal("unpack4", "it takes i4 or u4, not " + describe(a), site);
  const auto body = [to = tile(o.dst), x = tile(o.source[0])] { tiles::unpack4(to, x); };
  if (!checked()) return body();
  vector_op("unpack4", VectorOp::unpack4, o.dst, {&o.source[0]}, elements(o.dst), site, body);
}

void Core::vshuffle(const Tensor& destination, const Tensor& a, const Tensor& columns, Site site) {
  const Operands o = operands("vshuffle", VectorOp::shuffle, destination, {&a, &columns}, site);
  if (!o.ok) return;
  if (o.source[0].rows() != o.dst.rows()) return misfit("vshuffle", o.dst, a, site);
  const Tensor& order = o.source[1];
  if (order.rows() != 1 || order.columns() != o.dst.columns() || order.dtype != DType::i32)
    return misfit("vshuffle", o.dst, columns, site);
  const auto body = [to = tile(o.dst), x = tile(o.source[0]), y = tile(order)] { tiles::shuffle(to, x, y); };
  if (!checked()) return body();
  vector_op("vshuffle", VectorOp::shuffle, o.dst, {&o.source[0], &order}, elements(o.dst), site, body);
}

void Core::vfill(const Tensor& destination, float value, Site site) {
  const Operands o = operands("vfill", VectorOp::fill, destination, {}, site);
  if (!o.ok) return;
  const auto body = [to = tile(o.dst), value] { tiles::fill(to, value); };
  if (!checked()) return body();
  vector_op("vfill", VectorOp::fill, o.dst, {}, elements(o.dst), site, body);
}

double Core::scalar_read(const Tensor& tensor, index row, index column, Site site) {
  const Tensor from = resolve(tensor).slice(row, 1, column, 1);
  if (!usable("scalar_read", {&from}, site)) return 0;
  double value = 0;
  Work work;
  work.unit = Unit::scalar;
  work.in = work.out = from.dtype;
  work.elements = 1;
  issue(Pipe::scalar, "scalar_read", site, work, {{from}},
        [&value, from = tile(from)] { value = from.data == nullptr ? 0 : tiles::read(from, 0, 0); });
  return value;
}

}  // namespace inlay::npu
