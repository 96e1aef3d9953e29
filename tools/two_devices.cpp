#include "tools/two_devices.hpp"

#include <utility>

namespace inlay::tools {

void add_place(CLI::App& command, ModelOptions& options) {
  command.add_option("--place", options.place,
                     "Which operators the device beside the cpu computes: all, linears, attention, layers:FIRST-LAST, "
                     "each with =DEVICE, after commas; the later one counts (default: its linears)");
  command.add_option(
      "--split", options.split,
      "How its linears are cut between both: none, rows, sequence, multi-sequence or hybrid, with :SHARE "
      "(0.5) that it has");
  command.add_option(
      "--devices", options.devices,
      "A file of inlay profile --backend cpu+..: steps are placed so that they take least (where --place "
      "is left out), and linears cut where both devices are faster than either");
  command
      .add_option("--outliers", options.outliers,
                  "What static scales (--scales) clip of an int8 linear: computed within it, or by the cpu beside it")
      ->check(CLI::IsMember({"within", "cpu"}));
  command
      .add_option(
          "--watchdog", options.watchdog,
          "Seconds after which a step of the device beside the cpu has failed; the cpu goes on alone (0: never)")
      ->check(CLI::Range(0.0, 1e6));
}

Expected<std::optional<exec::DeviceList>> read_devices(const ModelOptions& options) {
  std::optional<exec::DeviceList> list;
  if (options.devices.empty()) return list;
  auto text = read_option("--devices", options.devices);
  if (!text) return failure(std::move(text.error()));
  auto read = exec::DeviceList::from_json(*text);
  if (!read)
    return failure(read.error().code(), "--devices is " + options.devices + ": " + std::string(read.error().message()));
  list = std::move(*read);
  return list;
}

Status check_of_two(const ModelOptions& options) {
  const std::pair<const char*, const std::string&> of_two[] = {{"--place", options.place},
                                                               {"--split", options.split},
                                                               {"--devices", options.devices},
                                                               {"--outliers", options.outliers}};
  for (const auto& [option, value] : of_two)
    if (!value.empty() && options.backend.find('+') == options.backend.npos)
      return invalid(std::string(option) + " is " + value +
                     ", which is --backend cpu+cl's and cpu+npu's; with --backend " + options.backend +
                     " it must be left out");
  return {};
}

}  // namespace inlay::tools
