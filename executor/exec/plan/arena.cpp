#include <inlay/exec/plan/arena.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include <inlay/core/workspace.hpp>

namespace inlay::exec {
namespace {

constexpr auto alignment = static_cast<std::ptrdiff_t>(workspace_alignment);

std::ptrdiff_t round_up(std::ptrdiff_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
std::ptrdiff_t remainder_of(std::ptrdiff_t address) { return (address % alignment + alignment) % alignment; }

// Of runs by where they begin, which do not overlap: the first that ends behind `at`.
template <class Runs> auto first_behind(Runs& runs, std::ptrdiff_t at) {
  auto run = runs.upper_bound(at);
  return run != runs.begin() && std::prev(run)->second.end > at ? std::prev(run) : run;
}

// Which step wrote each byte last.
class LastWriters {
 public:
  // visit(writer) for each writer of these bytes; false where some have none.
  template <class Visit> bool each(const Access& access, Visit&& visit) const {
    bool all = true;
    for (index row = 0; row < access.rows; ++row) {
      std::ptrdiff_t at = access.begin + row * access.period;
      const std::ptrdiff_t end = at + access.span;
      for (auto run = first_behind(runs_, at); at < end; ++run) {
        if (run == runs_.end() || run->first >= end || run->first > at) {
          all = false;
          if (run == runs_.end() || run->first >= end) break;
        }
        visit(run->second.writer);
        at = run->second.end;
      }
    }
    return all;
  }
  void write(const Access& access, index writer) {
    for (index row = 0; row < access.rows; ++row) {
      const std::ptrdiff_t begin = access.begin + row * access.period, end = begin + access.span;
      auto run = first_behind(runs_, begin);
      while (run != runs_.end() && run->first < end) {
        const auto [first, old] = *run;
        run = runs_.erase(run);
        if (first < begin) runs_[first] = {begin, old.writer};
        if (old.end > end) runs_[end] = old;
      }
      runs_[begin] = {end, writer};
    }
  }

 private:
  struct Run {
    std::ptrdiff_t end;
    index writer;
  };

  std::map<std::ptrdiff_t, Run> runs_;  // by where they begin; they do not overlap
};

bool all_precede(const Edges& order, const std::vector<index>& earlier, const std::vector<index>& later) {
  for (const index a : earlier)
    for (const index b : later)
      if (!order.precedes(a, b)) return false;
  return true;
}

}  // namespace

// Accesses that overlap in address, directly or by way of others: a buffer, or what is used of it.
struct Arena::Region {
  struct Touch {
    index step;
    std::size_t access;
  };
  ByteRange bytes;
  std::vector<Touch> touches;
  bool moves = true, written = false;
};

Arena::Arena(std::vector<Accesses> steps, std::span<const ByteRange> kept) : steps_(std::move(steps)) {
  std::vector<Region::Touch> touches;
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    tensor_of_.emplace_back(steps_[step].size(), -1);
    for (std::size_t access = 0; access < steps_[step].size(); ++access)
      touches.push_back({static_cast<index>(step), access});
  }
  const auto access_of = [&](const Region::Touch& touch) -> const Access& {
    return steps_[static_cast<std::size_t>(touch.step)][touch.access];
  };
  std::stable_sort(touches.begin(), touches.end(), [&](const Region::Touch& a, const Region::Touch& b) {
    return access_of(a).begin < access_of(b).begin;
  });
  std::vector<Region> regions;
  for (const Region::Touch& touch : touches) {
    const Access& access = access_of(touch);
    if (regions.empty() || access.begin >= regions.back().bytes.end)
      regions.push_back({.bytes = {access.begin, access.end()}, .touches = {}});
    Region& region = regions.back();
    region.bytes.end = std::max(region.bytes.end, access.end());
    region.touches.push_back(touch);
    region.written = region.written || access.writes;
  }
  for (Region& region : regions) {
    for (const ByteRange& range : kept)
      if (range.begin < region.bytes.end && region.bytes.begin < range.end) region.moves = false;
    if (region.moves && region.written) find_tensors(region);
  }
}

// Between two tensors of a region no byte that is written is still to be read.
void Arena::find_tensors(Region& region) {
  std::stable_sort(region.touches.begin(), region.touches.end(),
                   [](const Region::Touch& a, const Region::Touch& b) { return a.step < b.step; });
  std::map<index, index> last_use;  // of what a step wrote
  LastWriters writers;
  for (auto begin = region.touches.begin(); begin != region.touches.end();) {
    const index step = begin->step;
    const auto end =
        std::find_if(begin, region.touches.end(), [&](const Region::Touch& touch) { return touch.step != step; });
    last_use[step] = step;
    for (auto touch = begin; touch != end; ++touch) {
      const Access& access = steps_[static_cast<std::size_t>(step)][touch->access];
      if (access.reads || !access.dense)
        if (!writers.each(access, [&](index writer) { last_use[writer] = step; })) return;
    }
    for (auto touch = begin; touch != end; ++touch)
      if (const Access& access = steps_[static_cast<std::size_t>(step)][touch->access]; access.writes)
        writers.write(access, step);
    begin = end;
  }
  index until = -1;
  for (const Region::Touch& touch : region.touches) {
    const Access& access = steps_[static_cast<std::size_t>(touch.step)][touch.access];
    if (touch.step > until) tensors_.push_back({.recorded = {access.begin, access.end()}, .steps = {}});
    Tensor& tensor = tensors_.back();
    tensor.recorded = {std::min(tensor.recorded.begin, access.begin), std::max(tensor.recorded.end, access.end())};
    if (tensor.steps.empty() || tensor.steps.back() != touch.step) tensor.steps.push_back(touch.step);
    until = std::max(until, last_use[touch.step]);
    tensor_of_[static_cast<std::size_t>(touch.step)][touch.access] = std::ssize(tensors_) - 1;
  }
  recorded_bytes_ += static_cast<std::size_t>(region.bytes.end - region.bytes.begin);
}

std::vector<Accesses> Arena::apart() const {
  std::vector<std::ptrdiff_t> begins;
  std::ptrdiff_t next = 0;
  for (const Accesses& accesses : steps_)
    for (const Access& access : accesses) next = std::max(next, access.end());
  for (const Tensor& tensor : tensors_) {
    begins.push_back(next);
    next += tensor.recorded.end - tensor.recorded.begin;
  }
  std::vector<Accesses> moved = steps_;
  for (std::size_t step = 0; step < moved.size(); ++step)
    for (std::size_t access = 0; access < moved[step].size(); ++access)
      if (const index tensor = tensor_of_[step][access]; tensor >= 0)
        moved[step][access].begin +=
            begins[static_cast<std::size_t>(tensor)] - tensors_[static_cast<std::size_t>(tensor)].recorded.begin;
  return moved;
}

// The largest first, each at the lowest place where nothing lies that may be there at the same time.
void Arena::place(const Edges& order) {
  struct Placed {
    std::ptrdiff_t begin, end;
    const Tensor* tensor;
  };
  const auto size = [](const Tensor& tensor) {
    return remainder_of(tensor.recorded.begin) + tensor.recorded.end - tensor.recorded.begin;
  };
  std::vector<std::size_t> by_size(tensors_.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return size(tensors_[a]) > size(tensors_[b]); });
  std::vector<Placed> placed;  // by where they begin
  std::ptrdiff_t all = 0;
  for (const std::size_t each : by_size) {
    Tensor& tensor = tensors_[each];
    std::ptrdiff_t at = 0;
    for (const Placed& other : placed) {
      if (other.begin >= at + size(tensor)) break;
      if (other.end <= at || all_precede(order, tensor.steps, other.tensor->steps) ||
          all_precede(order, other.tensor->steps, tensor.steps))
        continue;
      at = round_up(other.end);
    }
    const Placed mine{at, at + size(tensor), &tensor};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), mine,
                                   [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
                  mine);
    tensor.offset = at + remainder_of(tensor.recorded.begin);
    all = std::max(all, mine.end);
  }
  bytes_ = static_cast<std::size_t>(round_up(all));
}

void Arena::move(StepGraph& graph, std::byte* memory) const {
  const std::ptrdiff_t base = SpacePointer<Host>::byte_offset(memory);
  std::vector<std::ptrdiff_t> by;
  for (std::size_t step = 0; step < tensor_of_.size(); ++step) {
    by.clear();
    for (const index each : tensor_of_[step]) {
      const Tensor* const tensor = each < 0 ? nullptr : &tensors_[static_cast<std::size_t>(each)];
      by.push_back(tensor == nullptr ? 0 : base + tensor->offset - tensor->recorded.begin);
    }
    graph.steps()[step].move(by);
  }
}

}  // namespace inlay::exec
