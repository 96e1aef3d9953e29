#include <inlay/npu.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "npu_kernels/backend/descriptions.hpp"
#include "npu_kernels/backend/runtime.hpp"

namespace inlay {

namespace {

bool names_a_file(std::string_view device) { return device.find('/') != device.npos || device.ends_with(".json"); }
bool is_a_description(std::string_view device) { return device.starts_with('{'); }

}  // namespace

namespace npu {

Expected<std::string> description_of(const std::string& device) {
  if (is_a_description(device)) return device;
  if (names_a_file(device)) {
    std::ifstream file(device, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return failure(StatusCode::not_found, device + " cannot be read");
    return text.str();
  }
  std::string known;
  for (const Description& description : descriptions()) {
    if (description.name == device) return std::string(description.text);
    known.append(known.empty() ? "" : ", ").append(description.name);
  }
  return failure(StatusCode::not_found,
                 "device is " + device + "; it must be one of " + known + ", or the path of a description (.json)");
}

}  // namespace npu

namespace {

Expected<npu::Device> device_of(const std::string& wanted) {
  if (names_a_file(wanted) && !is_a_description(wanted)) return npu::load_device(wanted);  // which names the file
  auto text = npu::description_of(wanted);
  if (!text) return failure(std::move(text.error()));
  return npu::parse_device(*text);
}

}  // namespace

std::vector<std::string_view> npu_devices() {
  std::vector<std::string_view> names;
  for (const npu::Description& description : npu::descriptions()) names.push_back(description.name);
  return names;
}

namespace {

// With the device that the options name, once they are completed.
struct Chosen {
  NpuOptions options;
  npu::Device device;
};
Expected<Chosen> chosen(const NpuOptions& wanted) {
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
  return Chosen{std::move(options), std::move(*device)};
}

}  // namespace

Npu::Npu(std::unique_ptr<npu::Runtime> runtime) : runtime_(std::move(runtime)) {}
Npu::Npu(Npu&&) noexcept = default;
Npu& Npu::operator=(Npu&&) noexcept = default;
Npu::~Npu() = default;

Expected<Npu> Npu::make(const NpuOptions& wanted) {
  auto made = chosen(wanted);
  if (!made) return failure(std::move(made.error()));
  return Npu(std::make_unique<npu::Runtime>(std::move(made->options), std::move(made->device)));
}

const NpuOptions& Npu::options() const { return runtime_->options(); }
const std::string& Npu::device_name() const { return runtime_->device().name; }

NpuEstimator::NpuEstimator(std::unique_ptr<npu::Costs> costs) : costs_(std::move(costs)) {}
NpuEstimator::NpuEstimator(NpuEstimator&&) noexcept = default;
NpuEstimator& NpuEstimator::operator=(NpuEstimator&&) noexcept = default;
NpuEstimator::~NpuEstimator() = default;

Expected<NpuEstimator> NpuEstimator::make(const NpuOptions& wanted) {
  auto made = chosen(wanted);
  if (!made) return failure(std::move(made.error()));
  return NpuEstimator(
      std::make_unique<npu::Costs>(std::move(made->device), made->options.cores, made->options.activations));
}

namespace npu {

namespace {

Status taken() {
  return invalid(
      "another thread is using this Npu; it must be one thread's at a time: make an Npu for each thread, and an "
      "NpuEstimator for estimates beside them");
}

}  // namespace

Status supports(const Npu& npu, const AnyOperator& op) {
  const Runtime::Turn turn = npu.runtime().turn();
  return turn ? npu.runtime().supports(op) : taken();
}
std::size_t scratch_bytes(const Npu& npu, const AnyOperator& op) {
  const Runtime::Turn turn = npu.runtime().wait_for_turn();
  return npu.runtime().scratch_bytes(op);
}
Status compute(const Npu& npu, const AnyOperator& op, const Workspace& workspace) {
  const Runtime::Turn turn = npu.runtime().turn();
  return turn ? npu.runtime().compute(op, workspace) : taken();
}
Expected<NpuEstimate> estimate(const Npu& npu, const AnyOperator& op) {
  const Runtime::Turn turn = npu.runtime().turn();
  return turn ? npu.runtime().estimate(op) : failure(taken());
}
Expected<Plan> plan(const Npu& npu, const AnyOperator& op) {
  const Runtime::Turn turn = npu.runtime().turn();
  return turn ? npu.runtime().plan(op) : failure(taken());
}
std::size_t packed_bytes(const Npu& npu, const AnyOperator& op) {
  const Runtime::Turn turn = npu.runtime().wait_for_turn();
  return npu.runtime().packed_bytes(op);
}
Status pack(const Npu& npu, const AnyOperator& op, std::span<std::byte> memory) {
  const Runtime::Turn turn = npu.runtime().turn();
  return turn ? npu.runtime().pack(op, memory) : taken();
}
Expected<NpuEstimate> estimate(const NpuEstimator& estimator, const AnyOperator& op) {
  return estimator.costs().estimate(op);
}
Expected<NpuUsAtDramShares> us_at_dram_shares(const Npu& npu, const AnyOperator& op) {
  const Runtime::Turn turn = npu.runtime().turn();
  return turn ? npu.runtime().us_at_dram_shares(op) : failure(taken());
}
Expected<NpuUsAtDramShares> us_at_dram_shares(const NpuEstimator& estimator, const AnyOperator& op) {
  return estimator.costs().us_at_dram_shares(op);
}

}  // namespace npu

std::size_t forget(const Npu& npu, std::span<const std::byte> memory) {
  const npu::Runtime::Turn turn = npu.runtime().wait_for_turn();
  return npu.runtime().packed().forget(memory);
}

}  // namespace inlay
