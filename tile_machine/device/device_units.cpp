// Of a device description: the matrix and the vector unit.
#include "tile_machine/device/device_reader.hpp"

namespace inlay::npu {
namespace {

constexpr std::size_t max_rates = 64;

constexpr Range array_side{1, 4096, true};
constexpr Range vector_bytes{4, 0x1p16, true, true};
constexpr Range array_count{1, 64, true};

constexpr std::array<std::string_view, 2> dataflows{"weight_stationary", "output_stationary"};
constexpr std::array<std::string_view, 3> preloads{"exposed", "hidden", "pipelined"};
constexpr std::array<std::string_view, 3> right_orders{"any", "rows", "columns"};
constexpr std::array<std::string_view, 3> drain_scales{"none", "one", "columns"};

}  // namespace

void DeviceReader::matrix(const Node& section) {
  const Node node =
      object(section, {"dataflow", "systolic", "preload", "m_granule", "right", "head", "rates", "drain"});
  MatrixUnit& unit = device_.matrix;
  unit.dataflow =
      choice(get(node, "dataflow"), dataflows) == 0 ? Dataflow::weight_stationary : Dataflow::output_stationary;
  const Node systolic = get(node, "systolic");
  if (present(systolic)) {
    unit.systolic = true;
    const Node array = object(systolic, {"rows", "columns", "arrays"});
    figure(array, "rows", array_side, unit.rows);
    figure(array, "columns", array_side, unit.columns);
    figure(array, "arrays", array_count, unit.arrays);
  }
  unit.preload = static_cast<Preload>(choice(get(node, "preload"), preloads));
  figure(node, "m_granule", tile, unit.m_granule);
  unit.right = static_cast<RightOrder>(choice(get(node, "right"), right_orders));
  figure(node, "head", cycles, unit.head);
  list(get(node, "rates"), max_rates, [&](const Node& rate_node) {
    const Node entry = object(rate_node, {"in", "out", "m", "n", "k", "cycles", "weight_cycles", "turn_cycles"});
    const Node out = get(entry, "out");
    MatrixRate step{.in = dtype(get(entry, "in")), .out = dtype(out)};
    figure(entry, "m", tile, step.m);
    figure(entry, "n", tile, step.n);
    figure(entry, "k", tile, step.k);
    figure(entry, "cycles", rate, step.cycles);
    figure(entry, "weight_cycles", cycles, step.weight_cycles);
    figure(entry, "turn_cycles", cycles, step.turn_cycles);
    if (ok() && device_.rate(step.in, step.out) != nullptr)
      refuse_value(out, "unlike that of the other rates of " + std::string(name(step.in)));
    unit.rates.push_back(step);
  });
  list(get(node, "drain"), max_rates, [&](const Node& form_node) {
    const Node entry = object(form_node, {"from", "to", "scales", "bias"});
    const Node from = get(entry, "from"), to = get(entry, "to");
    DrainForm form{.from = dtype(from), .to = dtype(to)};
    form.scales = static_cast<DrainScales>(choice(get(entry, "scales"), drain_scales));
    form.bias = boolean(get(entry, "bias"));
    if (!ok()) return;
    if (std::none_of(unit.rates.begin(), unit.rates.end(), [&](const auto& rate) { return rate.out == form.from; }))
      refuse_value(from, "the type of an accumulator, out of one of the rates");
    if (device_.drain(form.from, form.to) != nullptr)
      refuse_value(to, "unlike that of the other drains of " + std::string(name(form.from)));
    unit.drain.push_back(form);
  });
}

void DeviceReader::vector(const Node& section) {
  const Node node = object(section, {"bytes", "align", "column_cycles", "operations"});
  figure(node, "bytes", vector_bytes, device_.vector.bytes);
  figure(node, "align", alignment, device_.vector.align);
  figure(node, "column_cycles", cycles, device_.vector.column_cycles);
  const auto operation_names = names<VectorOp, vector_ops>();
  const Node operations = some_of(get(node, "operations"), operation_names);
  for (int i = 0; i < vector_ops; ++i) {
    VectorCost& price = device_.vector.cost[i];
    price.available = has(operations, operation_names[i]);
    if (!price.available) continue;
    const Node cost = object(get(operations, operation_names[i]), {"head", "slope"});
    figure(cost, "head", cycles, price.head);
    figure(cost, "slope", rate, price.slope);
  }
}

}  // namespace inlay::npu
