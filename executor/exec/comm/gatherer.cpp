#include <inlay/exec/comm/gatherer.hpp>

#include <cstring>
#include <string>

namespace inlay::exec {

namespace {

// Row t of the columns of a view that begin at `first`.
template <class V> auto* row_of(const V& view, index t, index first) {
  return view.template as<float>() + t * view.strides[0] + first;
}

std::size_t bytes_of(index floats) { return static_cast<std::size_t>(floats) * sizeof(float); }

// A failure, and where it was.
template <class Step> Status told(const Step& step, index number, index pass, Status status) {
  if (status.ok()) return status;
  const std::string where = std::string(Step::name) + " of " + std::string(step.what) +
                            (step.layer < 0 ? "" : " in layer " + std::to_string(step.layer)) + ", step " +
                            std::to_string(number) + " of pass " + std::to_string(pass) + ": ";
  return {status.code(), where + std::string(status.message())};
}

}  // namespace

Status Gatherer::gather(const AllGather& step) {
  ++step_;
  return told(step, step_, pass_, gather_rows(step));
}
Status Gatherer::gather(const AllSum& step) {
  ++step_;
  return told(step, step_, pass_, add_rows(step));
}

Status Gatherer::gather_rows(const AllGather& step) {
  const index rows = step.y.extents[0];
  const auto first = [&](int rank) { return step.shares.begin(rank, comm_.size); };
  const auto count = [&](int rank) { return step.shares.count(rank, comm_.size); };
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

Status Gatherer::add_rows(const AllSum& step) {
  const index rows = step.y.extents[0], columns = step.y.extents[1];
  const std::size_t part = bytes_of(rows * columns);
  bytes_.assign(static_cast<std::size_t>(comm_.size), part);
  all_.resize(part * bytes_.size());
  std::byte* const own = all_.data() + part * static_cast<std::size_t>(comm_.rank);
  for (index t = 0; t < rows; ++t) std::memcpy(own + bytes_of(t * columns), row_of(step.y, t, 0), bytes_of(columns));
  Status status = comm_.all_gather(comm_.context, own, bytes_, all_.data(), comm_.deadline);
  if (!status.ok()) return status;
  const float* from = reinterpret_cast<const float*>(all_.data());
  for (int rank = 0; rank < comm_.size; ++rank)
    for (index t = 0; t < rows; ++t, from += columns) {
      float* const sum = row_of(step.y, t, 0);
      if (rank == 0)
        std::memcpy(sum, from, bytes_of(columns));
      else
        for (index c = 0; c < columns; ++c) sum[c] += from[c];
    }
  return status;
}

}  // namespace inlay::exec
