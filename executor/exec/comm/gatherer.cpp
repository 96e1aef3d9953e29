#include <inlay/exec/comm/gatherer.hpp>

#include <cstring>
#include <string>

namespace inlay::exec {

namespace {

// Row t of the columns of a view that begin at `first`.
template <class V> auto* row_of(const V& view, index t, index first) {
  return view.template as<float>() + t * view.strides[0] + first;
}

}  // namespace

Status Gatherer::gather(const AllGather& step) {
  ++step_;
  Status status = gather_rows(step);
  if (status.ok()) return status;
  const std::string where = std::string(AllGather::name) + " of " + std::string(step.what) +
                            (step.layer < 0 ? "" : " in layer " + std::to_string(step.layer)) + ", step " +
                            std::to_string(step_) + " of pass " + std::to_string(pass_) + ": ";
  return {status.code(), where + std::string(status.message())};
}

Status Gatherer::gather_rows(const AllGather& step) {
  const index rows = step.y.extents[0];
  const auto first = [&](int rank) { return step.shares.begin(rank, comm_.size); };
  const auto count = [&](int rank) { return step.shares.count(rank, comm_.size); };
  const auto bytes_of = [&](index columns) { return static_cast<std::size_t>(columns) * sizeof(float); };
  bytes_.clear();
  for (int rank = 0; rank < comm_.size; ++rank) bytes_.push_back(bytes_of(rows * count(rank)));
  if (rows == 1)  // columns lie as ranks say them
    return comm_.all_gather(comm_.context, row_of(step.own, 0, 0), bytes_, row_of(step.y, 0, 0), comm_.deadline);

  const index own = count(comm_.rank);
  own_.resize(bytes_of(rows * own));
  all_.resize(bytes_of(rows * step.shares.columns));
  for (index t = 0; t < rows; ++t) std::memcpy(own_.data() + bytes_of(t * own), row_of(step.own, t, 0), bytes_of(own));
  Status status = comm_.all_gather(comm_.context, own_.data(), bytes_, all_.data(), comm_.deadline);
  const std::byte* from = all_.data();
  for (int rank = 0; status.ok() && rank < comm_.size; ++rank)
    for (index t = 0; t < rows; ++t, from += bytes_of(count(rank)))
      std::memcpy(row_of(step.y, t, first(rank)), from, bytes_of(count(rank)));
  return status;
}

}  // namespace inlay::exec
