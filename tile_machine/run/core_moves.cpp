// DMA verbs.
#include <algorithm>

#include "tile_machine/run/machine_core.hpp"
#include "tile_machine/run/scalar_table.hpp"

namespace inlay::npu {

namespace {

struct Move {
  Tile to, from;
  void operator()() const { tiles::copy(to, from); }
};

struct Sum {
  Tile to, from;
  void operator()() const { tiles::atomic_add(to, from); }
};

}  // namespace

const Path* MachineCore::legal_path(const char* verb, const Tensor& to, const Tensor& from, Site site) {
  const Path* path = device().path(from.space, to.space);
  if (path == nullptr) {
    illegal(verb, "there is no path from " + describe(from) + " to " + describe(to), site);
    return nullptr;
  }
  if (to.shape != from.shape) {
    illegal(verb, "the shapes of " + describe(from) + " and " + describe(to) + " differ", site);
    return nullptr;
  }
  if (to.space == Space::global && run_.memories.use(to.buffer) == Use::in) {
    illegal(verb, run_.memories.buffer(to.buffer).name + " is an input", site);
    return nullptr;
  }
  const bool right = (to.space == Space::global || aligned(verb, to, site)) &&
                     (from.space == Space::global || aligned(verb, from, site));
  return right ? path : nullptr;
}

Work MachineCore::dma_work(const Path& path, const Tensor& to, const Tensor& from, Change change) const {
  Work work;
  work.unit = Unit::dma;
  work.change = change;
  work.path = static_cast<std::uint8_t>(&path - device().paths.data());
  work.in = from.dtype;
  work.out = to.dtype;
  const Region source = from.region(), target = to.region();
  // What the far side sees decides the length of a run: the scratch side is random access.
  const Region& far = path.to == Space::global ? target : source;
  work.bytes = far.runs * far.bytes;
  work.runs = far.runs;
  return work;
}

void MachineCore::move(const char* verb, const Tensor& destination, const Tensor& source, Change change, Site site) {
  if (!moves_here(destination, source)) return;
  const Tensor to = target(destination, verb, site), from = resolve(source);
  if (!usable(verb, {&to, &from}, site)) return;
  const Path* path = legal_path(verb, to, from, site);
  if (path == nullptr) return;
  if (to.dtype != from.dtype)
    return illegal(verb, "the types of " + describe(from) + " and " + describe(to) + " differ", site);
  if ((change == Change::nd2nz && !path->nd2nz.legal) || (change == Change::turn && !path->turn.legal))
    return illegal(verb,
                   std::string("the path from ").append(name(from.space)).append(" to ").append(name(to.space)) +
                       (change == Change::turn ? " does not turn an operand" : " does not change layouts"),
                   site);
  const Move body{tile(to), tile(from)};
  issue(path->pipe, verb, site, dma_work(*path, to, from, change), {{from}, {to, true}}, body,
        {{body.to.form, body.to.data}, {body.from.form, body.from.data}});
}

void MachineCore::copy(const Tensor& to, const Tensor& from, Site site) {
  if (to.layout != from.layout) return illegal("copy", "layouts differ; nd2nz changes them", site);
  move("copy", to, from, Change::none, site);
}

void MachineCore::nd2nz(const Tensor& to, const Tensor& from, Site site) {
  if (to.layout != Layout::nz || from.layout != Layout::nd)
    return illegal("nd2nz", "it takes an nd tensor into an nz one", site);
  move("nd2nz", to, from, Change::nd2nz, site);
}

void MachineCore::gather(const Tensor& to, const Tensor& pool, const std::function<index(index)>& table, index first,
                         index block_rows, Site site) {
  if (stopped() || !moves_here(to, pool)) return;
  if (block_rows < 1) return illegal("gather_blocks", "block_rows is " + std::to_string(block_rows), site);
  for (index row = 0; row < to.rows();) {
    const index block = (first + row) / block_rows, inside = (first + row) % block_rows;
    const index rows = std::min(block_rows - inside, to.rows() - row);
    const index number = table(block);
    if (stopped()) return;
    const index at = number * block_rows + inside;
    if (number < 0 || at + rows > pool.rows())
      return illegal("gather_blocks",
                     "the table names block " + std::to_string(number) + " of a pool of " +
                         std::to_string(pool.rows() / block_rows),
                     site);
    const Change change = to.layout == pool.layout ? Change::none : Change::nd2nz;
    move("gather_blocks", to.row_slice(row, rows), pool.row_slice(at, rows), change, site);
    row += rows;
  }
}

void MachineCore::gather_blocks(const Tensor& to, const Tensor& pool, const Tensor& table, index first,
                                index block_rows, Site site) {
  const auto read = [&](index block) { return static_cast<index>(scalar_read(table, 0, block, site)); };
  gather(to, pool, read, first, block_rows, site);
}

void MachineCore::gather_blocks(const Tensor& to, const Tensor& pool, ScalarTable& table, index first, index block_rows,
                                Site site) {
  const auto read = [&](index block) { return table.at(block, site); };
  gather(to, pool, read, first, block_rows, site);
}

void MachineCore::bind(const char* verb, const Tensor& view, const Tensor& staged, Site site) {
  if (view.shape != staged.shape)
    return illegal(verb, "the shapes of " + describe(staged) + " and " + describe(view) + " differ", site);
  if (!device().same_memory(staged.space, view.space))
    return illegal(verb, "there is no path from " + describe(staged) + " to " + describe(view), site);
  if (view.begin != 0 || view.pitch != 0)
    return illegal(verb, "a view is bound as a whole, from its first element", site);
  Tensor& bound = bindings_[view.view];
  bound = staged;
  if (staged.slot != none) ++slots_[staged.slot].views;
}

void MachineCore::load_a(const Tensor& left, const Tensor& staged, Site site) {
  if (!runs(Pipe::feed)) return;
  if (left.view != none) {
    const Tensor from = resolve(staged);
    if (usable("load_a", {&from}, site)) bind("load_a", left, from, site);
    return;
  }
  if (!stopped() && staged.layout != Layout::nz) return illegal("load_a", "the staged tile must be nz", site);
  move("load_a", left, staged, staged.flipped ? Change::turn : Change::none, site);
}

void MachineCore::load_b(const Tensor& right, const Tensor& staged, bool transpose, Site site) {
  if (!runs(Pipe::feed)) return;
  const Tensor from = transpose ? staged.transposed() : staged;
  if (right.view != none) {
    const Tensor bound = resolve(from);
    if (usable("load_b", {&bound}, site)) bind("load_b", right, bound, site);
    return;
  }
  if (!stopped() && staged.layout != Layout::nz) return illegal("load_b", "the staged tile must be nz", site);
  move("load_b", right, from, device().turns(from.flipped) ? Change::turn : Change::none, site);
}

void MachineCore::atomic_add(const Tensor& destination, const Tensor& source, Site site) {
  if (!moves_here(destination, source)) return;
  const Tensor to = target(destination, "atomic_add", site), from = resolve(source);
  if (!usable("atomic_add", {&to, &from}, site)) return;
  if (to.space != Space::global) return illegal("atomic_add", "it adds to global memory, not to " + describe(to), site);
  const Path* path = legal_path("atomic_add", to, from, site);
  if (path == nullptr) return;
  const Sum body{tile(to), tile(from)};
  issue(path->pipe, "atomic_add", site, dma_work(*path, to, from), {{from}, {to, false, true}, {to, true, true}}, body,
        {{body.to.form, body.to.data}, {body.from.form, body.from.data}});
}

}  // namespace inlay::npu
