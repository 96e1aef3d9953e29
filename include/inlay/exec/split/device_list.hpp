// Devices as a file describes them, for plans of what is not there. The file:
//
//   {"devices": [{"name": "npu", "kind": "npu", "operators": ["linear", "linear_w4a16"],
//                 "rates": {"flops_a_us": 1e7, "bytes_a_us": 43300, "submit_us": 15}},
//                {"name": "cpu", "kind": "cpu", "slowed": 1.3,
//                 "profile": {"profile": 2, "device": "cpu", "steps": [..]}}],
//    "sync_us": 400, "us_a_byte": 0, "shared_bytes_a_us": 59100}
//
// A device has rates or a Profile (inlay/exec/time/profile.hpp has its form): what it takes all alone, and `slowed`
// times that while others are at work, since devices share memory, power or even cores. `operators` are those that it
// computes, all of them where that is left out. `sync_us` is what a step waits whose input another device wrote, and
// `us_a_byte` what each byte of that costs; `shared_bytes_a_us` is what all of them read together at most, 0: without
// bound. All three are 0 where they are left out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/exec/device/device.hpp>
#include <inlay/exec/time/profile.hpp>

namespace inlay::exec {

// A roofline: a step takes a submit, and the longer of its operations and its bytes.
struct DeviceRates {
  double flops_a_us = 0, bytes_a_us = 0, submit_us = 0;

  double us(double flops, double bytes) const {
    return submit_us + (flops / flops_a_us > bytes / bytes_a_us ? flops / flops_a_us : bytes / bytes_a_us);
  }
};

struct ListedDevice {
  std::string name;
  DeviceKind kind = DeviceKind::cpu;
  std::vector<std::string> operators = {};  // none: all
  std::optional<DeviceRates> rates = {};
  std::optional<Profile> profile = {};  // where there are no rates
  double slowed = 1;

  bool computes(std::string_view op) const;
};

struct DeviceList {
  std::vector<ListedDevice> devices;
  double sync_us = 0, us_a_byte = 0, shared_bytes_a_us = 0;

  // Errors, each with its place, what it is and what it must be: what is not of the form above, a key that it does not
  // have, two devices of one name, more than 16 of them.
  static Expected<DeviceList> from_json(std::string_view text);
  std::string json() const;
};

}  // namespace inlay::exec
