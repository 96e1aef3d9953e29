// The matrix unit of functional mode: operands widened into rows and panels, then the host's SIMD.
#include <vector>

#include "tile_machine/arithmetic/elements.hpp"
#include "tile_machine/arithmetic/host_product.hpp"

namespace inlay::npu::tiles {

namespace {

// Products of int8 are at most 2^14: the sum of 2^10 of them is exact in f32, in any order.
constexpr index exact_depth = 1024;

const std::byte* address(const Tile& tile, index row, index column) {
  return tile.data + element_offset(tile.form, row, column) * (bits(tile.form.dtype) / 8);
}

// Columns [first, first + count) of a row, side by side in f32.
void widen_row(const HostProduct& host, const Tile& tile, index row, index first, index count, float* to) {
  if (bits(tile.form.dtype) == 4) return load_nibbles(tile, row, first, count, to);
  for (index i = 0; i < count;) {
    const index run = adjacent(tile.form, first + i, count - i);
    host.widen(tile.form.dtype, address(tile, row, first + i), to + i, run);
    i += run;
  }
}

// Rows of a, up to a multiple of row_step. What fills the last step and the last panel is never stored.
void pack_rows(const HostProduct& host, const Tile& a, index first, index depth, std::vector<float>& rows) {
  const index count = (a.form.rows() + row_step - 1) / row_step * row_step;
  rows.resize(static_cast<std::size_t>(count * depth));
  if (a.form.flipped) {
    for (index row = 0; row < a.form.rows(); ++row) load(a, row, first, depth, rows.data() + row * depth);
  } else {
    for (index row = 0; row < a.form.rows(); ++row) widen_row(host, a, row, first, depth, rows.data() + row * depth);
  }
}

void pack_panels(const HostProduct& host, const Tile& b, index first, index depth, std::vector<float>& panels,
                 std::vector<float>& lines) {
  const index panel = host.panel, columns = b.form.columns(), count = (columns + panel - 1) / panel;
  panels.resize(static_cast<std::size_t>(count * panel * depth));
  if (!b.form.flipped) {
    for (index c = 0; c < columns; c += panel)
      for (index k = 0; k < depth; ++k)
        widen_row(host, b, first + k, c, std::min(panel, columns - c), panels.data() + c * depth + k * panel);
    return;
  }
  // The layout's rows are columns of b: a square of them is widened, then turned.
  constexpr index width = 16, height = 64;
  Tile rows = b;
  rows.form = b.form.transposed();
  lines.resize(width * height);
  for (index c = 0; c < columns; c += width)
    for (index k = 0; k < depth; k += height) {
      const index wide = std::min(width, columns - c), high = std::min(height, depth - k);
      for (index i = 0; i < wide; ++i) widen_row(host, rows, c + i, first + k, high, lines.data() + i * height);
      float* to = panels.data() + c / panel * panel * depth + k * panel + c % panel;
      for (index j = 0; j < high; ++j)
        for (index i = 0; i < wide; ++i) to[j * panel + i] = lines[static_cast<std::size_t>(i * height + j)];
    }
}

void add_exact(const Tile& acc, const std::vector<float>& sums, bool init) {
  for (index row = 0; row < acc.form.rows(); ++row)
    for (index column = 0; column < acc.form.columns(); ++column) {
      auto* to = element<std::uint32_t>(acc, row, column);
      const auto sum = static_cast<std::int32_t>(sums[static_cast<std::size_t>(row * acc.form.columns() + column)]);
      *to = (init ? 0u : *to) + static_cast<std::uint32_t>(sum);
    }
}

}  // namespace

void multiply_on_host(const Tile& acc, const Tile& a, const Tile& b, bool init, const Numerics& numerics,
                      const HostProduct& host, HostBuffers& buffers) {
  const bool plain = acc.form.layout == Layout::nd && !acc.form.flipped;
  if (host.multiply == nullptr || !plain || a.form.columns() == 0) return multiply(acc, a, b, init, numerics);
  const bool exact = acc.form.dtype == DType::i32;
  const index k = a.form.columns(), chunk = exact ? exact_depth : k;
  auto& [rows, panels, lines, sums] = buffers;
  Product product;
  product.rows = acc.form.rows();
  product.columns = acc.form.columns();
  product.fused = numerics.fused_multiply_add;
  for (index first = 0; first < k; first += chunk) {
    product.k = std::min(chunk, k - first);
    pack_rows(host, a, first, product.k, rows);
    pack_panels(host, b, first, product.k, panels, lines);
    product.a = rows.data();
    product.b = panels.data();
    product.k_block = exact ? product.k : std::max<index>(1, numerics.k_block);
    product.init = exact || init;
    product.acc_pitch = exact ? product.columns : acc.form.pitch;
    if (exact) sums.resize(static_cast<std::size_t>(product.rows * product.columns));
    product.acc = exact ? sums.data() : element<float>(acc, 0, 0);
    host.multiply(product);
    if (exact) add_exact(acc, sums, init && first == 0);
  }
}

}  // namespace inlay::npu::tiles
