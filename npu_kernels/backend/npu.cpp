#include <inlay/npu.hpp>

#include <cstdlib>
#include <utility>

#include "npu_kernels/backend/descriptions.hpp"
#include "npu_kernels/backend/runtime.hpp"

namespace inlay {

namespace {

bool names_a_file(std::string_view device) { return device.find('/') != device.npos || device.ends_with(".json"); }

Expected<npu::Device> device_of(const std::string& wanted) {
  if (names_a_file(wanted)) return npu::load_device(wanted);
  std::string known;
  for (const npu::Description& description : npu::descriptions()) {
    if (description.name == wanted) return npu::parse_device(description.text);
    known.append(known.empty() ? "" : ", ").append(description.name);
  }
  return failure(StatusCode::not_found,
                 "device is " + wanted + "; it must be one of " + known + ", or the path of a description (.json)");
}

}  // namespace

std::vector<std::string_view> npu_devices() {
  std::vector<std::string_view> names;
  for (const npu::Description& description : npu::descriptions()) names.push_back(description.name);
  return names;
}

Npu::Npu(std::unique_ptr<npu::Runtime> runtime) : runtime_(std::move(runtime)) {}
Npu::Npu(Npu&&) noexcept = default;
Npu& Npu::operator=(Npu&&) noexcept = default;
Npu::~Npu() = default;

Expected<Npu> Npu::make(const NpuOptions& wanted) {
  NpuOptions options = wanted;
  if (options.device.empty()) {
    const char* named = std::getenv("INLAY_NPU_DEVICE");
    options.device = named != nullptr && *named != '\0' ? named : "ascend-a2-like";
  }
  auto device = device_of(options.device);
  if (!device) return failure(std::move(device.error()));
  if (options.cores > device->cores)
    return failure(invalid("cores is " + std::to_string(options.cores) + "; " + device->name + " has " +
                           std::to_string(device->cores)));
  return Npu(std::make_unique<npu::Runtime>(std::move(options), std::move(*device)));
}

const NpuOptions& Npu::options() const { return runtime_->options(); }
const std::string& Npu::device_name() const { return runtime_->device().name; }

}  // namespace inlay
