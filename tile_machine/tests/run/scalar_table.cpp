// Tables that are read ahead: the entries, when they are loaded, and what a paged gather makes of them.
#include "tile_machine/run/scalar_table.hpp"

#include <numeric>

#include "tile_machine/tests/support/programs.hpp"

namespace inlay::npu {
namespace {

// Rows of a pool in blocks of 3, in an order that a table gives.
template <class Id> void expect_gather() {
  constexpr index blocks = 50, block_rows = 3, columns = 32;
  const auto pool = random_values<float>(blocks * block_rows * columns, -1, 1, 1);
  std::vector<Id> table(37);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<Id>(i * 29 % blocks);
  const auto rows = static_cast<index>(table.size()) * block_rows;
  for (const Device& device : {split_device(2), flat_device(2)})
    for (Policy policy : policies) {
      std::vector<float> checked(static_cast<std::size_t>(rows * columns)), fast(checked.size());
      const auto on = [&](GlobalMemory& machine, std::vector<float>& y) -> std::function<void(Core&)> {
        const Tensor from = machine.global("pool", std::span(pool), {blocks * block_rows, columns});
        const Tensor ids = machine.global("table", std::span(std::as_const(table)), {1, rows / block_rows});
        const Tensor to = machine.global("y", std::span(y), {rows, columns}, Use::out);
        return [=](Core& m) {
          ScalarTable blocks_of(m, "blocks", ids, 8);
          Ring ring = m.ring("rows", Space::vector, {10, columns}, DType::f32, {2, Pipe::load_vector, Pipe::store});
          for (index row = 10 * static_cast<index>(m.block_idx()); row < rows; row += 20) {
            const index count = std::min<index>(10, rows - row);
            m.gather_blocks(ring.acquire().row_slice(0, count), from, blocks_of, row, block_rows);
            ring.commit();
            m.copy(to.row_slice(row, count), ring.wait().row_slice(0, count));
            ring.release();
          }
        };
      };
      Machine slow(device, {.policy = policy});
      expect_clean(slow, on(slow, checked));
      FunctionalMachine quick(device);
      expect_no_reports(quick.run(on(quick, fast)), device.name);
      for (index r = 0; r < rows; ++r)
        for (index c = 0; c < columns; ++c) {
          const auto block = static_cast<index>(table[static_cast<std::size_t>(r / block_rows)]);
          const float right = pool[static_cast<std::size_t>((block * block_rows + r % block_rows) * columns + c)];
          ASSERT_EQ(checked[static_cast<std::size_t>(r * columns + c)], right) << device.name;
          ASSERT_EQ(fast[static_cast<std::size_t>(r * columns + c)], right) << device.name;
        }
    }
}

TEST(ScalarTable, NamesTheBlocksOfAGather) {
  expect_gather<std::int32_t>();
  expect_gather<std::int64_t>();
}

// The scalar unit reads global memory never; a part is loaded while the one before it is read.
TEST(ScalarTable, IsReadAhead) {
  const Device device = split_device(1);
  std::vector<std::int32_t> table(40);
  std::iota(table.begin(), table.end(), 100);
  Machine machine(device);
  const Tensor ids = machine.global("table", std::span(std::as_const(table)), {1, 40});
  std::vector<index> read;
  const Outcome outcome = machine.run([&](Core& m) {
    ScalarTable entries(m, "entries", ids, 16);
    for (index i = 0; i < 40; i += 3) read.push_back(entries.at(i));
  });
  expect_no_reports(outcome.reports, device.name);
  expect_no_reports(check(outcome.log, device), device.name);
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i], static_cast<index>(100 + 3 * i));
  std::vector<std::string> order;
  for (const Entry& entry : outcome.log.entries) {
    if (entry.event != Event::work) continue;
    const Footprint& first = outcome.log.footprints[entry.footprints];
    EXPECT_EQ(entry.pipe == Pipe::scalar, first.memory != 0);
    if (order.empty() || order.back() != entry.verb) order.emplace_back(entry.verb);
  }
  // Two parts, reads of the first, the third part, reads of the others.
  EXPECT_EQ(order, (std::vector<std::string>{"copy", "scalar_read", "copy", "scalar_read"}));
}

TEST(ScalarTable, AsksForEntriesThatAreThere) {
  const Device device = split_device(1);
  std::vector<std::int32_t> table(40);
  const auto message_of = [&](std::initializer_list<index> entries) {
    FunctionalMachine machine(device);
    const Tensor ids = machine.global("table", std::span(std::as_const(table)), {1, 40});
    const auto reports = machine.run([&](Core& m) {
      ScalarTable all(m, "entries", ids, 16);
      for (index i : entries) all.at(i);
    });
    return reports.empty() ? "" : reports[0].message;
  };
  EXPECT_EQ(message_of({0, 15, 3, 39}), "");
  EXPECT_NE(message_of({40}).find("entry 40 of 40 is not there"), std::string::npos);
  EXPECT_NE(message_of({-1}).find("entry -1 of 40 is not there"), std::string::npos);
  EXPECT_NE(message_of({20, 15}).find("entry 15 of 40 lies before the part that was read last"), std::string::npos);
}

}  // namespace
}  // namespace inlay::npu
